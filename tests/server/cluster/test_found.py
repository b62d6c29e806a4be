"""What the simulation of a cluster has found, each reduced to the few steps that it takes."""

import asyncio
from dataclasses import replace

import pytest

from holdfast import Throttled
from holdfast.stores import Unavailable
from holdfast.testing import FaultyStore, generous
from holdfast.testing.bus import MemoryBus
from tests.server.cluster.nodes import Nodes, Said, Say, Table, in_virtual_time, until


class Gallery(Table):
    """It can be watched."""

    kind = "gallery"
    max_spectators = 2
    empty_ttl_s = 600.0


def store_of(nodes: Nodes, name: str) -> FaultyStore:
    committer = nodes.servers[name].parts.committer
    assert committer is not None
    assert isinstance(committer.store, FaultyStore)
    return committer.store


def bus_of(nodes: Nodes, name: str) -> MemoryBus:
    cluster = nodes.servers[name].parts.cluster
    assert cluster is not None
    assert isinstance(cluster.node.bus, MemoryBus)
    return cluster.node.bus


@in_virtual_time
async def test_a_player_who_returns_while_the_room_stands_still_returns_once_more_to_where_it_is() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join_or_create("table")
        store_of(nodes, "a").latency_s = 0.2
        moving = asyncio.create_task(nodes.migration("a").move(room.id, "b"))
        await asyncio.sleep(0.1)

        nodes.a.link(ann).cut()
        await moving
        await room.send(Say("after"))

        async with asyncio.timeout(5.0):
            assert (await room.receive(Said)).text == "ann:after"
        assert nodes.where_session(ann.id) == ["b"]
        assert nodes.a.counters.internal_errors == 0


@in_virtual_time
async def test_an_operator_is_told_to_try_again_if_a_node_that_may_have_the_room_is_silent() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join_or_create("table")
        bus_of(nodes, "a").is_deaf = True

        with pytest.raises(Throttled, match="does not answer"):
            await nodes.b.machine.do(nodes.migration("b").move(room.id, "c"))

        bus_of(nodes, "a").is_deaf = False
        assert nodes.where(room.id) == ["a"]


@in_virtual_time
async def test_a_room_stays_if_the_other_node_cannot_read_the_store() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join_or_create("table")
        store_of(nodes, "b").fail(Unavailable("it is busy"))

        with pytest.raises(Throttled, match="it is busy"):
            await nodes.migration("a").move(room.id, "b")

        await room.send(Say("still here"))
        assert (await room.receive(Said)).text == "ann:still here"
        assert nodes.where(room.id) == ["a"]


@in_virtual_time
async def test_a_room_that_has_ended_when_it_is_to_be_taken_is_left_alone() -> None:
    async with Nodes("ab") as nodes:
        cluster = nodes.a.parts.cluster
        assert cluster is not None

        await nodes.a.machine.do(cluster.takeover.take("ended"))

        assert nodes.where("ended") == []


@in_virtual_time
async def test_a_node_that_has_lost_a_session_says_so_when_it_has_ended_elsewhere() -> None:
    async with Nodes("ab", grace_s=5.0) as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join_or_create("table")
        dialer = nodes.a.dialer(ann)
        dialer.is_down = True
        nodes.a.pause()
        nodes.a.link(ann).cut()
        await until(lambda: "b" in nodes.where(room.id))
        nodes.a.wake()
        await until(lambda: "a" not in nodes.where(room.id))
        await until(lambda: not [key for key in nodes.disk.entries if key.startswith("session/")])

        dialer.is_down = False
        await until(lambda: ann.outcome is not None and ann.outcome.kind == "reset")

        assert nodes.where_session(ann.id) == ["a"]


