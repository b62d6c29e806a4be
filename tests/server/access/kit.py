"""What the tests of this folder play with: badges to sign in with, a durable hall, and ways to come back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from holdfast import Auth, Message, Player, PlayerData, Reason, Room, on
from holdfast.core.codec import MSGPACK
from holdfast.core.errors import refusal
from holdfast.identity.port import Approach, Identity, NotAuthentic
from holdfast.schemas.frames import Close, Hello, Resume, Welcome
from holdfast.server.operations import Operations
from holdfast.testing import FaultyStore, MemoryServer
from holdfast.testing.server import URL
from holdfast.transports.port import Subprotocol, TransportLimits
from tests.server.directory.seats import PATIENT, Caller, served
from tests.server.durability.bench import until
from tests.server.raw_client import RawClient

T = TypeVar("T")


class Badge:
    """Believes what a credential says of itself: "ada", "ada+gm+vip", "ada@1000" (it was issued then)."""

    scheme = "badge"

    def authenticate(self, credential: str, approach: Approach) -> Identity:
        words, _, issued_at = credential.partition("@")
        name, *roles = words.split("+")
        if not name:
            raise NotAuthentic("a name is needed")
        return Identity(name, frozenset(roles), issued_at=float(issued_at) if issued_at else None)


class Say(Message):
    text: str


class Said(Message):
    text: str


class Hall(Room[PlayerData]):
    """A room that lasts, and tells why players left."""

    kind = "hall"
    durability = "commit"
    grace_s = 600.0
    empty_ttl_s = 600.0
    state: list[str]

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = []

    def on_leave(self, player: Player[PlayerData], reason: Reason) -> None:
        self.state.append(f"{player.id} {reason}")

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> Any:
        self.broadcast(Said(say.text))


def hall(**settings: Any) -> type[Hall]:
    """A kind called "hall" with these settings."""
    return type("Hall", (Hall,), {"kind": "hall", "__annotations__": {"state": list[str]}, **settings})


@asynccontextmanager
async def serving(*kinds: type[Room[Any]], **options: Any) -> AsyncIterator[MemoryServer]:
    """A server in memory, on a store that outlives its crashes."""
    options = {"store": FaultyStore(), "auth": (Badge(),), "limits": PATIENT, **options}
    async with served(*(kinds or (hall(),)), **options) as server:
        yield server


def operator(server: MemoryServer) -> Operations:
    return server.operate


async def dialed(server: MemoryServer) -> RawClient:
    """A link on which nothing has been said."""
    client = RawClient(MSGPACK)
    subprotocol = Subprotocol(MSGPACK.name, MSGPACK.text)
    await server.network.dial(client, URL, subprotocols=[subprotocol], limits=TransportLimits.of(server.limits))
    return client


async def sign_in(server: MemoryServer, badge: str) -> Caller:
    """Somebody who was let in."""
    client = await dialed(server)
    client.say(Hello(Auth(Badge.scheme, badge)))
    return Caller(client, await client.hear(Welcome))


async def turned_away(server: MemoryServer, badge: str) -> Close:
    """What somebody is told who is not let in."""
    client = await dialed(server)
    client.say(Hello(Auth(Badge.scheme, badge)))
    return await client.closed()


async def seated(server: MemoryServer, badge: str, kind: str = "hall") -> Caller:
    """Somebody on a seat, in a room that has one for them."""
    caller = await sign_in(server, badge)
    await caller.client.join(kind)
    return caller


async def of_hall(caller: Caller, operation: str, answer: type[T], **arguments: Any) -> T:
    """What somebody is answered who asks for something of the kind "hall"."""
    reply = await caller.client.request(operation, kind="hall", **arguments)
    if reply.problem is not None:
        raise refusal(reply.problem.code, reply.problem.message)
    return msgspec.convert(reply.result, answer)


async def refused(server: MemoryServer, welcome: Welcome, *, auth: Auth | None = None) -> Close:
    """What somebody is told who comes back with a token that is not good."""
    client = await dialed(server)
    client.say(Hello(auth, Resume(welcome.session, welcome.token, [])))
    return await client.closed()


async def back(server: MemoryServer, welcome: Welcome, *, auth: Auth | None = None) -> Welcome:
    """The welcome of somebody who comes back with a good token, or signs in again in the same breath."""
    client = await dialed(server)
    client.say(Hello(auth, Resume(welcome.session, welcome.token, [])))
    return await client.hear(Welcome)


async def lose(server: MemoryServer, caller: Caller) -> None:
    """Cut somebody's link; their session waits for them."""
    session = server.sessions.get(caller.welcome.session)
    assert session is not None
    caller.client.cut()
    await caller.client.ended()
    await until(lambda: session.connection is None)


def seats(server: MemoryServer) -> list[str]:
    """Who has a seat in any room."""
    return [seat.id for room in server.rooms for seat in room.players]
