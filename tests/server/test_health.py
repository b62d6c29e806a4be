"""Whether rooms and their node are well: asked on a schedule, and what becomes of those who are not."""

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from holdfast import ClientRoom, Limits, PlayerData, Reason, Room, SeatLeft, Throttled
from holdfast.core.room import context_of
from holdfast.schemas.events import NodeReady
from holdfast.schemas.node import EventInfo, NodeInfo
from holdfast.testing import FaultyStore, MemoryServer
from tests.server.directory.seats import PATIENT, arena, served
from tests.server.durability.bench import a_moment, in_virtual_time, until
from tests.server.world import World, chat


class Patient(Room[PlayerData]):
    """Says about its health what the test tells it to. Make one with `patient`."""

    max_players = 4
    answer: ClassVar[Callable[["Patient"], Any]]
    asked: ClassVar[list[tuple[float, str]]]

    def on_health_check(self) -> Any:
        self.asked.append((asyncio.get_running_loop().time(), self.id))
        return type(self).answer(self)


class Busy(Patient):
    """Has something to do when it is started."""

    async def on_start(self) -> None:
        await asyncio.sleep(20.0)


def patient(answer: Callable[[Any], Any] = lambda _: True, **settings: Any) -> type[Any]:
    return arena(Patient, answer=answer, asked=[], **settings)


def _limits(**changes: Any) -> Limits:
    return Limits(ping_s=PATIENT.ping_s, silence_s=PATIENT.silence_s, unjoined_s=3600.0, **changes)


def _info(server: MemoryServer) -> NodeInfo:
    return server.operate.health.info()


async def _rounds(server: MemoryServer, count: int = 1) -> None:
    """Wait until all rooms were asked so often, and what comes of it has come."""
    await asyncio.sleep(server.limits.health_s * count)
    await a_moment()


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="holdfast")


def _raises(_: Patient) -> Any:
    raise RuntimeError("I feel terrible")


async def _raises_later(_: Patient) -> Any:
    await asyncio.sleep(1.0)
    raise RuntimeError("I feel terrible")


async def _says_no(_: Patient) -> Any:
    await asyncio.sleep(1.0)
    return False


async def _never_answers(_: Patient) -> Any:
    await asyncio.Event().wait()


# Rooms


@in_virtual_time
async def test_every_room_is_asked_on_schedule() -> None:
    kind = patient()
    async with served(kind, limits=_limits(health_s=10.0)) as server:
        began_at = asyncio.get_running_loop().time()
        rooms = [await server.create_room("arena") for _ in range(3)]

        await _rounds(server, 3)

        assert [room_id for _, room_id in kind.asked] == [room.id for room in rooms] * 3
        times = [at - began_at for at, _ in kind.asked]
        assert times == pytest.approx([10.0] * 3 + [20.0] * 3 + [30.0] * 3, abs=0.1)


@pytest.mark.parametrize("answer", [True, None, 1], ids=["true", "nothing", "1"])
@in_virtual_time
async def test_a_room_that_is_well_or_has_nothing_to_say_goes_on(answer: Any) -> None:
    async with served(patient(lambda _: answer), limits=_limits()) as server:
        room = await server.create_room("arena")

        await _rounds(server, 3)

        assert list(server.rooms) == [room]
        assert _info(server).is_healthy


@pytest.mark.parametrize(
    "answer", [lambda _: False, _raises, _raises_later, _says_no, _never_answers], ids=lambda each: each.__name__
)
@in_virtual_time
async def test_a_room_that_is_not_well_is_ended_and_its_players_are_told(answer: Callable[[Any], Any]) -> None:
    async with served(patient(answer), limits=_limits(), allow_errors=RuntimeError) as server:
        ada = await server.connect("ada")
        info = await ada.create("arena")
        seat = await ada.join(info.id)

        assert await _farewell(seat) == SeatLeft(Reason.ROOM_FAILED)
        await until(lambda: not list(server.rooms))

        assert asyncio.get_running_loop().time() < server.limits.health_s + server.limits.turn_s + 1.0
        ended = server.operate.rooms.get(info.id)
        assert (ended.status, ended.reason) == ("ended", "unhealthy")
        again = await ada.join((await ada.create("arena")).id)
        assert again.id != info.id


async def _farewell(seat: ClientRoom) -> SeatLeft | None:
    async for _ in seat:
        pass
    return seat.left


@in_virtual_time
async def test_a_room_in_the_middle_of_a_turn_that_takes_no_longer_than_it_may_is_well() -> None:
    kind = arena(Busy, answer=lambda _: asyncio.sleep(4.0), asked=[])
    async with served(kind, limits=_limits(turn_s=30.0, health_timeout_s=5.0)) as server:
        room = await server.create_room("arena")
        await asyncio.sleep(9.0)

        server.machine.call(room.start)
        await _rounds(server, 4)

        assert list(server.rooms) == [room]
        assert kind.asked[0][0] == pytest.approx(9.0 + 20.0, abs=0.1)


@in_virtual_time
async def test_a_room_that_is_in_the_middle_of_something_else_for_too_long_is_not_well() -> None:
    kind = arena(Busy, answer=lambda _: True, asked=[])
    async with served(kind, limits=_limits(turn_s=30.0)) as server:
        busy, other = await server.create_room("arena"), await server.create_room("arena")
        await asyncio.sleep(9.0)

        for _ in range(3):
            server.machine.call(server.parts.rooms.runner(busy.id).follow, busy.on_start)
        await until(lambda: list(server.rooms) == [other])

        assert server.operate.rooms.get(busy.id).reason == "unhealthy"


