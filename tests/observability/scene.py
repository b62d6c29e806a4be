"""What the tests of events play with: a server in memory, all that happens on it, and clients made by hand."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from holdfast import Auth, Limits, Message, Player, PlayerData, Refused, Room, Session, on
from holdfast.core.codec import MSGPACK
from holdfast.core.messages import SeatLeft
from holdfast.schemas.events import Event
from holdfast.schemas.frames import Close, Data, Hello, Position, Welcome
from holdfast.server.operations import Operations
from holdfast.testing import Link, MemoryServer, Named
from holdfast.testing.server import URL
from holdfast.transports.port import Subprotocol, TransportLimits
from tests.server.raw_client import RawClient

E = TypeVar("E", bound=Event)

# A client made by hand answers no ping: it must not be taken for lost.
PATIENT: dict[str, Any] = {"ping_s": 3600.0, "silence_s": 7200.0}


class Say(Message):
    text: str


class Hall(Room[PlayerData]):
    """A room that repeats what is said, and does not like everybody."""

    max_players = 100

    def on_join(self, player: Player[PlayerData]) -> None:
        if player.id.startswith("unloved"):
            raise Refused("not you")

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> Any:
        self.broadcast(say)


def hall(**settings: Any) -> type[Hall]:
    """A kind of room called "hall" with these settings."""
    return type("Hall", (Hall,), {"kind": "hall", **settings})


class Visitor:
    """A player with a connection made by hand."""

    def __init__(self, client: RawClient, welcome: Welcome) -> None:
        self.client = client
        self.welcome = welcome
        self.room_id = ""

    @property
    def session_id(self) -> str:
        return self.welcome.session

    async def join(self, kind: str = "hall") -> None:
        self.room_id = (await self.client.join(kind)).room

    async def closed_for(self) -> str:
        """The reason of the close frame that ends the connection."""
        return (await self.client.closed()).reason

    async def left_for(self) -> str:
        """The reason of the last message of the seat's channel, on this connection."""
        while True:
            data = await self.client.hear(Data)
            if data.type == SeatLeft.wire_name:
                left: SeatLeft = MSGPACK.body_decoder(SeatLeft).decode(data.body)
                return left.reason


class Scene:
    """A server, and everything that has happened on it."""

    def __init__(self, server: MemoryServer) -> None:
        self.server = server
        self.events: list[Event] = []
        self.is_over = False

    def happened(self, event: Event) -> None:
        """What follows from the end of the test is not part of it."""
        if not self.is_over:
            self.events.append(event)

    async def dial(self) -> RawClient:
        """A connection with nothing said on it."""
        client = RawClient(MSGPACK)
        subprotocol = Subprotocol(MSGPACK.name, MSGPACK.text)
        await self.server.network.dial(
            client, URL, subprotocols=[subprotocol], limits=TransportLimits.of(self.server.limits)
        )
        return client

    async def enter(self, name: str = "ada") -> Visitor:
        """A player who has signed in."""
        client = await self.dial()
        client.say(Hello(Auth(Named.scheme, name)))
        return Visitor(client, await client.hear(Welcome))

    async def seated(self, name: str = "ada") -> Visitor:
        """A player with a seat in the hall."""
        visitor = await self.enter(name)
        await visitor.join()
        return visitor

    async def back(self, visitor: Visitor) -> Visitor:
        """The same player, who has resumed with a new connection."""
        client = await self.dial()
        positions = [Position(1, 1, 0)] if visitor.room_id else []
        return Visitor(client, await client.resume(visitor.welcome, *positions))

    async def turned_away(self, hello: Hello | None = None) -> Close:
        """What a stranger hears who says this."""
        client = await self.dial()
        if hello is not None:
            client.say(hello)
        return await client.closed()

    def link(self, visitor: Visitor) -> Link:
        """The newest link; the visitor's, if nobody came after them."""
        return self.server.links[-1]

    def session(self, visitor: Visitor) -> Session:
        session = self.server.sessions.get(visitor.session_id)
        assert session is not None
        return session

    def room(self, visitor: Visitor) -> Room[Any]:
        room = self.server.rooms.get(visitor.room_id)
        assert room is not None
        return room

    def operator(self) -> Operations:
        return self.server.operate

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Do something on the server's machine."""
        self.server.machine.call(function, *args)

    def of(self, kind: type[E]) -> list[E]:
        """What has happened of this kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def names(self, session_id: str) -> list[str]:
        """What has happened to a session, in order."""
        return [event.name for event in self.events if getattr(event, "session", "") == session_id]

    async def settled(self) -> None:
        """Long enough for everything that happens by itself."""
        await asyncio.sleep(0.5)


@asynccontextmanager
async def scene(*kinds: type[Room[Any]], **options: Any) -> AsyncIterator[Scene]:
    """A server with a hall; limits may be named one by one."""
    names = Limits.__dataclass_fields__
    changes = {name: options.pop(name) for name in list(options) if name in names}
    server = MemoryServer(kinds or [hall()], limits=Limits(**{**PATIENT, **changes}), **options)
    async with server:
        shown = Scene(server)
        server.parts.bus.observe(shown.happened)
        yield shown
        shown.is_over = True
