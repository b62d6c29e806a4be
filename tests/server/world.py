"""What the tests of this folder play with: servers and clients on 127.0.0.1, a room that tells its story, a gate."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from random import Random
from typing import Any, ClassVar

import holdfast
from holdfast import (
    ClientRoom,
    ClientSession,
    Message,
    Outcome,
    Player,
    PlayerData,
    Reason,
    Room,
    Server,
    Session,
    WebSocket,
    on,
)
from holdfast.client.connect import dial
from holdfast.core.codec import MSGPACK, Codec
from holdfast.transports.port import Receiver, Subprotocol, Transport, TransportLimits
from tests.deadlines import DEADLINE_S
from tests.server.raw_client import RawClient

# How far two looks at an event loop's clock may be off: uvloop looks once per turn of the loop, and turns can be long.
CLOCK_S = 0.05


class Say(Message):
    text: str


class Said(Message):
    who: str
    text: str


class Hero(PlayerData):
    hp: int = 100

    def reset(self) -> None:
        self.hp = 100


class Story:
    """What happened, in order and with its time, and a way to wait for it."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []
        self.times: list[float] = []
        self._changed = asyncio.Event()

    def tell(self, *line: Any) -> None:
        self.lines.append(line)
        self.times.append(asyncio.get_running_loop().time())
        self._changed.set()

    def of(self, *start: Any) -> list[tuple[Any, ...]]:
        """The lines that begin so."""
        return [line for line in self.lines if line[: len(start)] == start]

    def when(self, *start: Any) -> list[float]:
        """The times of the lines that begin so."""
        return [time for line, time in zip(self.lines, self.times, strict=True) if line[: len(start)] == start]

    async def has(self, *start: Any, times: int = 1) -> None:
        """Wait until this many lines begin so."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while len(self.of(*start)) < times:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{start} did not happen {times} times in {self.lines}") from None


class Chat(Room[Hero]):
    """Repeats to everybody what one says, and tells its story. Make one with `chat`."""

    story: ClassVar[Story]

    def on_create(self, config: dict[str, Any]) -> Any:
        self.story.tell("on_create", config)

    def on_created(self) -> Any:
        self.story.tell("on_created")

    def on_join(self, player: Player[Hero]) -> Any:
        self.story.tell("on_join", player.id)

    def on_drop(self, player: Player[Hero]) -> Any:
        self.story.tell("on_drop", player.id)

    def on_rejoin(self, player: Player[Hero]) -> Any:
        self.story.tell("on_rejoin", player.id)

    def on_resync(self, player: Player[Hero]) -> Any:
        self.story.tell("on_resync", player.id)
        player.send(Said("room", "the state"))

    def on_leave(self, player: Player[Hero], reason: Reason) -> Any:
        self.story.tell("on_leave", player.id, reason)

    def on_start(self) -> Any:
        self.story.tell("on_start")

    def on_end(self) -> Any:
        self.story.tell("on_end")

    def on_destroy(self) -> Any:
        self.story.tell("on_destroy")

    def on_destroyed(self) -> Any:
        self.story.tell("on_destroyed")

    @on(Say)
    def said(self, player: Player[Hero], say: Say) -> Any:
        self.story.tell("said", player.id, say.text)
        self.broadcast(Said(player.id, say.text))

    def announce(self, text: str) -> None:
        """For timers: something that members hear."""
        self.broadcast(Said("room", text))


def chat(base: type[Chat] = Chat, **settings: Any) -> type[Chat]:
    """A kind of room called "chat" with these settings and a story of its own."""
    return type("Chat", (base,), {"story": Story(), "kind": "chat", **settings})


class NoJitter(Random):
    """A client with this comes back without a wait."""

    def random(self) -> float:
        return 0.0


class Gate:
    """The way of a client to its server: while it is shut, the client stays away. It may lead elsewhere by and by."""

    def __init__(self) -> None:
        self.url: str | None = None
        self._is_open = asyncio.Event()
        self._is_open.set()

    def shut(self) -> None:
        self._is_open.clear()

    def open(self) -> None:
        self._is_open.set()

    async def __call__(
        self, receiver: Receiver, url: str, subprotocol: Subprotocol, limits: TransportLimits
    ) -> Transport:
        await self._is_open.wait()
        return await dial(receiver, self.url or url, subprotocol, limits)


class World:
    """Opens servers and clients; the test's end closes them, the clients first."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def serve(self, *rooms: type[Room[Any]], **options: Any) -> Server:
        options = {"listen": [WebSocket(port=0)], **options}
        return await self._stack.enter_async_context(Server(rooms, **options))

    async def connect(
        self, server: Server, *, transport: str = "websocket", messages: Iterable[type[Message]] = (), **options: Any
    ) -> ClientSession:
        options = {"random": NoJitter(), "messages": [Said, *messages], **options}
        return await self._stack.enter_async_context(holdfast.connect(url_of(server, transport), **options))

    async def raw(self, server: Server, *, transport: str = "websocket", codec: Codec = MSGPACK) -> RawClient:
        client = await RawClient.dial(url_of(server, transport), codec)
        self._stack.push_async_callback(client.close)
        return client


def url_of(server: Server, transport: str = "websocket") -> str:
    return server.urls[transport]


def room_of(server: Server, client_room: ClientRoom) -> Room[Hero]:
    """The server's side of a client's room."""
    room = server.rooms.get(client_room.id)
    assert room is not None
    return room


def player_in(server: Server, client_room: ClientRoom, session: ClientSession) -> Player[Hero]:
    """The server's side of a client's seat."""
    player = room_of(server, client_room).player(session.player_id)
    assert player is not None
    return player


def server_side(server: Server, session: ClientSession) -> Session:
    """The server's side of a client's session."""
    found = server.sessions.get(session.id)
    assert found is not None
    return found


async def until_resumed(session: ClientSession, cause: Callable[[], None]) -> Outcome:
    """Do something that costs a client its connection; what it is told when it is back."""
    told: asyncio.Queue[Outcome] = asyncio.Queue()
    session.on_resume(told.put_nowait)
    cause()
    async with asyncio.timeout(DEADLINE_S):
        return await told.get()


async def hear(room: ClientRoom, text: str) -> list[Message]:
    """Everything up to the message with this text; with `Say` before it, a barrier: what came before has come."""
    messages: list[Message] = []
    async with asyncio.timeout(DEADLINE_S):
        while True:
            message = await room.receive()
            messages.append(message)
            if isinstance(message, Said) and message.text == text:
                return messages


async def texts_until(room: ClientRoom, text: str) -> list[str]:
    """The same, for rooms where only `Said` is heard: the texts."""
    return [message.text for message in await hear(room, text) if isinstance(message, Said)]


async def hear_the_end(room: ClientRoom) -> None:
    """The end of a room for a client who was told nothing before it."""
    assert [message async for message in room] == []


async def same_player(world: World, server: Server, session: ClientSession) -> ClientSession:
    """The same player in another window: proven by the credential, with a session of its own."""
    return await world.connect(server, auth=holdfast.Auth("guest", session.credential))


def chat_of(server: Server, client_room: ClientRoom) -> Chat:
    """The chat that a client sits in."""
    room = room_of(server, client_room)
    assert isinstance(room, Chat)
    return room


def bell(story: Story) -> type[Chat]:
    """A room that rings once, long after: what has not happened by then does not happen."""

    class Bell(Chat):
        kind = "bell"

        def on_created(self) -> None:
            self.after(0.1, self.ring)

        def ring(self) -> None:
            self.story.tell("rang")

    Bell.story = story
    return Bell
