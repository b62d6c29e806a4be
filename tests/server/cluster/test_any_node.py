"""Any node takes any client: sessions and rooms are found wherever they are, and the client notices nothing."""

import asyncio

import pytest

from holdfast import NotFound
from holdfast.client.room import ClientRoom
from tests.server.cluster.nodes import Nodes, Said, Say, in_virtual_time


async def heard(room: ClientRoom, count: int) -> list[Said]:
    async with asyncio.timeout(30):
        return [await room.receive(Said) for _ in range(count)]


@in_virtual_time
async def test_a_room_on_another_node_is_joined_and_the_connection_stays() -> None:
    async with Nodes("ab") as nodes:
        ann, bob = await nodes.connect("ann", "a"), await nodes.connect("bob", "b")
        info = await ann.create("table")
        anns = await ann.join(info.id)
        drops: list[object] = []
        bob.on_drop(drops.append)

        bobs = await bob.join(info.id)
        for number in range(5):
            await bobs.send(Say(f"{number}"))

        assert [each.text for each in await heard(anns, 5)] == [f"bob:{n}" for n in range(5)]
        assert [each.number for each in await heard(bobs, 5)] == [1, 2, 3, 4, 5]
        assert nodes.where(info.id) == ["a"]
        assert nodes.where_session(bob.id) == ["a"]
        assert drops == []


@in_virtual_time
async def test_a_room_is_found_by_its_code_from_every_node() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "a")
        info = await ann.create("lounge")

        cat = await nodes.connect("cat", "c")
        joined = await cat.join(code=info.code)

        assert joined.id == info.id
        assert nodes.where_session(cat.id) == ["a"]


@in_virtual_time
async def test_a_room_that_no_node_has_is_not_found() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a")

        with pytest.raises(NotFound):
            await ann.join("nowhere")
        with pytest.raises(NotFound):
            await ann.join(code="QQQQQQ")

        assert nodes.where_session(ann.id) == ["a"]


@in_virtual_time
async def test_a_client_that_returns_to_another_node_finds_its_session() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a", "b")
        room = await ann.join_or_create("table")
        await room.send(Say("before"))
        await heard(room, 1)

        # The way to its node is closed, and the node lives.
        nodes.a._stop_listening()  # noqa: SLF001
        nodes.a.link(ann).cut()
        await room.send(Say("after"))

        assert [each.number for each in await heard(room, 1)] == [3]
        assert nodes.where_session(ann.id) == ["a"]
        assert nodes.edge("b").relayed_count == 1


@in_virtual_time
async def test_a_durable_room_of_a_dead_node_goes_on_elsewhere_and_nothing_is_lost() -> None:
    async with Nodes("abc") as nodes:
        ann = await nodes.connect("ann", "a", "b", "c")
        bob = await nodes.connect("bob", "b")
        anns = await ann.join_or_create("table")
        bobs = await bob.join(anns.id)
        await anns.send(Say("1"))
        await heard(bobs, 1)

        nodes.a.crash()
        await anns.send(Say("2"))
        await bobs.send(Say("3"))

        texts = [each.text for each in await heard(anns, 3)]
        assert sorted(texts) == ["ann:1", "ann:2", "bob:3"]
        assert [each.text for each in await heard(bobs, 2)] == texts[1:]
        [owner] = nodes.where(anns.id)
        assert owner in {"b", "c"}
        assert nodes.where_session(ann.id) == nodes.where_session(bob.id) == [owner]


@in_virtual_time
async def test_a_server_that_stops_in_order_hands_its_rooms_to_the_others() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a", "b")
        room = await ann.join_or_create("table")

        await nodes.a.stop()
        await room.send(Say("still"))
        await heard(room, 1)

        assert nodes.where(room.id) == ["b"]
