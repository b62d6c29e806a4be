"""What the tests about seats play with: a server in memory and in virtual time, and callers that ask for one thing."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import msgspec

from holdfast import Auth, ClientRoom, ClientSession, Limits, Player, PlayerData, Room, Storage
from holdfast.core.codec import MSGPACK
from holdfast.core.errors import refusal
from holdfast.schemas.events import NodeReady
from holdfast.schemas.frames import Hello, Notice, Reply, Welcome
from holdfast.schemas.player import SeatInfo, WaitInfo
from holdfast.schemas.requests import Create
from holdfast.schemas.room import RoomInfo
from holdfast.server.durability.recovery import Pace
from holdfast.testing import MemoryServer, Named
from holdfast.testing.server import URL
from holdfast.transports.port import Subprotocol, TransportLimits
from tests.server.raw_client import RawClient

T = TypeVar("T")

# A caller made by hand answers no ping: it must not be taken for lost. And rooms wait longer than seats are reserved.
PATIENT = Limits(ping_s=3600.0, silence_s=7200.0, unjoined_s=3600.0)


class Arena(Room[PlayerData]):
    """Two seats. Make one with `arena`."""

    max_players = 2


class Guarded(Arena):
    """A room that thinks about every newcomer until `door` is set, and turns away whom it does not like."""

    door: ClassVar[asyncio.Event]
    asked: ClassVar[list[str]]
    unloved: ClassVar[set[str]]

    async def admit(self, player: Player[PlayerData]) -> None:
        self.asked.append(player.id)
        await self.door.wait()
        if player.id in self.unloved:
            raise refusal("refused", "not you")


class Slow(Room[PlayerData]):
    """Takes its time with everything."""

    max_players = 10

    async def on_create(self, config: dict[str, Any]) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        await asyncio.sleep(0.2)

    async def admit(self, player: Player[PlayerData]) -> None:
        await asyncio.sleep(0.01 * (ord(player.id[-1]) % 7))

    async def on_join(self, player: Player[PlayerData]) -> None:
        await asyncio.sleep(0)


OBSTACLES = ("full", "locked", "deny_all", "password")


async def keep_others_out(obstacle: str, session: ClientSession, room_id: str, joiner: ClientSession) -> None:
    """Newcomers find this obstacle in a room of this session: all seats taken, by the joiner, or one of its
    settings.
    """
    match obstacle:
        case "full":
            await joiner.join(room_id)
        case "locked":
            await session.update_room(room_id, locked=True)
        case "deny_all":
            await session.update_room(room_id, join_policy="deny_all")
        case _:
            await session.update_room(room_id, password="swordfish")


def arena(base: type[Room[Any]] = Arena, **settings: Any) -> type[Any]:
    """A kind of room called "arena" with these settings."""
    return type("Arena", (base,), {"kind": "arena", **settings})


def guarded(base: type[Room[Any]] = Guarded, **settings: Any) -> type[Any]:
    """The same with a guard; its door is shut."""
    return arena(base, **{"door": asyncio.Event(), "asked": [], "unloved": set(), **settings})


class Caller:
    """A player with a connection made by hand, which asks one thing at a time."""

    def __init__(self, client: RawClient, welcome: Welcome) -> None:
        self.client = client
        self.welcome = welcome

    async def ask(self, operation: str, kind: type[T], **arguments: Any) -> T:
        """What the server answers, or the refusal."""
        return _answer(await self.client.request(operation, **arguments), kind)

    async def tell(self, operation: str, **arguments: Any) -> None:
        """Ask for something that is answered with nothing."""
        await self.ask(operation, type(None), **arguments)

    async def join(self, room_id: str) -> RoomInfo:
        return await self.ask("join", RoomInfo, room=room_id)

    async def join_or_create(self, **wish: Any) -> RoomInfo:
        reply = await self.client.request("join_or_create", kind="arena", **wish)
        return _answer(reply, RoomInfo)

    async def wait(self, room_id: str) -> WaitInfo:
        return await self.ask("wait", WaitInfo, room=room_id)

    @property
    def offers(self) -> list[WaitInfo]:
        """The seats that this player was offered, from the first on."""
        notices = [notice for notice in self.client.all_heard(Notice) if notice.topic == "offer"]
        return [msgspec.convert(notice.body, WaitInfo) for notice in notices]


def _answer(reply: Reply, kind: type[T]) -> T:
    if reply.problem is not None:
        raise refusal(reply.problem.code, reply.problem.message)
    return msgspec.convert(reply.result, kind)


async def call(server: MemoryServer, name: str) -> Caller:
    """Connect as the player with this name."""
    client = RawClient(MSGPACK)
    subprotocol = Subprotocol(MSGPACK.name, MSGPACK.text)
    await server.network.dial(client, URL, subprotocols=[subprotocol], limits=TransportLimits.of(server.limits))
    client.say(Hello(Auth(Named.scheme, name)))
    return Caller(client, await client.hear(Welcome))


@asynccontextmanager
async def served(*kinds: type[Room[Any]], recovery: Pace | None = None, **options: Any) -> AsyncIterator[MemoryServer]:
    """A server that made no mistake of its own by the end."""
    if recovery is not None:
        options["store"] = Storage(options["store"], recovery=recovery)
    async with MemoryServer(kinds, **{"limits": PATIENT, **options}) as server:
        yield server
        assert server.counters.internal_errors == 0, "an internal error was logged"


def patient(**changes: Any) -> Limits:
    """`PATIENT` with these changes."""
    return replace(PATIENT, **changes)


async def a_room(server: MemoryServer, creator: str = "", **wish: Any) -> Room[PlayerData]:
    """A room of the kind "arena" that this player made, or the server itself."""
    host = await server.machine.do(server.parts.rooms.create(Create("arena", **wish), creator))
    return host.room


async def connected(server: MemoryServer, *names: str) -> list[ClientSession]:
    """Clients for these players."""
    return [await server.connect(name) for name in names]


async def a_crowd(server: MemoryServer, count: int) -> list[ClientSession]:
    """Clients for so many players: p0, p1 and so on."""
    return await asyncio.gather(*(server.connect(f"p{number}") for number in range(count)))


def occupancy(server: MemoryServer, joined: list[ClientRoom]) -> Counter[int]:
    """How many rooms have how many players, by what the server and by what the clients know."""
    by_room = Counter(room.id for room in joined)
    assert by_room == {room.id: len(room.players) for room in server.rooms}
    return Counter(by_room.values())


def seats(server: MemoryServer, room_id: str) -> dict[str, str]:
    """Who has a seat in a room, and in which state."""
    # A reservation that is in use is remembered beside its seat, which is what counts.
    return {seat.player: seat.state for seat in reversed(_seats(server, room_id))}


def seconds_left(server: MemoryServer, room_id: str, player_id: str) -> float:
    """For how long a reserved or held seat is kept."""
    return next(seat.expires_in_s for seat in _seats(server, room_id) if seat.player == player_id)


def _seats(server: MemoryServer, room_id: str) -> list[SeatInfo]:
    return server.operate.rooms.seats(room_id)


async def told(server: MemoryServer, player_id: str = "") -> list[str]:
    """What whoever watches the node heard of seats so far: of one player their states, else "player state"."""
    events = server.parts.events
    server.parts.context.publish(NodeReady(node="mark"))
    lines: list[str] = []
    async for event in events.read(0):
        if event.body.get("node") == "mark":
            break
        if event.type.startswith("seat."):
            state, player = event.type.removeprefix("seat."), event.body["player"]
            lines += [f"{player} {state}"] if not player_id else [state] if player == player_id else []
    return lines
