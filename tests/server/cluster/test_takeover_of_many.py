"""When a node with many rooms dies, all their players come at once: that must not slow the takeover down."""

import asyncio

from holdfast.cluster import MemberState
from holdfast.cluster.membership import MemberChange
from holdfast.stores.port import Entry
from holdfast.testing.store import FaultyStore
from tests.server.cluster.nodes import Nodes, Said, Say, in_virtual_time, until

ROOMS = 40


@in_virtual_time
async def test_each_room_of_a_dead_node_is_read_once_however_many_players_ask_for_theirs() -> None:
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
        assert store.calls - calls < 2.5 * ROOMS, "more than a question for each room and each session"
        dialed = [len(nodes.a.dialer(session).links) for session in sessions]
        assert dialed == [2] * ROOMS, "they come again and again while the node is not known to be dead"


@in_virtual_time
async def test_what_a_suspected_node_has_is_read_before_it_is_known_to_be_dead() -> None:
    async with Nodes("abc") as nodes:
        sessions = [await nodes.connect(f"ann {number}", "a", "b") for number in range(12)]
        rooms = [await session.join((await session.create("table")).id) for session in sessions]
        for room in rooms:
            await room.send(Say("before"))
            await room.receive(Said)
        await asyncio.sleep(3)  # they have told each other of their rooms, and doubt no more
        log = Log(nodes, "b"), Log(nodes, "c")

        nodes.a.crash()
        await until(lambda: all(nodes.where(room.id) in (["b"], ["c"]) for room in rooms))

        read = [set(each.read) for each in log]
        assert set.union(*read) >= {f"room/{room.id}" for room in rooms}
        assert not read[0] & read[1], "both read the same"
        for each in log:
            assert each.dead_at - each.suspected_at > 0.3
            assert not {"room", "session"}.intersection(each.listed), "the whole store is read"
            assert each.here_at - each.dead_at < 0.1


@in_virtual_time
async def test_a_suspect_that_lives_loses_nothing_and_nothing_that_was_read_is_used_later() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join((await ann.create("table")).id)
        await room.send(Say("one"))
        await room.receive(Said)
        await asyncio.sleep(3)
        log, bus = Log(nodes, "b"), nodes.bus("a")
        nodes.buses.fate = lambda sender, *_: None if sender is bus else 0.0

        await until(lambda: bool(log.read))
        nodes.buses.fate = lambda *_: 0.0
        await until(lambda: log.alive_at > log.suspected_at)
        await room.send(Say("two"))
        assert (await room.receive(Said)).number == 2
        assert nodes.where(room.id) == ["a"]

        nodes.a.crash()
        await until(lambda: nodes.where(room.id) == ["b"])
        bob = await nodes.connect("bob", "b")
        async with asyncio.timeout(60):
            same = await bob.join(room.id)
            await same.send(Say("three"))
            assert (await same.receive(Said)).number == 3


@in_virtual_time
async def test_a_room_that_a_dead_node_had_not_told_of_is_found_in_the_store() -> None:
    async with Nodes("ab") as nodes:
        ann = await nodes.connect("ann", "a")
        room = await ann.join((await ann.create("table")).id)
        await room.send(Say("one"))
        await room.receive(Said)
        cluster = nodes.b.parts.cluster
        assert cluster is not None
        cluster.takeover.suspects.listed = lambda _: {}

        nodes.a.crash()

        await until(lambda: nodes.where(room.id) == ["b"], within_s=5)


class Log:
    """What a node reads of the store, and when it takes another one for dead."""

    def __init__(self, nodes: Nodes, name: str) -> None:
        self.read: list[str] = []
        self.listed: list[str] = []
        self.read_at = self.suspected_at = self.dead_at = self.alive_at = self.here_at = 0.0
        server = nodes.servers[name]
        cluster, committer = server.parts.cluster, server.parts.committer
        assert cluster is not None
        assert committer is not None
        store, now = committer.store, asyncio.get_running_loop().time
        get, listed = store.get, store.list

        async def getting(key: str) -> Entry | None:
            self.read.append(key)
            self.read_at = now()
            return await get(key)

        async def listing(path: str) -> list[Entry]:
            self.listed.append(path)
            return await listed(path)

        def changed(change: MemberChange) -> None:
            match change.after:
                case MemberState.SUSPECT:
                    self.suspected_at = now()
                case MemberState.DEAD:
                    self.dead_at = now()
                case _:
                    self.alive_at = now()

        store.get, store.list = getting, listing  # type: ignore[method-assign]  # what it reads is all that is seen of it
        cluster.node.watch.on_change.append(changed)
        committer.on_committed.append(lambda _: setattr(self, "here_at", now()))
