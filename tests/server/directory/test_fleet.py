"""Placements on a real server: the fleet is this node, which makes the room with everybody's seat or not at all."""

import asyncio
from typing import Any, ClassVar

import pytest

from holdfast import Limits, NotFound, PlayerData, Queue, Refused, Room
from holdfast.core.errors import Invalid
from holdfast.core.room import context_of
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.requests import PlacedPlayer, StartPlacement
from holdfast.server.placement import OwnFleet
from holdfast.testing import FaultyStore, MemoryServer
from tests.server.directory.seats import PATIENT, arena, seats
from tests.server.durability.bench import a_moment, in_virtual_time, until
from tests.server.world import World, chat

ANYWHERE = Queue("anywhere", ("*",), timeout_s=30.0)


class _Placing(MemoryServer):
    """A server in memory with a queue."""

    def __init__(self, *rooms: type[Room[Any]], **options: Any) -> None:
        super().__init__(rooms, **{"limits": PATIENT, "queues": [ANYWHERE], **options})


def _start(server: MemoryServer, *players: str, kind: str = "arena", **wish: Any) -> str:
    """Begin a placement; its id."""
    started: list[PlacementInfo] = []
    wished = StartPlacement("anywhere", kind, [PlacedPlayer(player) for player in players], **wish)
    server.machine.call(lambda: started.append(server.parts.placements.start(wished)))
    return started[0].id


def _placement(server: MemoryServer, placement_id: str) -> PlacementInfo:
    return server.parts.placements.get(placement_id)


async def _settled(server: MemoryServer, placement_id: str) -> PlacementInfo:
    await until(lambda: _placement(server, placement_id).status != "pending")
    return _placement(server, placement_id)


async def test_a_placement_through_a_session_is_fulfilled_with_a_seat_for_everybody(world: World) -> None:
    server = await world.serve(chat(), queues=[ANYWHERE])
    ada, bob, cleo = [await world.connect(server) for _ in range(3)]
    party = [ada.player_id, bob.player_id]

    placement = await ada.place("anywhere", "chat", players=party, name="ours", max_players=2, properties={"level": 3})
    placed = await placement.done()

    assert (placed.status, placed.node) == ("fulfilled", server.parts.name)
    info = placed.room
    assert info is not None
    assert (info.name, info.max_players, info.properties) == ("ours", 2, {"level": 3})
    assert (info.players, info.open_seats, info.creator) == (2, 0, ada.player_id)
    with pytest.raises(Refused):
        await cleo.join(info.id)
    assert [(await session.join(info.id)).id for session in (ada, bob)] == [info.id] * 2


@in_virtual_time
async def test_a_placement_has_all_seats_reserved_or_makes_no_room() -> None:
    async with _Placing(arena(max_players=2)) as server:
        fits = await _settled(server, _start(server, "a", "b"))
        too_many = await _settled(server, _start(server, "a", "b", "c"))

        assert fits.status == "fulfilled"
        assert fits.room is not None
        assert seats(server, fits.room.id) == {"a": "reserved", "b": "reserved"}
        assert too_many.status == "failed"
        assert "3 players do not fit in a room for 2" in too_many.reason
        assert server.counters.rooms_created == 1


@in_virtual_time
async def test_a_placement_is_its_owners_and_an_operators_is_nobodys() -> None:
    async with _Placing(arena()) as server:
        ada = await server.connect("ada")

        own = (await (await ada.place("anywhere", "arena", players=["victim", "bob"])).done()).room
        operators = (await _settled(server, _start(server, "victim"))).room

        assert own is not None
        assert operators is not None
        assert (own.creator, operators.creator) == ("ada", "")
        assert server.rooms.reserved.count("ada") == 2


@in_virtual_time
async def test_the_seats_of_a_placement_count_as_reserved_by_its_owner() -> None:
    limits = Limits(ping_s=PATIENT.ping_s, silence_s=PATIENT.silence_s, reservations_per_player_max=3)
    async with _Placing(arena(), limits=limits) as server:
        ada = await server.connect("ada")
        first = await (await ada.place("anywhere", "arena", players=["a", "b"])).done()
        second = await ada.place("anywhere", "arena", players=["c", "d"])
        await a_moment(5.0)

        waiting = _placement(server, second.info.id)
        assert (waiting.status, waiting.reason) == ("pending", "a player may have 3 seats reserved at a time")
        assert server.counters.rooms_created == 1, "no room is made for it meanwhile"
        assert first.room is not None
        await ada.release(first.room.id, ["a"])

        assert (await second.done()).status == "fulfilled"
        assert server.rooms.reserved.count("ada") == 3


@in_virtual_time
async def test_a_room_whose_owner_has_too_many_seats_after_all_is_given_up() -> None:
    limits = Limits(ping_s=PATIENT.ping_s, silence_s=PATIENT.silence_s, reservations_per_player_max=3)
    begun = asyncio.Event()
    async with _Placing(arena(Slow, begun=begun), limits=limits) as server:
        ada = await server.connect("ada")
        both = [await ada.place("anywhere", "arena", players=[f"{each}1", f"{each}2"]) for each in "ab"]
        await a_moment()

        begun.set()
        await a_moment()

        states = [_placement(server, each.info.id).status for each in both]
        assert states == ["fulfilled", "pending"]
        assert len(server.rooms) == 1
        assert server.rooms.reserved.count("ada") == 2


