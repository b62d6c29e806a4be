"""A server that does what a test wrote down: one script per dial. It has no sockets, so that time can be virtual."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from msgspec import Raw

import holdfast
from holdfast import ClientSession, SessionEnded
from holdfast.core.codec import MSGPACK
from holdfast.core.connection import Traffic
from holdfast.core.reasons import CLOSE_CODES, Reason
from holdfast.schemas.frames import Auth, Close, Frame, FromClient, Hello, Outcome, Ping, Welcome
from holdfast.testing import run
from holdfast.transports.port import VANISHED, DialError, Receiver, Subprotocol, TransportLimits
from tests.client.script import TERMS

URL = "fake://server"

# What a server does after a hello: frames are sent; a number is a wait in seconds, a string a loss without a word.
Step = Frame | float | str
CUT = "cut"

REFUSED = DialError("nothing listens there")
WRONG = DialError("nobody there speaks our codec", retry=False)

Test = Callable[..., Coroutine[Any, Any, None]]


def in_virtual_time(test: Test) -> Callable[..., None]:
    @wraps(test)
    def story(**fixtures: Any) -> None:
        run(test(**fixtures))

    return story


def welcome(session: str = "s1", outcome: str = "new") -> Welcome:
    return Welcome(session, "ada", "token", Outcome(outcome), TERMS, credential="ada.secret")


def close(reason: Reason, *, retry_after_s: float = 0.0) -> Close:
    return Close(CLOSE_CODES[reason], reason.value, f"because of {reason.value}", retry_after_s)


class FakeLink:
    """One connection: the client's transport, and the server's script."""

    kind = "fake"
    peer = "fake"
    is_encrypted = False
    is_compressed = False
    buffered_bytes = 0
    is_up = True
    traffic = Traffic()

    def __init__(
        self, server: "FakeServer", receiver: Receiver, subprotocol: Subprotocol, steps: Iterator[Step]
    ) -> None:
        self._server = server
        self.subprotocol = subprotocol
        self.receiver = receiver
        self.heard: list[FromClient] = []
        self.end: tuple[int, str] | None = None
        self.is_deaf = False
        """A server that does not even answer a close."""
        self._steps = steps

    @property
    def hello(self) -> Hello:
        hello = self.heard[0]
        assert isinstance(hello, Hello)
        return hello

    # What the client does

    datagram_bytes_max = 0

    def send_datagram(self, payload: bytes) -> bool:
        return False

    def send(self, payload: bytes) -> None:
        if self.end is None:
            is_first = not self.heard
            frames = MSGPACK.from_client(payload)
            self.heard += frames
            if is_first:
                asyncio.get_running_loop().call_soon(self._go_on)
            for frame in frames:
                self._server.heard(self, frame)

    def close(self, code: int, reason: str) -> None:
        if not self.is_deaf:
            self._end(code, reason)

    def abort(self) -> None:
        self._end(VANISHED, "")

    def pause_reading(self) -> None:
        raise NotImplementedError

    def resume_reading(self) -> None:
        raise NotImplementedError

    # What the server does

    def say(self, *frames: Frame) -> None:
        if self.end is None:
            self.receiver.received(MSGPACK.payload(*frames))

    def lose(self) -> None:
        self._end(VANISHED, "")

    def _go_on(self) -> None:
        for step in self._steps:
            match step:
                case Frame():
                    self.say(step)
                case float():
                    asyncio.get_running_loop().call_later(step, self._go_on)
                    return
                case _:
                    self.lose()

    def _end(self, code: int, reason: str) -> None:
        if self.end is None:
            self.end = (code, reason)
            asyncio.get_running_loop().call_soon(self.receiver.lost, code, reason)


class FakeServer:
    """Answers the first dial with the first script, and so on; the last one goes for all that follow."""

    def __init__(self, *scripts: list[Step] | DialError) -> None:
        self._scripts = list(scripts)
        self.dialled_at: list[float] = []
        self.links: list[FakeLink] = []

    async def dial(self, receiver: Receiver, url: str, subprotocol: Subprotocol, limits: TransportLimits) -> FakeLink:
        script = self._scripts[min(len(self.dialled_at), len(self._scripts) - 1)]
        self.dialled_at.append(asyncio.get_running_loop().time())
        if isinstance(script, DialError):
            raise script
        link = FakeLink(self, receiver, subprotocol, iter(script))
        self.links.append(link)
        receiver.opened(link)
        return link

    def heard(self, link: FakeLink, frame: FromClient) -> None:
        """For servers that do more than their script says."""

    @property
    def waits_s(self) -> list[float]:
        """The times between the dials."""
        return [round(later - earlier, 6) for earlier, later in pairwise(self.dialled_at)]


class Chance(Random):
    """Always the same chance: the jitter of every wait is this part of its ceiling."""

    def __init__(self, entropy: float) -> None:
        super().__init__()
        self._entropy = entropy

    def random(self) -> float:
        return self._entropy


def pings(every_s: float, count: int) -> list[Step]:
    return [step for number in range(1, count + 1) for step in (every_s, Ping(number))]


KNOWN_GUEST = Auth("guest", "ada.secret")


def connect(server: FakeServer, **options: Any) -> holdfast.connect:
    return holdfast.connect(URL, dial=server.dial, **{"random": Chance(0.5), **options})


async def end_of(session: ClientSession) -> SessionEnded:
    """Wait until the session is over; as whoever asks for something would hear it."""
    with pytest.raises(SessionEnded) as error:
        await session.search()
    return error.value


def raw(content: Any) -> Raw:
    return Raw(MSGPACK.encode(content))


def others() -> set[asyncio.Task[Any]]:
    current = asyncio.current_task()
    return {task for task in asyncio.all_tasks() if task is not current}
