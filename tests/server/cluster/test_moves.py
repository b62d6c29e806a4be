"""Rooms move to another node in the middle of a match, and a node that drains is emptied: nobody drops."""

import asyncio

import pytest

from holdfast import NotAllowed, NotFound
from holdfast.client.session import ClientSession
from holdfast.cluster.port import NoReply
from tests.server.cluster.nodes import Board, Nodes, Said, Say, Table, in_virtual_time, until


class Watch:
    """What a client noticed of its connection."""

    def __init__(self, session: ClientSession) -> None:
        self.drops: list[object] = []
        session.on_drop(self.drops.append)


async def table(nodes: Nodes, *players: str, on: str = "a"):  # type: ignore[no-untyped-def]
    """Players on one table, each connected to another node."""
    names = list(nodes.servers)
    sessions = [await nodes.connect(player, names[n % len(names)]) for n, player in enumerate(players)]
    rooms = [await sessions[0].join_or_create("table")]
    rooms += [await session.join(rooms[0].id) for session in sessions[1:]]
    assert nodes.where(rooms[0].id) == [on]
    return sessions, rooms


async def numbers(room, count: int) -> list[int]:  # type: ignore[no-untyped-def]
    async with asyncio.timeout(60):
        return [(await room.receive(Said)).number for _ in range(count)]


def story(nodes: Nodes, room_id: str) -> Board:
    [name] = nodes.where(room_id)
    room = nodes.servers[name].rooms.get(room_id)
    assert isinstance(room, Table)
    return room.state


@in_virtual_time
async def test_a_room_moves_and_nobody_drops() -> None:
    async with Nodes("ab") as nodes:
        sessions, rooms = await table(nodes, "ann", "bob", "cat")
        watches = [Watch(session) for session in sessions]
        await rooms[0].send(Say("before"))
        for room in rooms:
            assert await numbers(room, 1) == [1]

        await nodes.migration("a").move(rooms[0].id, "b")

        assert nodes.where(rooms[0].id) == ["b"]
        for room in rooms:
            await room.send(Say("after"))
        for room in rooms:
            assert await numbers(room, 3) == [2, 3, 4]
        assert [watch.drops for watch in watches] == [[], [], []]
        assert sorted(story(nodes, rooms[0].id).said[1:]) == [f"{name}:after" for name in ("ann", "bob", "cat")]


@in_virtual_time
async def test_a_room_moves_while_everybody_talks_and_nothing_is_lost_or_doubled() -> None:
    async with Nodes("abc") as nodes:
        sessions, rooms = await table(nodes, "ann", "bob", "cat", "dan")
        watches = [Watch(session) for session in sessions]
        count = 200

        async def talk(room) -> None:  # type: ignore[no-untyped-def]
            for number in range(count):
                await room.send(Say(f"{number}"))
                await asyncio.sleep(0.01)

        async def move() -> None:
            for to in "bcabcab":
                await asyncio.sleep(0.2)
                await nodes.migration("c").move(rooms[0].id, to)

        talking = [asyncio.create_task(talk(room)) for room in rooms]
        moving = asyncio.create_task(move())
        heard = await asyncio.gather(*(numbers(room, 4 * count) for room in rooms))
        await asyncio.gather(*talking, moving)

        assert heard == [list(range(1, 4 * count + 1))] * 4
        assert nodes.where(rooms[0].id) == ["b"]
        said = story(nodes, rooms[0].id).said
        for name in ("ann", "bob", "cat", "dan"):
            assert [each for each in said if each.startswith(f"{name}:")] == [f"{name}:{n}" for n in range(count)]
        assert [watch.drops for watch in watches] == [[]] * 4


@in_virtual_time
async def test_a_player_who_is_away_returns_to_the_room_where_it_is_now() -> None:
    async with Nodes("ab") as nodes:
        [ann, bob], [anns, bobs] = await table(nodes, "ann", "bob")
        nodes.b.link(bob).cut()
        nodes.b.dialer(bob).delay_s = 3.0
        await until(lambda: "drop bob" in story(nodes, anns.id).said)

        await nodes.migration("a").move(anns.id, "b")
        await anns.send(Say("hello"))

        assert await numbers(anns, 1) == [2]
        assert await numbers(bobs, 1) == [2]
        assert nodes.where_session(bob.id) == nodes.where_session(ann.id) == ["b"]


@in_virtual_time
async def test_what_cannot_move_says_why_and_goes_on() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a")
        lounge = await ann.join_or_create("lounge")
        with pytest.raises(NotAllowed, match="in memory only"):
            await nodes.migration("a").move(lounge.id, "b")
        with pytest.raises(NotFound, match="no node 'x'"):
            await nodes.migration("a").move(lounge.id, "x")
        with pytest.raises(NotFound, match="no room"):
            await nodes.migration("a").move("nowhere", "b")

        await lounge.send(Say("still here"))
        assert await numbers(lounge, 1) == [1]


@in_virtual_time
async def test_a_room_stays_if_the_other_node_is_gone_before_it_takes_it() -> None:
    async with Nodes("ab") as nodes:
        _, [anns] = await table(nodes, "ann")
        moving = asyncio.create_task(nodes.migration("a").move(anns.id, "b"))
        nodes.b.crash()
        with pytest.raises(Exception, match=r"gone|does not answer|no node"):
            await moving

        await anns.send(Say("still here"))
        assert await numbers(anns, 1) == [1]


@in_virtual_time
async def test_a_player_connected_to_a_node_that_ends_plays_on_at_another_one_at_once() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a", "b")
        room = await ann.join((await ann.create("table")).id)
        watch = Watch(ann)
        await nodes.a.drain(5.0)
        ending = asyncio.create_task(nodes.a.stop())
        await until(lambda: bool(watch.drops))
        ended_at = asyncio.get_running_loop().time()
        await room.send(Say("after"))
        await numbers(room, 1)

        assert asyncio.get_running_loop().time() - ended_at < 0.2
        await ending


@in_virtual_time
async def test_who_waits_long_for_the_answer_of_a_node_hears_soon_that_it_has_died() -> None:
    async with Nodes("ab") as nodes:
        asking, asked = (nodes.servers[name].parts.cluster for name in "ba")
        assert asking is not None
        assert asked is not None
        never = asyncio.Event()
        asked.node.questions.answer("wait", bool, lambda _: never.wait())
        waiting = asyncio.create_task(asking.node.questions.ask(asked.node.life, "wait", True, bool, within_s=30.0))
        await asyncio.sleep(1.0)

        nodes.a.crash()
        died_at = asyncio.get_running_loop().time()
        with pytest.raises(NoReply, match="has gone"):
            await waiting

        assert asyncio.get_running_loop().time() - died_at < 3.0


@in_virtual_time
async def test_a_node_that_drains_is_emptied_and_a_player_connected_elsewhere_does_not_drop() -> None:
    async with Nodes("abc") as nodes:
        bob = await nodes.connect("bob", "b")
        rooms = []
        for number in range(5):
            creator = await nodes.connect(f"ann {number}", "a")
            rooms.append(await creator.create("table"))
        joined = await bob.join(rooms[0].id)
        watch = Watch(bob)
        await joined.send(Say("before"))

        await nodes.a.drain(5.0)

        assert [nodes.where(room.id) for room in rooms].count(["a"]) == 0
        assert all(len(nodes.where(room.id)) == 1 for room in rooms)
        await joined.send(Say("after"))
        assert await numbers(joined, 2) == [1, 2]
        assert nodes.where_session(bob.id) == nodes.where(rooms[0].id)
        assert len(nodes.a.sessions) == 0
        assert watch.drops == []
