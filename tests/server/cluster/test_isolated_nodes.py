"""A node that lost its bus and not its store, or the other way: two sides do not take rooms from each other in turn."""

import asyncio
from collections.abc import Callable

from holdfast.client.room import ClientRoom
from holdfast.cluster.membership import MemberState
from holdfast.schemas.events import RoomRecovered
from tests.server.cluster.nodes import Nodes, Said, Say, in_virtual_time, store_of, until
from tests.server.cluster.test_dead_nodes import state_of

LONG_S = 90.0
TEXTS = 30


async def say(room: ClientRoom, text: str) -> int:
    async with asyncio.timeout(120):
        await room.send(Say(text))
        return (await room.receive(Said)).number


def count_owners(nodes: Nodes) -> list[tuple[str, str]]:
    """Each time that a node takes a room: its name and the room."""
    taken: list[tuple[str, str]] = []

    def note(name: str) -> Callable[[RoomRecovered], None]:
        return lambda event: taken.append((name, event.room))

    for name, server in nodes.servers.items():
        server.on(RoomRecovered)(note(name))
    return taken


@in_virtual_time
async def test_a_node_that_lost_only_its_bus_takes_nothing_and_loses_what_it_has() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "a", "b", "c")
        bob = await nodes.connect("bob", "b", "a", "c")
        hers = await ann.join((await ann.create("table")).id)
        his = await bob.join((await bob.create("table")).id)
        assert (await say(hers, "one"), await say(his, "one")) == (1, 1)
        await asyncio.sleep(3)
        taken = count_owners(nodes)

        nodes.buses.cut(nodes.bus("a"))
        for number in range(2, TEXTS):
            assert await say(hers, "more") == number
            assert await say(his, "more") == number
            await asyncio.sleep(LONG_S / TEXTS)

        assert [name for name, _ in taken if name == "a"] == [], "it cannot hear the others, and takes rooms"
        assert [room for _, room in taken] == [hers.id], "a room went back and forth"
        assert {state_of(nodes, "a", name) for name in "bc"} == {MemberState.SUSPECT}


@in_virtual_time
async def test_a_node_that_starts_without_hearing_the_others_takes_nothing_of_theirs() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join((await ann.create("table")).id)
        assert await say(room, "one") == 1
        nodes.servers["c"] = nodes.server("c")
        starting = asyncio.ensure_future(nodes.c.start())
        await until(lambda: len(nodes.buses.linked) == 3)
        link = list(nodes.buses.linked)[-1]
        nodes.buses.cut(link)
        await starting
        await asyncio.sleep(LONG_S)

        assert nodes.where(room.id) == ["a"]
        assert await say(room, "two") == 2


@in_virtual_time
async def test_two_nodes_that_hear_nothing_of_each_other_but_have_bus_and_store_take_a_room_once() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "a", "b", "c")
        room = await ann.join((await ann.create("table")).id)
        assert await say(room, "one") == 1
        await asyncio.sleep(3)
        taken = count_owners(nodes)
        apart = {nodes.bus("a"), nodes.bus("b")}
        nodes.buses.fate = lambda sender, receiver, _: (
            None if sender is not receiver and {sender, receiver} == apart else 0.0
        )

        for number in range(2, TEXTS):
            assert await say(room, "more") == number
            await asyncio.sleep(LONG_S / TEXTS)

        assert len([room for _, room in taken]) <= 1, taken


@in_virtual_time
async def test_two_halves_that_hear_nothing_of_each_other_take_a_room_at_most_once_a_minute() -> None:
    async with Nodes("abcd") as nodes:
        ann = await nodes.connect("ann", *"abcd")
        room = await ann.join((await ann.create("table")).id)
        assert await say(room, "one") == 1
        await asyncio.sleep(3)
        taken = count_owners(nodes)
        side = {nodes.bus(name): name in "ab" for name in "abcd"}
        nodes.buses.fate = lambda sender, receiver, _: 0.0 if side[sender] is side[receiver] else None

        for number in range(2, TEXTS):
            assert await say(room, "more") == number
            await asyncio.sleep(LONG_S / TEXTS)

        # Both sides have proof: each has the store, and a bus that reaches what decides.
        assert len(taken) <= 3, taken
        nodes.buses.fate = lambda *_: 0.0
        await asyncio.sleep(5)
        await until(lambda: len(nodes.where(room.id)) == 1)


@in_virtual_time
async def test_a_node_that_lost_only_its_store_keeps_its_rooms_which_stand_still_until_it_is_back() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "a", "b", "c")
        room = await ann.join((await ann.create("table")).id)
        assert await say(room, "one") == 1
        await asyncio.sleep(3)
        taken = count_owners(nodes)
        store_of(nodes, "a").silence_s = 1.0
        saying = asyncio.ensure_future(say(room, "two"))

        await asyncio.sleep(60)
        assert taken == []
        assert not saying.done()
        store_of(nodes, "a").silence_s = None

        assert await saying == 2
        assert nodes.where(room.id) == ["a"]