@in_virtual_time
async def test_a_room_that_ends_by_itself_while_it_is_asked_is_not_called_unhealthy() -> None:
    async def closes(room: Patient) -> bool:
        room.close()
        await asyncio.sleep(1.0)
        return False

    async with served(patient(closes), limits=_limits()) as server:
        room = await server.create_room("arena")

        await _rounds(server)
        await until(lambda: not list(server.rooms))

        assert server.operate.rooms.get(room.id).reason == "closed"


@in_virtual_time
async def test_many_rooms_are_not_asked_in_one_turn_of_the_loop() -> None:
    kind = patient()
    async with served(kind, limits=_limits()) as server:
        for _ in range(500):
            await server.create_room("arena")

        checking = asyncio.create_task(server.machine.do(server.parts.health.check()))
        asked = [0]
        while not checking.done():
            await asyncio.sleep(0)
            asked.append(len(kind.asked))

        assert asked[-1] == 500
        assert max(after - before for before, after in itertools.pairwise(asked)) <= 64


# The node


async def _events(server: MemoryServer, *types: str) -> list[EventInfo]:
    """What has happened so far, of these types."""
    log = server.parts.events
    server.parts.context.publish(NodeReady(node="mark"))
    found: list[EventInfo] = []
    async for event in log.read(0):
        if event.body.get("node") == "mark":
            break
        found += [event] if event.type in types else []
    return found


@in_virtual_time
async def test_a_node_with_many_sick_rooms_takes_no_new_ones_until_a_round_goes_well() -> None:
    async with served(patient(lambda room: room.properties.get("well", True)), limits=_limits()) as server:
        ada = await server.connect("ada")
        for number in range(6):
            await server.create_room("arena", properties={"well": number >= 3})

        await _rounds(server)
        info = _info(server)
        with pytest.raises(Throttled, match="unhealthy"):
            await ada.create("arena")
        with pytest.raises(Throttled, match="unhealthy"):
            await ada.join_or_create("arena", where="name = 'none'")
        assert (info.is_ready, info.is_healthy, info.rooms) == (True, False, 3)
        assert info.reasons == ["most of its rooms failed the last health check"]

        await _rounds(server)

        assert (_info(server).is_healthy, _info(server).reasons) == (True, [])
        await ada.create("arena")
        events = await _events(server, "node.health")
        assert [event.body["is_healthy"] for event in events] == [False, True]


@pytest.mark.parametrize(("sick", "rooms"), [(2, 2), (3, 7), (10, 100)])
@in_virtual_time
async def test_a_few_sick_rooms_are_not_the_nodes_trouble(sick: int, rooms: int) -> None:
    async with served(patient(lambda room: room.properties["well"]), limits=_limits()) as server:
        for number in range(rooms):
            await server.create_room("arena", properties={"well": number >= sick})

        await _rounds(server)

        assert len(server.rooms) == rooms - sick
        assert _info(server).is_healthy
        await server.create_room("arena", properties={"well": True})


@in_virtual_time
async def test_a_node_announces_itself_and_is_ready_until_it_stops() -> None:
    told: list[NodeInfo] = []

    class Nosy(Room[PlayerData]):
        def on_destroy(self) -> None:
            told.append(_info(server))

    async with MemoryServer([arena(Nosy)]) as server:
        await server.create_room("arena")
        ready = _info(server)
        events = await _events(server, "node.ready")

    assert (ready.is_ready, ready.reasons, ready.rooms) == (True, [], 1)
    assert [event.body for event in events] == [{"node": ready.name}]
    assert [(info.is_ready, info.reasons) for info in told] == [(False, ["it is starting or stopping"])]


# A store that fails


class Saved(Patient):
    durability = "commit"


@in_virtual_time
async def test_a_node_whose_store_fails_takes_no_new_rooms_and_keeps_those_it_has() -> None:
    store = FaultyStore()
    limits = _limits(health_s=5.0)
    kinds = arena(Saved, answer=lambda _: True, asked=[]), chat()
    async with served(*kinds, store=store, limits=limits) as server:
        rooms = [await server.create_room("arena") for _ in range(5)]

        store.is_full = True
        server.machine.call(rooms[0].properties.__setitem__, "level", 2)
        server.machine.call(rooms[0].start)
        await _rounds(server, 5)
        info = _info(server)
        with pytest.raises(Throttled):
            await server.create_room("chat")
        assert (info.is_ready, info.is_healthy) == (True, False)
        assert info.reasons == ["its store cannot save at the moment"]

        store.is_full = False
        await _rounds(server, 3)

        assert _info(server).is_healthy
        assert list(server.rooms) == rooms, "they stood still, and that was not their own trouble"
        await server.create_room("chat")
        events = await _events(server, "node.health")
        assert [event.body["is_healthy"] for event in events] == [False, True]


async def test_a_server_on_a_real_loop_asks_its_rooms_and_stops_in_the_middle_of_it(world: World) -> None:
    asked = asyncio.Event()

    async def never_answers(_: Patient) -> None:
        asked.set()
        await asyncio.Event().wait()

    server = await world.serve(patient(never_answers), limits=Limits(health_s=0.01))
    room = await server.create_room("arena")

    await asked.wait()
    await server.stop()

    assert context_of(room).listing.reason == "stopping"
