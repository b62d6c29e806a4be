"""What a player has reserved, waits for or has started is theirs wherever their session is, and ends with it."""

import asyncio
from typing import Any

import pytest

from holdfast.client.session import ClientSession
from holdfast.core.errors import AlreadySeated, Conflict, NotFound
from holdfast.core.placement import Queue
from holdfast.schemas.requests import PlacedPlayer, StartPlacement
from holdfast.schemas.room import RoomInfo
from holdfast.server.rooms.runner import RoomRunner
from holdfast.testing.server import generous
from tests.server.cluster.nodes import Lounge, Nodes, Table, in_virtual_time, until

SOON_S = 1.0
"""A client that waits asks for its place every five seconds: what comes sooner was told."""
QUEUES = [Queue("here", ("*",)), Queue("moon", ("region:moon",), timeout_s=300.0)]


class Den(Lounge):
    """Two seats and a waitlist."""

    kind = "den"
    max_players = 2
    waiting_max = 4


def den_nodes(names: str = "abc", **options: Any) -> Nodes:
    return Nodes(names, rooms=(Table, Lounge, Den), queues=QUEUES, **options)


async def full_den(nodes: Nodes, at: str) -> tuple[RoomInfo, ClientSession]:
    """A room without an open seat, and a player who can leave it."""
    zoe, yan = await nodes.connect("zoe", at), await nodes.connect("yan", at)
    room = await zoe.join_or_create("den")
    await yan.join(room.id)
    assert room.info is not None
    return room.info, zoe


def runner_of(nodes: Nodes, room: RoomInfo) -> RoomRunner:
    [at] = nodes.where(room.id)
    return nodes.servers[at].rooms.runner(room.id)


async def waiting(nodes: Nodes, session: ClientSession, room: RoomInfo) -> "asyncio.Task[Any]":
    task = asyncio.create_task(session.wait_for_seat(room.id))
    await until(lambda: session.player_id in runner_of(nodes, room).seats.waitlist)
    return task


async def leave(session: ClientSession) -> None:
    assert session.room is not None
    await session.room.leave()


# The waitlist


@in_virtual_time
async def test_a_player_who_waits_for_a_room_of_another_node_is_offered_its_seat_at_once_and_takes_it() -> None:
    async with den_nodes() as nodes:
        room, zoe = await full_den(nodes, "b")
        ann = await nodes.connect("ann", "a")
        seat = await waiting(nodes, ann, room)

        await leave(zoe)

        async with asyncio.timeout(SOON_S):
            assert (await seat).id == room.id
        assert nodes.where_session(ann.id) == ["b"]


@pytest.mark.parametrize("first", ["a", "b"])
@in_virtual_time
async def test_a_player_who_goes_to_another_node_keeps_the_place_and_hears_the_offer_there(first: str) -> None:
    async with den_nodes() as nodes:
        room, zoe = await full_den(nodes, "b")
        far = await (await nodes.connect("host", "c")).create("table")
        ann, bob = await nodes.connect("ann", first), await nodes.connect("bob", "b")
        seat = await waiting(nodes, ann, room)
        await waiting(nodes, bob, room)

        await ann.join(far.id)
        await asyncio.sleep(20.0)
        assert nodes.where_session(ann.id) == ["c"]
        assert list(runner_of(nodes, room).seats.waitlist) == ["ann", "bob"]
        await leave(zoe)
        async with asyncio.timeout(SOON_S):
            # The offer has come: the client tries to take it, and has a seat.
            with pytest.raises(AlreadySeated):
                await seat


@in_virtual_time
async def test_a_player_who_returns_by_another_node_keeps_the_place_and_is_offered_the_seat() -> None:
    async with den_nodes() as nodes:
        room, zoe = await full_den(nodes, "b")
        ann = await nodes.connect("ann", "a", "c")
        seat = await waiting(nodes, ann, room)

        nodes.a._stop_listening()  # noqa: SLF001 - the way to its node is closed, and the node lives
        nodes.a.link(ann).cut()
        await ann.my_rooms()
        assert nodes.edge("c").relayed_count == 1
        await leave(zoe)

        async with asyncio.timeout(SOON_S):
            assert (await seat).id == room.id


