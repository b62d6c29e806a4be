"""Whatever a room has moves with it: spectators, agents, shared state, timers, reservations, transactions."""

import asyncio
from typing import Any

import pytest

from holdfast import MessageRefused, RoomFull
from holdfast.client.room import ClientRoom
from tests.server.cluster.games import Botted, Clock, Fails, Hall, Pot, Strict, Watched
from tests.server.cluster.nodes import Lounge, Nodes, Said, Say, Table, in_virtual_time, until

ALL = (Table, Lounge, Pot, Strict, Clock, Botted, Hall, Watched)


def all_nodes(names: str = "ab", **options: Any) -> Nodes:
    return Nodes(names, rooms=ALL, **options)


async def texts(room: ClientRoom, count: int) -> list[str]:
    async with asyncio.timeout(60):
        return [(await room.receive(Said)).text for _ in range(count)]


@in_virtual_time
async def test_a_spectator_goes_with_the_room() -> None:
    async with all_nodes() as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        room = await ann.join_or_create("watched")
        watching = await bob.spectate(room.id)
        drops: list[object] = []
        bob.on_drop(drops.append)

        await nodes.migration("a").move(room.id, "b")
        await room.send(Say("hello"))

        assert await texts(watching, 1) == ["ann:hello"]
        assert drops == []
        assert nodes.where_session(bob.id) == ["b"]


@in_virtual_time
async def test_rooms_that_are_linked_by_a_spectator_go_together() -> None:
    async with all_nodes() as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "a")
        anns = await ann.join_or_create("watched")
        bobs = await bob.join_or_create("table")
        watching = await bob.spectate(anns.id)

        await nodes.migration("a").move(bobs.id, "b")
        await anns.send(Say("hello"))
        await bobs.send(Say("here"))

        assert nodes.where(anns.id) == nodes.where(bobs.id) == ["b"]
        assert await texts(watching, 1) == ["ann:hello"]
        assert await texts(bobs, 1) == ["bob:here"]


@in_virtual_time
async def test_a_player_who_watches_a_room_in_memory_stops_watching_when_their_room_moves() -> None:
    async with all_nodes() as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "a")
        Lounge.max_spectators = 4
        anns = await ann.join_or_create("lounge")
        bobs = await bob.join_or_create("table")
        watching = await bob.spectate(anns.id)

        await nodes.migration("a").move(bobs.id, "b")
        await bobs.send(Say("here"))
        await anns.send(Say("there"))

        assert await texts(bobs, 1) == ["bob:here"]
        assert await texts(anns, 1) == ["ann:there"]
        await until(lambda: watching.left is not None)
        assert watching.left is not None
        assert watching.left.reason == "moved"


@in_virtual_time
async def test_shared_state_is_exact_after_moves() -> None:
    async with all_nodes() as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        anns = await ann.join_or_create("pot")
        bobs = await bob.join(anns.id)

        for number in range(20):
            await anns.send(Say("a"))
            await bobs.send(Say("b"))
            if number % 5 == 4:
                await nodes.migration("a").move(anns.id, "ba"[number // 5 % 2])
        await until(lambda: anns.state.get("total") == 40 and bobs.state.get("total") == 40)

        assert anns.state == bobs.state == {"total": 40, "by": {"ann": 20, "bob": 20}}


@in_virtual_time
async def test_a_failed_turn_of_a_moved_room_leaves_nothing_behind() -> None:
    async with all_nodes(allow_errors=ValueError) as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join_or_create("strict")
        await room.send(Say("1"))
        await room.send(Fails("no"))
        await nodes.migration("a").move(room.id, "b")
        await room.send(Fails("no"))
        await room.send(Say("2"))

        assert await texts(room, 2) == ["ann:1", "ann:2"]
        there = nodes.b.rooms.get(room.id)
        assert isinstance(there, Strict)
        assert there.state.said == ["ann:1", "ann:2"]


@in_virtual_time
async def test_timers_keep_their_times_while_their_room_moves_and_whatever_the_clocks_say() -> None:
    async with all_nodes() as nodes:
        loop = asyncio.get_running_loop()
        # An hour ahead, as on a machine whose clock is wrong.
        nodes.b.parts.clock.wall_clock = lambda: loop.time() + 3600.0
        await asyncio.sleep(1.0)
        ann = await nodes.connect("ann", "a")
        room = await ann.join_or_create("clock")
        began_at = loop.time()
        for number in range(8):
            await asyncio.sleep(0.3)
            await nodes.migration("a").move(room.id, "ba"[number % 2])

        await until(lambda: loop.time() >= began_at + 6.1)

        there = nodes.a.rooms.get(room.id)
        assert isinstance(there, Clock)
        assert there.state.said.count("once") == 1
        assert there.state.said.index("once") in {9, 10}
        assert there.state.said.count("tick") == 12


@in_virtual_time
async def test_an_agent_of_the_room_plays_on_where_the_room_is() -> None:
    async with all_nodes() as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join_or_create("botted")
        await room.send(Say("1"))
        assert await texts(room, 2) == ["ann:1", "agent:bot:heard ann:1"]

        await nodes.migration("a").move(room.id, "b")
        await room.send(Say("2"))

        assert await texts(room, 2) == ["ann:2", "agent:bot:heard ann:2"]


@in_virtual_time
async def test_an_agent_of_the_server_is_told_that_the_room_has_moved_away() -> None:
    async with all_nodes() as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join_or_create("table")
        agent = nodes.a.open_agent("scout")
        scouts = await agent.join(room.id)

        await nodes.migration("a").move(room.id, "b")
        async with asyncio.timeout(10):
            _ = [message async for message in scouts]

        assert scouts.left is not None
        assert scouts.left.reason == "moved"


@in_virtual_time
async def test_a_reserved_seat_is_kept_in_a_room_that_moves() -> None:
    async with all_nodes() as nodes:
        ann = await nodes.connect("ann", "a")
        info = await ann.create("table", max_players=2)
        room = await ann.join(info.id)
        await ann.reserve(info.id, players=["bob"])

        await nodes.migration("a").move(room.id, "b")

        cat, bob = await nodes.connect("cat", "a"), await nodes.connect("bob", "a")
        with pytest.raises(RoomFull):
            await cat.join(info.id)
        bobs = await bob.join(info.id)
        await bobs.send(Say("here"))
        assert await texts(room, 1) == ["bob:here"]


@in_virtual_time
async def test_a_refused_message_before_a_move_is_answered_once() -> None:
    async with all_nodes(allow_errors=ValueError) as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join_or_create("strict")
        await room.send(Fails("no"))
        await nodes.migration("a").move(room.id, "b")
        await room.send(Say("on"))

        assert await texts(room, 1) == ["ann:on"]
        refused = [await room.receive(MessageRefused)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                refused.append(await room.receive(MessageRefused))
        assert [each.type for each in refused] == ["fails"]


@in_virtual_time
async def test_a_live_search_goes_on_when_the_room_of_its_player_moves() -> None:
    async with all_nodes() as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        room = await ann.join_or_create("table")
        found = await ann.watch("lounge")

        await nodes.migration("a").move(room.id, "b")
        made = await bob.create("lounge")

        await until(lambda: made.id in found.rooms)
        await room.send(Say("on"))
        assert await texts(room, 1) == ["ann:on"]
        there = nodes.b.rooms.get(room.id)
        assert isinstance(there, Table)
        assert there.state.said == ["ann:on"]
