"""All nodes are replaced one after another, in the middle of matches."""

import asyncio

from holdfast.client.room import ClientRoom
from holdfast.core.reasons import Reason
from tests.server.cluster.nodes import Nodes, Said, Say, Table, in_virtual_time, until


async def texts(room: ClientRoom, count: int) -> list[str]:
    async with asyncio.timeout(300):
        return [(await room.receive(Said)).text for _ in range(count)]


async def talk(room: ClientRoom, count: int, every_s: float) -> None:
    for number in range(count):
        await room.send(Say(str(number)))
        await asyncio.sleep(every_s)


@in_virtual_time
async def test_all_nodes_are_replaced_in_the_middle_of_matches_and_no_message_is_lost_or_doubled() -> None:
    async with Nodes("abc") as nodes:
        order = ["abc", "bca", "cab", "abc"]
        players = [await nodes.connect(f"p{n}", *order[n]) for n in range(4)]
        info = await players[0].create("table")
        others = [await players[1].create("table"), await players[2].create("table")]
        rooms = [await player.join(info.id) for player in players]
        count = 300

        talking = [asyncio.create_task(talk(room, count, 0.05)) for room in rooms]
        hearing = [asyncio.create_task(texts(room, 4 * count)) for room in rooms]
        for name in "abc":
            await nodes.servers[name].drain(5.0)
            await nodes.servers[name].stop()
            await asyncio.sleep(0.5)
            await nodes.servers[name].start()
            await asyncio.sleep(1.0)
        heard = await asyncio.gather(*hearing)
        await asyncio.gather(*talking)

        assert all(each == heard[0] for each in heard)
        for number in range(4):
            name = f"p{number}"
            assert [each for each in heard[0] if each.startswith(f"{name}:")] == [f"{name}:{n}" for n in range(count)]
        [owner] = nodes.where(info.id)
        room = nodes.servers[owner].rooms.get(info.id)
        assert isinstance(room, Table)
        # Their sockets were on nodes that stopped: they came back by another way, and the game never heard of a drop.
        assert [each for each in room.state.said if each.startswith("drop")] == []
        for other in others:
            await until(lambda other=other: len(nodes.where(other.id)) == 1)  # type: ignore[misc]  # of a lambda


@in_virtual_time
async def test_a_memory_room_plays_on_until_the_deadline_of_the_drain() -> None:
    async with Nodes("ab") as nodes:
        loop = asyncio.get_running_loop()
        ann, bob = await nodes.connect("ann", "a", "b"), await nodes.connect("bob", "a", "b")
        lounge, table = await ann.join_or_create("lounge"), await bob.join_or_create("table")
        stopping: list[float] = []
        ann.on_stopping(stopping.append)
        began_at = loop.time()

        draining = asyncio.create_task(nodes.a.drain(10.0))
        await asyncio.sleep(5.0)
        await lounge.send(Say("still"))
        assert await texts(lounge, 1) == ["ann:still"]
        assert nodes.where(table.id) == ["b"]
        await draining

        assert 9.5 <= loop.time() - began_at <= 10.5
        assert len(stopping) == 1
        await table.send(Say("on"))
        assert await texts(table, 1) == ["bob:on"]


@in_virtual_time
async def test_a_player_without_a_room_goes_to_another_node_when_theirs_drains() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a", "b")
        drops: list[object] = []
        ann.on_drop(drops.append)

        await nodes.a.drain(5.0)

        assert nodes.where_session(ann.id) == ["b"]
        assert drops == []
        assert (await ann.join_or_create("table")).kind == "table"


@in_virtual_time
async def test_a_player_who_leaves_a_memory_room_during_a_drain_goes_on_elsewhere() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a", "b")
        room = await ann.join_or_create("lounge")
        draining = asyncio.create_task(nodes.a.drain(30.0))
        await asyncio.sleep(1.0)
        await room.leave()
        await draining

        assert nodes.where_session(ann.id) == ["b"]


@in_virtual_time
async def test_a_client_that_reads_nothing_returns_to_the_moved_room_and_misses_nothing() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "a")
        anns = await ann.join_or_create("table")
        bobs = await bob.join(anns.id)
        # Bob's program takes its messages late: acknowledgements stop, and what he sends waits.
        count = nodes.limits.window_messages_max + 10
        for number in range(count):
            await anns.send(Say(str(number)))
        heard = await texts(anns, count)
        for number in range(5):
            await bobs.send(Say(f"late {number}"))
        await asyncio.sleep(1.0)

        await nodes.migration("a").move(anns.id, "b")

        assert await texts(bobs, count + 5) == [*heard, *(f"bob:late {n}" for n in range(5))]
        assert nodes.where_session(bob.id) == ["b"]
        assert bob.outcome is not None
        assert bob.outcome.drop_reason in {"", Reason.MOVED}


@in_virtual_time
async def test_a_hundred_rooms_are_handed_over_and_each_stands_still_for_less_than_half_a_second() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "a")
        rooms = [(await ann.create("table")).id for _ in range(100)]

        await nodes.a.drain(5.0)

        assert all(len(nodes.where(room_id)) == 1 and nodes.where(room_id) != ["a"] for room_id in rooms)
        pauses = sorted(nodes.migration("a").pauses_s)
        assert len(pauses) == 100
        assert pauses[98] <= 0.5