@in_virtual_time
async def test_a_player_and_the_two_rooms_of_their_session_go_to_one_node_when_theirs_dies() -> None:
    for seed in range(4):
        async with Nodes("abc", seed=seed, rooms=(Table, Gallery)) as nodes:
            ann, bob = await nodes.connect("ann", "a", "b", "c"), await nodes.connect("bob", "a", "b", "c")
            info = await bob.create("gallery")
            played, watched = await ann.join_or_create("table"), await ann.spectate(info.id)

            nodes.a.crash()
            await played.send(Say("still here"))

            assert (await played.receive(Said)).text == "ann:still here"
            assert nodes.where(played.id) == nodes.where(watched.id) == nodes.where_session(ann.id)


@in_virtual_time
async def test_a_session_whose_end_is_not_saved_yet_is_not_taken_back_from_the_store() -> None:
    async with Nodes("ab", grace_s=2.0) as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join_or_create("table")
        await room.leave()
        # Reads succeed: only what is written has no answer.
        store_of(nodes, "a").is_full = True
        nodes.a.dialer(ann).is_down = True
        nodes.a.link(ann).cut()
        await until(lambda: nodes.where_session(ann.id) == [])
        cluster = nodes.a.parts.cluster
        assert cluster is not None

        cluster.takeover.sweep()
        await asyncio.sleep(1.0)

        assert nodes.where_session(ann.id) == []
        store_of(nodes, "a").heal()
        await until(lambda: not [key for key in nodes.disk.entries if key.startswith("session/")])
        assert nodes.a.counters.internal_errors == 0


@in_virtual_time
async def test_a_client_that_has_acknowledged_all_is_sent_more_after_its_room_has_moved() -> None:
    async with Nodes("ab", limits=replace(generous(), window_messages_max=4)) as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join_or_create("table")
        # They are saved before any of them leaves, and not again when they are acknowledged.
        for number in range(12):
            nodes.a.broadcast(Said("before", number))
        for number in range(12):
            assert (await ann.receive(Said)).number == number
        # Who asks for the next one has acknowledged the last.
        after = asyncio.create_task(ann.receive(Said))
        await asyncio.sleep(2.0)

        await nodes.migration("a").move(room.id, "b")
        nodes.b.broadcast(Said("after", 12))

        async with asyncio.timeout(5.0):
            assert (await after).text == "after"


@in_virtual_time
async def test_the_rooms_of_a_node_that_stops_do_not_wait_for_a_client_that_does_not_hang_up() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join_or_create("table")
        # The node says that it stops, and its client does not answer.
        nodes.a.link(ann).stall()
        stopping = asyncio.create_task(nodes.a.stop())

        await until(lambda: nodes.b.rooms.get(room.id) is not None, 1.0)

        assert not stopping.done()
        nodes.a.link(ann).cut()
        await stopping


@in_virtual_time
async def test_a_session_that_another_node_has_taken_is_not_handed_over_as_well() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        room = await bob.join_or_create("table")
        own = await ann.join((await ann.create("table")).id)
        await own.leave()
        await asyncio.sleep(1.0)
        # As if another node had read it, and written it first.
        record = nodes.disk.entries[key := f"session/{ann.id}"]
        await store_of(nodes, "b").put(key, record.value, record.revision)
        store_of(nodes, "a").latency_s = 0.1
        nodes.a.broadcast(Said("on its way to the store", 1))
        await asyncio.sleep(0.01)

        await ann.join(room.id)

        # It has resumed from the store, and was handed over then. Two copies would differ.
        assert ann.outcome is not None
        assert ann.outcome.kind == "resumed"
        assert nodes.where_session(ann.id) == ["b"]


@in_virtual_time
async def test_a_connection_is_as_old_on_the_node_that_it_is_relayed_to() -> None:
    async with Nodes("ab") as nodes:
        bob = await nodes.connect("bob", "b")
        room = await bob.join_or_create("table")
        ann = await nodes.connect("ann", "a")
        came_at = asyncio.get_running_loop().time()
        await asyncio.sleep(3.0)

        await ann.join(room.id)

        session = nodes.b.sessions.get(ann.id)
        assert session is not None
        assert session.connection is not None
        # Which of two hellos is the older one is told by that.
        assert session.connection.opened_at == pytest.approx(came_at, abs=0.1)