class Shrinking(Room[PlayerData]):
    """Makes itself smaller than it was wished for."""

    def on_create(self, config: dict[str, Any]) -> None:
        self.max_players = 1


@in_virtual_time
async def test_a_room_that_has_no_seat_for_one_of_them_after_all_is_ended_again() -> None:
    async with _Placing(arena(Shrinking)) as server:
        placement = _start(server, "a", "b")

        await a_moment()

        assert _placement(server, placement).status == "pending"
        assert "seats" in _placement(server, placement).reason
        assert list(server.rooms) == []
        assert server.operate.players.list(limit=10, cursor="").players == []
        assert (await _settled(server, placement)).status == "timed_out"


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ({"kind": "castle"}, "unknown kind of room 'castle'"),
        ({"max_players": 100}, "max_players must be from 1 to 2"),
        ({"properties": {"map": [[]]}}, "'map' must be text"),
    ],
)
@in_virtual_time
async def test_what_this_node_will_never_make_fails_at_once(wish: dict[str, Any], reason: str) -> None:
    async with _Placing(arena()) as server:
        placement = _start(server, "a", **wish)

        await a_moment()

        assert _placement(server, placement).status == "failed"
        assert reason in _placement(server, placement).reason


class Slow(Room[PlayerData]):
    """Takes its time to begin."""

    begun: ClassVar[asyncio.Event]

    async def on_create(self, config: dict[str, Any]) -> None:
        await self.begun.wait()


@in_virtual_time
async def test_a_room_that_is_made_after_its_placement_was_stopped_is_given_up() -> None:
    begun = asyncio.Event()
    async with _Placing(arena(Slow, begun=begun)) as server:
        placement = _start(server, "a", "b")
        await a_moment()

        stopped = await server.operate.placements.stop(placement)
        begun.set()
        await a_moment()

        assert stopped.status == "cancelled"
        assert _placement(server, placement).status == "cancelled"
        assert server.counters.rooms_created == 1
        assert list(server.rooms) == []
        assert server.operate.players.list(limit=10, cursor="").players == []


@in_virtual_time
async def test_a_node_that_stops_leaves_no_room_of_a_placement_behind() -> None:
    begun = asyncio.Event()
    async with _Placing(arena(Slow, begun=begun)) as server:
        placement = _start(server, "a")
        await a_moment()
        node = server.parts

    assert node.placements.get(placement).status == "cancelled"
    assert list(node.rooms) == []


class Busy(Room[PlayerData]):
    """Is in the middle of something as soon as it is there."""

    durability = "commit"

    def on_created(self) -> None:
        self.after(0.0, self.work)

    async def work(self) -> None:
        await asyncio.sleep(20.0)


@in_virtual_time
async def test_a_placement_that_is_cancelled_between_the_room_and_its_seats_leaves_nothing() -> None:
    async with _Placing(arena(Busy), store=FaultyStore(latency_s=0.05)) as server:
        wish = StartPlacement("anywhere", "arena", [PlacedPlayer("a")])
        fleet = OwnFleet(server.parts.health.info, server.rooms)
        placing = asyncio.create_task(server.machine.do(fleet.place(server.parts.name, wish, "", "")))
        await until(lambda: list(server.rooms))
        (room,) = server.rooms

        placing.cancel()
        await asyncio.wait([placing])

        assert context_of(room).listing.reason == "placement_failed"
        await until(lambda: not list(server.rooms))


class Unwell(Room[PlayerData]):
    """Is not well if it is called so."""

    def on_health_check(self) -> bool:
        return self.name != "unwell"


@in_virtual_time
async def test_a_placement_waits_for_an_unhealthy_node_to_recover() -> None:
    limits = Limits(ping_s=PATIENT.ping_s, silence_s=PATIENT.silence_s, health_s=10.0)
    async with _Placing(arena(Unwell), limits=limits) as server:
        for _ in range(3):
            await server.create_room("arena", name="unwell")
        await until(lambda: not server.operate.health.info().is_healthy)

        placement = _start(server, "a")
        await a_moment(5.0)
        waiting = _placement(server, placement)
        placed = await _settled(server, placement)

        assert waiting.status == "pending"
        assert "not healthy" in waiting.reason
        assert placed.status == "fulfilled"
        assert placed.ended_at - placed.started_at == pytest.approx(10.0, abs=1.5)


@in_virtual_time
async def test_the_fleet_knows_one_node_as_it_is() -> None:
    limits = Limits(ping_s=PATIENT.ping_s, silence_s=PATIENT.silence_s, rooms_max=1)
    async with _Placing(arena(), limits=limits) as server:
        fleet = OwnFleet(server.parts.health.info, server.rooms)
        (view,) = fleet.nodes()
        await server.create_room("arena")
        placement = _start(server, "a")
        await a_moment()

        assert (view.name, view.region, view.rooms, view.rooms_max) == (server.parts.name, "local", 0, 1)
        assert _placement(server, placement).status == "pending", "there is no space"
        with pytest.raises(Refused):
            await fleet.place(view.name, StartPlacement("anywhere", "arena"), "", "")
        crowd = [PlacedPlayer(str(number)) for number in range(9)]
        with pytest.raises(Invalid):
            await fleet.place(view.name, StartPlacement("anywhere", "arena", crowd), "", "")
        await fleet.give_up(view.name, "never-there")
        with pytest.raises(NotFound):
            server.operate.rooms.get("never-there")
