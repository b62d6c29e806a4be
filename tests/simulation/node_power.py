"""What befalls the nodes of a cluster, their bus and their store, until the world heals."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from random import Random
from typing import TYPE_CHECKING

from holdfast import Refused
from holdfast.stores import Broken, Unavailable, Unknown
from holdfast.testing import Crashed
from holdfast.testing.bus import MemoryBus

if TYPE_CHECKING:
    from tests.simulation.cluster_world import ClusterWorld, Node

_DOWN_S = (0.05, 1.0, 4.0)
# Shorter than a turn may take.
_PAUSE_S = (0.3, 1.5, 4.0)
_CUT_S = (0.3, 1.5, 4.0)
# As long as a store takes to find another leader, and as long as a leader that is cut off does not know it.
_SLOW_S = (0.2, 1.5)
_LEADERLESS_S = (4.0, 8.0)
_STALE_S = (2.0, 8.0)
# A call that waits for an answer gives up after this.
_SILENCE_S = 1.0
_WRONG_S = 0.5
# How many messages of a bad bus are lost, and how late the others are at most.
_LOSS = 0.05
_LATE_S = 0.3
_DRAIN_S = 2.0


class NodePower:
    """One fault after another, at a node that is chosen by chance. At most one node is down at a time, or two."""

    def __init__(self, world: "ClusterWorld") -> None:
        assert world.options.store is not None
        self.world = world
        self.options = world.options.store
        self.random = Random(f"{world.options.seed}/power")
        self._is_over = False
        self._faults: dict[str, tuple[Callable[[Node], Awaitable[None]], int]] = {
            "node crash": (self._crash, 4),
            "node crash in a commit": (self._crash_in_commit, 4),
            "node crash after a commit": (self._crash_after_commit, 4),
            "node stop": (self._stop, 2),
            "node drain": (self._drain, 3),
            "node pause": (self._pause, 5),
            "room moved": (self._move, 12),
            "node crash in a move": (self._crash_in_move, 4),
            "bus cut": (self._cut_bus, 3),
            "bus bad": (self._spoil_bus, 3),
            "probe wrong": (self._hide, 2),
            "node deaf": (self._deafen, 1),
            "store cut": (self._cut_store, 2),
            "store without leader": (self._lose_leader, 1),
            "store slow": (self._slow_store, 1),
            "store stale": (self._read_the_past, 2),
            "store broken": (self._break, 1),
            "commit refused": (self._refuse, 2),
            "commit unknown": (self._forget, 4),
        }

    async def run(self) -> None:
        """Go on until cancelled."""
        names = list(self._faults)
        weights = [weight for _, weight in self._faults.values()]
        while True:
            await asyncio.sleep(self.random.expovariate(1 / self.options.outage_s))
            up = [node for node in self.world.nodes.values() if node.is_up]
            if not up:
                continue
            node = self.random.choice(up)
            name = self.random.choices(names, weights)[0]
            self.world.checker.note("fault:", name, node.name)
            self.world.checker.count(f"fault: {name}")
            self.world.forget_processes()
            self.world.calm_since = self.world.now()
            try:
                await self._faults[name][0](node)
            finally:
                self.world.calm_since = self.world.now()

    async def heal(self) -> None:
        """All nodes are there, hear each other, and their store works."""
        self._is_over = True
        for node in self.world.nodes.values():
            self._wake(node)
            if node.server is not None and (node.is_leaving or not node.is_up):
                # It would never have ended its stop.
                node.server.crash()
            elif node.server is not None:
                node.store.heal()
                self._mend(node)
        self.world.buses.fate = lambda *_: 0.0
        await asyncio.gather(*(node.begin() for node in self.world.nodes.values()))
        self.world.calm_since = self.world.now()

    def _mend(self, node: "Node") -> None:
        node.bus.is_deaf = node.bus.is_hidden = False
        if node.bus not in self.world.buses.linked:
            self.world.buses.mend(node.bus)

    # Nodes

    def fell(self, node: "Node") -> None:
        """It is down, and comes back after a while."""
        if not self._is_over:
            # Not on its own machine, if it has ended itself.
            Context().run(self.world.start, self._begin_later(node))

    async def _begin_later(self, node: "Node") -> None:
        await asyncio.sleep(self.random.choice(_DOWN_S))
        if not self._is_over:
            await node.begin()
            self.world.calm_since = self.world.now()

    async def _crash(self, node: "Node") -> None:
        if node.server is not None:
            node.server.crash(silently=self.random.random() < 0.3)

    async def _crash_in_commit(self, node: "Node") -> None:
        for _ in range(1000):
            if node.store.is_writing:
                break
            await asyncio.sleep(0.001)
        await self._crash(node)

    async def _crash_after_commit(self, node: "Node") -> None:
        """The disk has it, and the node does not know."""
        await self.world.next_written()
        await self._crash(node)

    async def _stop(self, node: "Node") -> None:
        server = node.server
        if server is None:
            return
        node.is_leaving = True
        try:
            await server.stop()
        except Crashed:
            return
        if node.server is server:
            self.world.fell(server, is_orderly=True)

    async def _drain(self, node: "Node") -> None:
        if node.server is None:
            return
        node.is_leaving = True
        try:
            await node.server.drain(_DRAIN_S)
        except Crashed:
            return
        await self._stop(node)

    async def _pause(self, node: "Node") -> None:
        """It stands still, perhaps so long that others take its rooms, and goes on as if nothing had happened."""
        assert node.server is not None
        if self.random.random() < 0.5:
            await self.world.next_written()
        if not node.is_up:
            return
        server = node.server
        node.is_paused = True
        server.pause()
        for link in server.links:
            fate = self.random.choice(["cut", "half-open", "stays"])
            if fate == "cut":
                link.cut()
            elif fate == "half-open":
                link.half_open("server")
        await asyncio.sleep(self.random.choice(_PAUSE_S))
        self._wake(node)

    def _wake(self, node: "Node") -> None:
        if node.is_paused and node.server is not None:
            self.world.checker.note(node.name, "wakes up")
            node.is_paused = False
            node.server.wake()

    # Rooms

    async def _move(self, node: "Node") -> None:
        """An operator moves a room, from wherever they are."""
        moving = self._begin_move(node)
        if moving is not None:
            await moving

    def _begin_move(self, node: "Node") -> "asyncio.Task[None] | None":
        rooms = [room for room in self.world.rooms() if room.durability == "commit"]
        others = [each.name for each in self.world.nodes.values() if each.is_up]
        if not rooms or node.server is None:
            return None
        room_id, to = self.random.choice(rooms).id, self.random.choice(others)
        self.world.checker.note(room_id, "is to move to", to)
        return self.world.start(self._moved(node, room_id, to))

    async def _moved(self, node: "Node", room_id: str, to: str) -> None:
        assert node.server is not None
        try:
            await node.server.machine.do(node.parts.migration.move(room_id, to))
        except (Refused, Crashed) as refusal:
            self.world.checker.note(room_id, "does not move:", refusal)
            self.world.checker.count("moves refused")

    async def _crash_in_move(self, node: "Node") -> None:
        moving = self._begin_move(node)
        if moving is None:
            return
        await asyncio.sleep(self.random.random() * 20 * self.options.latency_s)
        up = [each for each in self.world.nodes.values() if each.is_up]
        if up:
            await self._crash(self.random.choice(up))
        await moving

    # The bus

    async def _cut_bus(self, node: "Node") -> None:
        bus = node.bus
        self.world.buses.cut(bus)
        await asyncio.sleep(self.random.choice(_CUT_S))
        if node.server is not None and node.bus is bus:
            self._mend(node)

    async def _spoil_bus(self, node: "Node") -> None:
        """What a node says is late, and some of it is lost."""
        bad = node.bus

        def fate(sender: MemoryBus, receiver: MemoryBus, topic: str) -> float | None:
            if bad not in (sender, receiver) or sender is receiver:
                return 0.0
            return None if self.random.random() < _LOSS else self.random.random() * _LATE_S

        self.world.buses.fate = fate
        await asyncio.sleep(self.random.choice(_CUT_S))
        self.world.buses.fate = lambda *_: 0.0

    async def _hide(self, node: "Node") -> None:
        """For a moment everybody hears that nobody answers there."""
        bus = node.bus
        bus.is_hidden = True
        await asyncio.sleep(_WRONG_S)
        bus.is_hidden = False

    async def _deafen(self, node: "Node") -> None:
        bus = node.bus
        bus.is_deaf = True
        await asyncio.sleep(self.random.choice(_CUT_S))
        bus.is_deaf = False

    # The store

    async def _cut_store(self, node: "Node") -> None:
        store = node.store
        store.silence_s = _SILENCE_S
        await asyncio.sleep(self.random.choice(_CUT_S))
        store.silence_s = None

    async def _slow_store(self, _: "Node") -> None:
        """Every commit takes long, as on a disk whose fsync is slow."""
        stores = [node.store for node in self.world.nodes.values() if node.server is not None]
        usual = [store.latency_s for store in stores]
        try:
            for store in stores:
                store.latency_s = self.random.uniform(*_SLOW_S)
            await asyncio.sleep(self.random.choice(_CUT_S))
        finally:
            for store, latency_s in zip(stores, usual, strict=True):
                store.latency_s = latency_s

    async def _lose_leader(self, _: "Node") -> None:
        stores = [node.store for node in self.world.nodes.values() if node.server is not None]
        for store in stores:
            store.silence_s = _SILENCE_S
        await asyncio.sleep(self.random.uniform(*_LEADERLESS_S))
        for store in stores:
            store.silence_s = None

    async def _read_the_past(self, node: "Node") -> None:
        """A node's store does not know that it is cut off from the others: it answers, and writes nothing."""
        store = node.store
        store.past, store.silence_s = dict(self.world.disk.entries), _SILENCE_S
        await asyncio.sleep(self.random.uniform(*_STALE_S))
        store.past = store.silence_s = None

    async def _break(self, node: "Node") -> None:
        node.store.fail(Broken("it was reset"), call=1)

    async def _refuse(self, node: "Node") -> None:
        node.store.fail(Unavailable("it is busy"), call=self.random.randint(1, 4))

    async def _forget(self, node: "Node") -> None:
        is_written = self.random.choice([True, False, None])
        node.store.fail(Unknown("no answer"), call=self.random.randint(1, 4), is_written=is_written)
