"""A client made by hand: it says what a test tells it to, keeps what it hears, and answers nothing by itself."""

import asyncio
from typing import Any, TypeVar

from msgspec import Raw

from holdfast.core.codec import MSGPACK, Codec
from holdfast.core.limits import KIB
from holdfast.core.messages import Message
from holdfast.schemas.frames import (
    Auth,
    Close,
    Data,
    Frame,
    FromServer,
    Hello,
    Position,
    Reply,
    Request,
    Resume,
    SeatFrame,
    Welcome,
)
from holdfast.transports import tcp, websocket
from holdfast.transports.port import Subprotocol, Transport, TransportLimits
from tests.deadlines import DEADLINE_S

F = TypeVar("F", bound=Frame)


_LIMITS = TransportLimits(
    payload_bytes_max=64 * KIB,
    handshake_s=5.0,
    close_s=2.0,
    write_high_bytes=256 * KIB,
    fragments_max=1024,
    proxy_header_bytes_max=2 * KIB,
    unopened_per_address_max=1000,
    unopened_max=1000,
)


class RawClient:
    """One connection. What a session keeps between two of them is the test's to remember: it is in `Welcome`."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.heard: list[FromServer] = []
        self._read = 0
        self._link: Transport | None = None
        self._end: tuple[int, str] | None = None
        self._changed = asyncio.Event()
        self._requests = 0

    @classmethod
    async def dial(cls, url: str, codec: Codec = MSGPACK) -> "RawClient":
        client = cls(codec)
        transport = tcp if url.startswith("tcp") else websocket
        await transport.dial(client, url, subprotocols=[Subprotocol(codec.name, codec.text)], limits=_LIMITS)
        return client

    # What the link tells

    def opened(self, transport: Transport) -> None:
        self._link = transport

    def received(self, payload: bytes) -> None:
        self.heard += self.codec.from_server(payload)
        self._changed.set()

    def received_datagram(self, payload: bytes) -> None:
        self.received(payload)

    def kept_busy(self) -> None:
        pass

    def congested(self) -> None:
        pass

    def drained(self) -> None:
        pass

    def lost(self, code: int, reason: str) -> None:
        self._end = (code, reason)
        self._changed.set()

    # What a test does

    @property
    def link(self) -> Transport:
        assert self._link is not None
        return self._link

    @property
    def has_ended(self) -> bool:
        return self._end is not None

    def say(self, *frames: Frame) -> None:
        self.link.send(self.codec.payload(*frames))

    def send(self, seq: int, message: Message, *, channel: int = 1, ack: int = 0) -> None:
        self.say(Data(channel, seq, ack, message.wire_name, Raw(self.codec.encode(message))))

    def cut(self) -> None:
        self.link.abort()

    async def close(self) -> None:
        self.cut()
        await self.ended()

    async def hear(self, kind: type[F]) -> F:
        """The next frame of this kind; those before it are passed over and stay in `heard`."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                while self._read < len(self.heard):
                    frame = self.heard[self._read]
                    self._read += 1
                    if isinstance(frame, kind):
                        return frame
                assert self._end is None, f"no {kind.__name__} before the end {self._end}; heard {self.heard}"
                self._changed.clear()
                await self._changed.wait()

    def all_heard(self, kind: type[F]) -> list[F]:
        return [frame for frame in self.heard if isinstance(frame, kind)]

    async def ended(self) -> tuple[int, str]:
        """How the link ended."""
        async with asyncio.timeout(DEADLINE_S):
            while self._end is None:
                self._changed.clear()
                await self._changed.wait()
        return self._end

    async def closed(self) -> Close:
        """What the server said last, once the link has ended."""
        close = await self.hear(Close)
        await self.ended()
        return close

    async def sign_in(self, credential: str = "") -> Welcome:
        self.say(Hello(Auth("guest", credential)))
        return await self.hear(Welcome)

    def ask_to_resume(self, welcome: Welcome, *positions: Position, auth: Auth | None = None) -> None:
        self.say(Hello(auth, Resume(welcome.session, welcome.token, list(positions))))

    async def resume(self, welcome: Welcome, *positions: Position, auth: Auth | None = None) -> Welcome:
        self.ask_to_resume(welcome, *positions, auth=auth)
        back = await self.hear(Welcome)
        self._requests = back.requests
        return back

    def ask(self, operation: str, **arguments: Any) -> None:
        self._requests += 1
        self.say(Request(self._requests, operation, Raw(self.codec.encode(arguments))))

    async def request(self, operation: str, **arguments: Any) -> Reply:
        """Ask and hear the answer: also a barrier, for what was said before has been dealt with."""
        self.ask(operation, **arguments)
        return await self.hear(Reply)

    async def join(self, kind: str = "chat") -> SeatFrame:
        self.ask("join_or_create", kind=kind)
        seat = await self.hear(SeatFrame)
        await self.hear(Reply)
        return seat
