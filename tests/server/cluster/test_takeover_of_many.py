"""When a node with many rooms dies, all their players come at once: that must not slow the takeover down."""

import asyncio

from holdfast.testing.store import FaultyStore
from tests.server.cluster.nodes import Nodes, Said, Say, in_virtual_time

ROOMS = 40


@in_virtual_time
async def test_the_store_is_read_once_for_all_rooms_however_many_players_ask_for_theirs() -> None:
    async with Nodes("ab") as nodes:
        sessions = [await nodes.connect(f"ann {number}", "a", "b") for number in range(ROOMS)]
        rooms = [await session.join((await session.create("table")).id) for session in sessions]
        for room in rooms:
            await room.send(Say("before"))
            await room.receive(Said)
        committer = nodes.b.parts.committer
        assert committer is not None
        store = committer.store
        assert isinstance(store, FaultyStore)
        store.latency_s, calls = 0.1, store.calls

        nodes.a.crash()
        for room in rooms:
            await room.send(Say("after"))
        async with asyncio.timeout(60):
            heard = await asyncio.gather(*(room.receive(Said) for room in rooms))

        assert [each.number for each in heard] == [2] * ROOMS
        assert all(nodes.where(room.id) == ["b"] for room in rooms)
        assert store.calls - calls < ROOMS, "the store is asked for each room"
        dialed = [len(nodes.a.dialer(session).links) for session in sessions]
        assert dialed == [2] * ROOMS, "they come again and again while the node is not known to be dead"
