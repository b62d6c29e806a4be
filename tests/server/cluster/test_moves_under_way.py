"""What happens while a session or a room is on its way to another node: it happens there, or here, and once."""

import asyncio

import pytest

from holdfast import Refused, SessionEnded, Throttled
from holdfast.client.room import ClientRoom
from tests.server.cluster.games import Hall
from tests.server.cluster.nodes import Lounge, Nodes, Said, Say, Table, asks, in_virtual_time, soon, until


async def texts(room: ClientRoom, count: int) -> list[str]:
    async with asyncio.timeout(60):
        return [(await room.receive(Said)).text for _ in range(count)]


def said(nodes: Nodes, room_id: str) -> list[str]:
    [name] = nodes.where(room_id)
    room = nodes.servers[name].rooms.get(room_id)
    assert isinstance(room, Table)
    return room.state.said


async def move_slowly(nodes: Nodes, room_id: str, to: str = "b") -> "asyncio.Task[None]":
    """A move whose offer waits for its answer."""
    nodes.bus(to).ignores = asks("take_rooms")
    moving = asyncio.create_task(nodes.migration("a").move(room_id, to))
    cluster = nodes.a.parts.cluster
    assert cluster is not None
    departures = cluster.departures
    sessions = [seat.session.id for seat in nodes.a.parts.rooms.runner(room_id).seats.occupied]
    await soon(lambda: all(departures.is_leaving(each) for each in sessions))
    await asyncio.sleep(0.2)
    assert not moving.done()
    return moving


def hear_again(nodes: Nodes) -> None:
    bus = nodes.bus("b")
    bus.ignores = bus.loses_answer = lambda _: False


@in_virtual_time
async def test_a_player_banned_while_their_room_moves_is_out_there() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        anns = await ann.join_or_create("table")
        await bob.join(anns.id)
        moving = await move_slowly(nodes, anns.id)

        nodes.a.sessions.get(bob.id).end("bad manners")  # type: ignore[union-attr]  # it is there
        hear_again(nodes)
        await moving

        await until(lambda: nodes.where_session(bob.id) == [])
        with pytest.raises(SessionEnded):
            await bob.search("table")
        await anns.send(Say("on"))
        assert await texts(anns, 1) == ["ann:on"]


@in_virtual_time
async def test_a_session_that_ends_while_its_move_fails_ends_here() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a")
        anns = await ann.join_or_create("table")
        moving = await move_slowly(nodes, anns.id)

        nodes.a.sessions.get(ann.id).end("bad manners")  # type: ignore[union-attr]  # it is there
        nodes.b.crash()
        with pytest.raises(Throttled):
            await moving

        await until(lambda: nodes.where_session(ann.id) == [])
        assert nodes.where(anns.id) == ["a"]


@in_virtual_time
async def test_a_message_to_a_session_on_its_way_arrives_once() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        bobs = await bob.join_or_create("lounge")
        nodes.bus("b").ignores = asks("take_session")
        joining = asyncio.create_task(ann.join(bobs.id))
        await asyncio.sleep(0.2)
        for number in range(3):
            nodes.a.sessions.get(ann.id).send(Said(str(number), number))  # type: ignore[union-attr]  # it is there
        hear_again(nodes)
        await joining

        async with asyncio.timeout(10):
            heard = [(await ann.receive(Said)).text for _ in range(3)]
        assert heard == ["0", "1", "2"]
        assert nodes.where_session(ann.id) == ["b"]


@in_virtual_time
async def test_a_player_who_drops_while_the_room_moves_returns_to_it_and_the_game_hears_of_it_once() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b", "a")
        anns = await ann.join_or_create("table")
        bobs = await bob.join(anns.id)
        moving = await move_slowly(nodes, anns.id)

        nodes.b.dialer(bob).delay_s = 8.0
        nodes.b.link(bob).cut()
        await asyncio.sleep(0.1)
        hear_again(nodes)
        await moving

        await until(lambda: "drop bob" in said(nodes, anns.id))
        nodes.b.dialer(bob).delay_s = 0.0
        await bobs.send(Say("back"))
        assert await texts(anns, 1) == ["bob:back"]
        assert said(nodes, anns.id).count("drop bob") == 1
        assert nodes.where_session(bob.id) == ["b"]


@in_virtual_time
async def test_a_player_who_returns_while_the_room_moves_is_answered_when_it_is_known_where() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "a")
        anns = await ann.join_or_create("table")
        bobs = await bob.join(anns.id)
        moving = await move_slowly(nodes, anns.id)

        nodes.a.link(bob).cut()
        await bobs.send(Say("back"))
        await asyncio.sleep(0.5)
        hear_again(nodes)
        await moving

        assert await texts(anns, 1) == ["bob:back"]
        assert await texts(bobs, 1) == ["bob:back"]
        assert nodes.where_session(bob.id) == ["b"]
        assert bob.outcome is not None
        assert bob.outcome.kind == "resumed"