@in_virtual_time
async def test_an_offer_made_while_the_session_goes_to_another_node_is_heard() -> None:
    for moment in range(12):
        async with den_nodes(seed=moment) as nodes:
            room, zoe = await full_den(nodes, "b")
            far = await (await nodes.connect("host", "c")).create("table")
            ann = await nodes.connect("ann", "a")
            seat = await waiting(nodes, ann, room)

            going = asyncio.create_task(ann.join(far.id))
            await asyncio.sleep(0.0005 * moment)
            await leave(zoe)
            await going

            async with asyncio.timeout(SOON_S):
                with pytest.raises(AlreadySeated):
                    await seat


@in_virtual_time
async def test_a_player_whose_session_ends_on_another_node_waits_no_more_and_what_they_reserved_is_free() -> None:
    async with den_nodes() as nodes:
        room, zoe = await full_den(nodes, "b")
        lounge = await (await nodes.connect("ann", "b")).create("lounge")
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        await waiting(nodes, ann, room)
        seat = await waiting(nodes, bob, room)
        for session in nodes.b.sessions.of_player("ann"):
            session.end("elsewhere")
        await ann.reserve(lounge.id, players=["ann", "friend"], ttl_s=3600)
        await asyncio.sleep(SOON_S)
        assert set(runner_of(nodes, lounge).seats.reservations) == {"ann", "friend"}

        await ann.close()
        await asyncio.sleep(SOON_S)

        assert not runner_of(nodes, lounge).seats.reservations
        await leave(zoe)
        async with asyncio.timeout(SOON_S):
            assert (await seat).id == room.id


@in_virtual_time
async def test_what_a_player_of_a_dead_node_has_reserved_is_free_after_the_grace_and_kept_if_they_are_back() -> None:
    async with den_nodes(grace_s=10.0) as nodes:
        made = {name: await (await nodes.connect(name, "b")).create("lounge") for name in ("ann", "bob")}
        for name in made:
            [session] = nodes.b.sessions.of_player(name)
            session.end("elsewhere")
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "a")
        for client in (ann, bob):
            await client.reserve(made[client.player_id].id, ttl_s=3600)

        nodes.a.crash()
        await nodes.connect("bob", "c")
        await asyncio.sleep(5.0)
        assert "ann" in runner_of(nodes, made["ann"]).seats.reservations
        await asyncio.sleep(10.0)

        assert "ann" not in runner_of(nodes, made["ann"]).seats.reservations
        assert "bob" in runner_of(nodes, made["bob"]).seats.reservations


@in_virtual_time
async def test_nothing_of_a_player_ends_before_every_node_has_said_that_they_are_not_there() -> None:
    async with den_nodes("abcd") as nodes:
        lounge = await (await nodes.connect("ann", "b")).create("lounge")
        for session in nodes.b.sessions.of_player("ann"):
            session.end("elsewhere")
        ann = await nodes.connect("ann", "a")
        await ann.reserve(lounge.id, ttl_s=3600)

        nodes.bus("d").is_deaf = True
        await ann.close()
        await asyncio.sleep(5.0)
        assert "ann" in runner_of(nodes, lounge).seats.reservations
        nodes.bus("d").is_deaf = False
        await asyncio.sleep(3.0)

        assert "ann" not in runner_of(nodes, lounge).seats.reservations


class Inn(Table):
    """A durable room with two seats and a waitlist."""

    kind = "inn"
    max_players = 2
    waiting_max = 4


