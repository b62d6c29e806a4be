"""A real server on 127.0.0.1 with a room that repeats what it hears, for clients to talk to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

import holdfast
from holdfast import (
    ClientRoom,
    ClientSession,
    Message,
    Outcome,
    Player,
    PlayerData,
    Refused,
    Room,
    Server,
    Tcp,
    WebSocket,
    on,
)
from tests.deadlines import DEADLINE_S

T = TypeVar("T")


class Say(Message):
    text: str


class Said(Message):
    text: str


class Spam(Message):
    """Ask for so many messages in one turn."""

    count: int
    latest: bool = False


class Kick(Message):
    reason: str


class Measure(Message):
    """Answered with its length."""

    text: str


class Measured(Message):
    length: int


class Slow(Message):
    """Takes its time, so that the room is busy."""

    seconds: float


class Echo(Room[PlayerData]):
    heard: list[str]

    def on_create(self, config: dict[str, Any]) -> None:
        self.heard = []
        if config.get("map") == "nowhere":
            raise Refused("no such map")

    def on_join(self, player: Player[PlayerData]) -> None:
        if self.properties.get("is_private"):
            player.send(Said("go away"))
            raise Refused("this room is private")

    def on_resync(self, player: Player[PlayerData]) -> None:
        player.send(Said(f"state: {len(self.heard)}"))

    @on(Say)
    def say(self, player: Player[PlayerData], say: Say) -> None:
        self.heard.append(say.text)
        player.send(Said(say.text))

    @on(Spam)
    def spam(self, player: Player[PlayerData], spam: Spam) -> None:
        for number in range(spam.count):
            if spam.latest:
                player.send_latest(Said(str(number)), str(number))
            else:
                player.send(Said(str(number)))

    @on(Kick)
    def kick(self, player: Player[PlayerData], kick: Kick) -> None:
        player.send(Said("one more thing"))
        player.kick(kick.reason)

    @on
    def measure(self, player: Player[PlayerData], measure: Measure) -> Measured:
        if not measure.text:
            raise Refused("nothing to measure")
        return Measured(len(measure.text))

    @on(Slow)
    async def slow(self, player: Player[PlayerData], slow: Slow) -> None:
        await asyncio.sleep(slow.seconds)


class AtOnce(Random):
    """A client with this comes back without a wait."""

    def random(self) -> float:
        return 0.0


def serve(**options: Any) -> Server:
    return Server([Echo], **{"listen": [WebSocket(port=0), Tcp(port=0)], **options})


def url_of(server: Server, transport: str = "websocket") -> str:
    host, port = server.addresses[transport]
    return f"{'ws' if transport == 'websocket' else 'tcp'}://{host}:{port}"


def connect(server: Server, **options: Any) -> holdfast.connect:
    return holdfast.connect(url_of(server), **{"messages": [Said], "random": AtOnce(), **options})


@asynccontextmanager
async def seated(server: Server, **options: Any) -> AsyncIterator[tuple[ClientSession, ClientRoom]]:
    """A client with a seat."""
    async with connect(server, **options) as session:
        yield session, await session.join_or_create("echo")


def echo(server: Server, room_id: str) -> Echo:
    """The server's side of a room."""
    room = server.rooms.get(room_id)
    assert isinstance(room, Echo)
    return room


async def soon(work: Awaitable[T]) -> T:
    async with asyncio.timeout(DEADLINE_S):
        return await work


async def until_back(session: ClientSession, cause: Callable[[], Any]) -> Outcome:
    """Do what costs a client its connection; the outcome it is told."""
    told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    session.on_resume(told.set_result)
    cause()
    outcome = await soon(told)
    session.on_resume.remove(told.set_result)
    return outcome


async def texts(room: ClientRoom, last: str) -> list[str]:
    """The texts that the room says, up to this one."""
    heard: list[str] = []
    while not heard or heard[-1] != last:
        message = await soon(room.receive())
        assert isinstance(message, Said)
        heard.append(message.text)
    return heard