@in_virtual_time
async def test_a_hard_room_frees_the_seat_of_one_who_dropped_during_the_move() -> None:
    async with Nodes("ab", rooms=(Table, Lounge, Hall)) as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "a")
        anns = await ann.join_or_create("hall")
        await bob.join(anns.id)
        moving = await move_slowly(nodes, anns.id)

        nodes.a.dialer(bob).delay_s = 20.0
        nodes.a.link(bob).cut()
        hear_again(nodes)
        await moving

        await until(lambda: "leave bob" in said(nodes, anns.id))
        assert said(nodes, anns.id).count("leave bob") == 1


@in_virtual_time
async def test_a_room_that_is_ended_while_it_moves_ends_there() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a")
        anns = await ann.join_or_create("table")
        moving = await move_slowly(nodes, anns.id)

        nodes.a.parts.rooms.runner(anns.id).end("by an operator")
        hear_again(nodes)
        await moving

        await until(lambda: nodes.where(anns.id) == [])
        await until(lambda: anns.left is not None)


@in_virtual_time
async def test_two_moves_of_one_room_at_once_are_one_move() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "a")
        anns = await ann.join_or_create("table")

        done = await asyncio.gather(
            nodes.migration("a").move(anns.id, "b"), nodes.migration("a").move(anns.id, "c"), return_exceptions=True
        )

        assert [type(each) for each in done].count(Throttled) == 1
        await anns.send(Say("on"))
        assert await texts(anns, 1) == ["ann:on"]
        assert len(nodes.where(anns.id)) == 1


@in_virtual_time
async def test_a_move_whose_answer_is_lost_leaves_one_room_and_loses_nothing() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a", "b"), await nodes.connect("bob", "b", "a")
        anns = await ann.join_or_create("table")
        bobs = await bob.join(anns.id)
        for number in range(5):
            await anns.send(Say(f"{number}"))
        nodes.bus("b").loses_answer = asks("take_rooms")
        moving = asyncio.create_task(nodes.migration("a").move(anns.id, "b"))
        with pytest.raises(Refused):
            await moving
        hear_again(nodes)

        await anns.send(Say("a"))
        await bobs.send(Say("b"))
        heard = await texts(anns, 7)

        assert sorted(heard) == [*(f"ann:{n}" for n in range(5)), "ann:a", "bob:b"]
        assert await texts(bobs, 7) == heard
        await until(lambda: len(nodes.where(anns.id)) == 1)


@in_virtual_time
async def test_a_handover_whose_answer_is_lost_leaves_one_session() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        lounge = await bob.join_or_create("lounge")
        # It takes the session, and the other node does not hear of it.
        nodes.bus("b").loses_answer = asks("take_session")
        joining = asyncio.create_task(ann.join(lounge.id))
        await until(lambda: nodes.where_session(ann.id) == ["a", "b"])
        with pytest.raises(Refused):
            await joining
        hear_again(nodes)

        await until(lambda: len(nodes.where_session(ann.id)) == 1)
        anns = await ann.join(lounge.id)
        await anns.send(Say("here"))
        assert await texts(anns, 1) == ["ann:here"]
        assert nodes.where_session(ann.id) == ["b"]


@in_virtual_time
async def test_the_taker_dies_before_the_connections_have_followed() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "a", "c")
        anns = await ann.join_or_create("table")
        await anns.send(Say("1"))
        await texts(anns, 1)
        moving = asyncio.create_task(nodes.migration("a").move(anns.id, "b"))
        await soon(lambda: nodes.where(anns.id) == ["a", "b"])
        nodes.b.crash()
        await asyncio.gather(moving, return_exceptions=True)

        await anns.send(Say("2"))

        assert await texts(anns, 1) == ["ann:2"]
        [owner] = nodes.where(anns.id)
        assert owner in {"a", "c"}


@in_virtual_time
async def test_the_giver_dies_after_the_other_node_has_taken() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "a", "c")
        anns = await ann.join_or_create("table")
        await anns.send(Say("1"))
        await texts(anns, 1)
        moving = asyncio.create_task(nodes.migration("a").move(anns.id, "b"))
        await soon(lambda: "b" in nodes.where(anns.id))
        nodes.a.crash()
        await asyncio.gather(moving, return_exceptions=True)

        await anns.send(Say("2"))

        assert await texts(anns, 1) == ["ann:2"]
        assert nodes.where(anns.id) == ["b"]
        assert [each for each in said(nodes, anns.id) if each != "drop ann"] == ["ann:1", "ann:2"]


@in_virtual_time
async def test_a_session_may_go_from_node_to_node_as_often_as_it_likes() -> None:
    async with Nodes("ab") as nodes:
        ann, bob, cat = [await nodes.connect(name, at) for name, at in (("ann", "a"), ("bob", "b"), ("cat", "a"))]
        there, here = await bob.join_or_create("lounge"), await cat.create("lounge")
        await cat.join(here.id)

        for _ in range(6):
            for room_id in (there.id, here.id):
                room = await ann.join(room_id)
                await room.leave()

        assert nodes.where_session(ann.id) == ["a"]