@in_virtual_time
async def test_a_waitlist_goes_with_its_room_to_another_node_in_its_order() -> None:
    async with Nodes("abc", rooms=(Table, Inn)) as nodes:
        zoe, yan = await nodes.connect("zoe", "a"), await nodes.connect("yan", "a")
        joined = await zoe.join_or_create("inn")
        await yan.join(joined.id)
        assert joined.info is not None
        room = joined.info
        names = ("ann", "bob", "cat", "dan")
        clients = {name: await nodes.connect(name, at) for name, at in zip(names, "abca", strict=True)}
        seats = {name: await waiting(nodes, client, room) for name, client in clients.items()}

        await nodes.migration("a").move(room.id, "b")
        await clients["cat"].close()
        await asyncio.sleep(SOON_S)

        assert nodes.where(room.id) == ["b"]
        assert list(runner_of(nodes, room).seats.waitlist) == list(names)
        await leave(zoe)
        async with asyncio.timeout(SOON_S):
            assert (await seats["ann"]).id == room.id
        await leave(yan)
        async with asyncio.timeout(SOON_S):
            assert (await seats["bob"]).id == room.id
        await leave(clients["ann"])
        async with asyncio.timeout(SOON_S):
            # One who has gone is passed over.
            assert (await seats["dan"]).id == room.id
        for task in seats.values():
            task.cancel()
        await asyncio.gather(*seats.values(), return_exceptions=True)


# Placements


@in_virtual_time
async def test_the_end_of_a_placement_is_heard_where_the_player_is_by_now() -> None:
    async with den_nodes("ab") as nodes:
        far = await (await nodes.connect("host", "b")).create("table")
        ann = await nodes.connect("ann", "a")
        placement = await ann.place("moon", "lounge", players=["ann"])

        await ann.join(far.id)
        assert nodes.where_session(ann.id) == ["b"]
        nodes.a.parts.placements.stop(placement.id)

        async with asyncio.timeout(SOON_S):
            assert (await placement.done()).status == "cancelled"


@in_virtual_time
async def test_a_placement_is_shown_and_stopped_by_every_node_to_its_owner_alone() -> None:
    async with den_nodes() as nodes:
        started = nodes.a.parts.placements.start(StartPlacement("moon", "lounge"), "ann")

        for name in "abc":
            desk = nodes.servers[name].operate.placements
            assert (await desk.get(started.id, "ann")).status == "pending"
            assert (await desk.get(started.id)).id == started.id
            assert [info.id for info in (await desk.list())[0]] == [started.id]
            with pytest.raises(NotFound):
                await desk.get(started.id, "bob")
            with pytest.raises(NotFound):
                await desk.stop(started.id, "bob")
        assert (await nodes.c.operate.placements.stop(started.id, "ann")).status == "cancelled"
        assert (await nodes.b.operate.placements.stop(started.id, "ann")).status == "cancelled"
        nodes.bus("a").is_deaf = True
        placements, missing = await nodes.b.operate.placements.list()
        assert (placements, missing) == ([], ["a"])


@in_virtual_time
async def test_a_placement_with_an_id_is_started_once_by_whichever_nodes() -> None:
    async with den_nodes() as nodes:
        wanted = StartPlacement("here", "lounge", [PlacedPlayer("ann")], id="match-17")
        desks = [nodes.servers[name].operate.placements for name in "abc"]

        started = await asyncio.gather(*(desk.start(wanted, "ann") for desk in desks * 3))
        assert {info.id for info in started} == {"match-17"}
        await asyncio.sleep(SOON_S)
        infos = [await desk.get("match-17", "ann") for desk in desks]
        assert {info.room.id for info in infos if info.room is not None} == {infos[0].room and infos[0].room.id}
        assert sum(len(nodes.servers[name].rooms) for name in "abc") == 1
        late = nodes.servers["d"] = nodes.server("d")
        await late.start()
        assert (await late.operate.placements.start(wanted, "ann")).status == "fulfilled"
        with pytest.raises(Conflict):
            await late.operate.placements.start(StartPlacement("here", "den", id="match-17"), "ann")


@in_virtual_time
async def test_a_notice_reaches_all_sessions_of_its_player_on_all_nodes() -> None:
    async with den_nodes(limits=generous()) as nodes:
        sessions = [await nodes.connect("ann", name) for name in "abc"]
        placements = [await each.place("moon", "lounge", players=["ann"], id="one") for each in sessions]

        await placements[1].stop()

        async with asyncio.timeout(SOON_S):
            assert [(await each.done()).status for each in placements] == ["cancelled"] * 3
