"""A world of three nodes: rooms and sessions move between them, and each may die, stand still or be cut off.

Beside what all worlds promise:

C1       an epoch of a room has one owner: I5, for the auditor sees the records of all nodes
C2       nothing of a room leaves that its record does not have, whichever node says it: I6 and I1
C3       a room never has more seats than it may, in its record as little as on its node: P4 and I9
C8       a durable room is on some node again, soon after the last fault
C9       links between nodes, and sessions on their way, are gone when everybody has gone
C10      every client is resumed, or told that its session is gone: I10 and P3
DROP     no room hears that a player has dropped whose connection was never lost
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from random import Random

from holdfast import Player, Session
from holdfast.core.room import Durability
from holdfast.server.cluster.parts import ClusterParts
from holdfast.stores import StoreError
from holdfast.testing import Crashed, Dialer, FaultyStore, Link
from holdfast.testing.bus import BusNetwork, MemoryBus
from holdfast.testing.clock import Machine
from holdfast.transports.port import DialError, Receiver, Subprotocol, Transport, TransportLimits
from tests.simulation.checker import Checker
from tests.simulation.game import Game, Ledger, Life, Mark
from tests.simulation.node_power import NodePower
from tests.simulation.options import STEPS, Options, StoreOptions
from tests.simulation.tap import TappedNetwork
from tests.simulation.traveller import Traveller
from tests.simulation.world import EXPECTED, MortalServer, World

NAMES = ("a", "b", "c")
# How far their wall clocks are ahead.
CLOCKS_S = (0.0, 3600.0, 7200.0)
# So that the seats that two nodes tell of have different numbers.
SEATS_OF_A_LIFE = 1_000_000
# For nodes to find that one is gone, to be sure of it, and to read what it had.
OWNED_S = 8.0
# One end may notice a drop a silence after the other, and a node between the two a silence later.
DROP_S = 12.0
# For sessions that are not saved: so long after a fault a node may still take another for dead.
FORGIVEN_S = 10.0
AGAIN_S = 0.2


class ClusterGame(Game):
    """Two nodes may have the same room for a moment: what counts is what is saved of it."""

    recovered_as = "recovered"

    def __init__(self, checker: Checker, options: Options) -> None:
        super().__init__(checker, options)
        checker.has_moves = True
        self.drops: list[tuple[float, str, str]] = []
        """When a room heard that which session had dropped."""

    def is_present(self, life: Life) -> bool:
        return not life.is_over

    def is_elsewhere(self, room: Ledger) -> bool:
        return False

    def seat_number(self, room: Ledger, number: int) -> int:
        return number + SEATS_OF_A_LIFE * room.life.number

    def dropped(self, room: Ledger, player: Player[Mark]) -> None:
        if not player.is_agent:
            self.drops.append((asyncio.get_running_loop().time(), player.session.id, room.id))


def clustered(seed: int, steps: int = STEPS) -> Options:
    """The world of this seed, on three nodes."""
    random = Random(f"{seed}/cluster")
    kinds: list[Durability] = ["commit", "commit", "commit", "memory"]
    first, second, third, fourth = random.sample(kinds, k=4)
    return replace(
        Options.drawn(seed, steps).with_store(),
        durability=(first, second, third, fourth),
        # A recording stays on the node that made it.
        record_s=(0.0, 0.0, 0.0, 0.0),
        store=StoreOptions(
            latency_s=random.choice([0.001, 0.005, 0.02]),
            jitter_s=random.choice([0.0, 0.01]),
            outage_s=random.choice([1.0, 2.0, 4.0]),
            checkpoint_s=1.0,
            recovery="eager",
            has_rollbacks=False,
        ),
    )


class NodeDialer(Dialer):
    """A program's way to the nodes, one of which it may not reach."""

    barred = ""

    async def __call__(
        self, receiver: Receiver, url: str, subprotocol: Subprotocol, limits: TransportLimits
    ) -> Transport:
        if url == self.barred:
            raise DialError(f"{url} does not answer {self.name}")
        return await super().__call__(receiver, url, subprotocol, limits)


class ClusterNetwork(TappedNetwork):
    """The links of clients to three nodes."""

    def dialer(self, name: str) -> NodeDialer:
        return NodeDialer(self, name)


class Node:
    """One of the three, through all its lives."""

    def __init__(self, world: "ClusterWorld", name: str) -> None:
        self._world = world
        self.name = name
        self.server: MortalServer | None = None
        """None while it is down."""
        self.store: FaultyStore
        self.is_paused = False
        self.is_leaving = False
        """Whether it drains, or stops."""
        self._lock = asyncio.Lock()

    @property
    def is_up(self) -> bool:
        return self.server is not None and not self.is_paused and self.server.is_running

    @property
    def parts(self) -> ClusterParts:
        assert self.server is not None
        assert self.server.parts.cluster is not None
        return self.server.parts.cluster

    @property
    def bus(self) -> MemoryBus:
        """Its link to the others."""
        assert isinstance(self.parts.node.bus, MemoryBus)
        return self.parts.node.bus

    async def begin(self) -> None:
        """Start it anew, and again if its start fails."""
        async with self._lock:
            while self.server is None:
                server = self._world.make_server(self)
                try:
                    await server.start()
                except (Crashed, StoreError) as error:
                    self._world.checker.note(self.name, "does not start:", repr(error))
                    await asyncio.sleep(AGAIN_S)
                else:
                    self.server, self.is_paused, self.is_leaving = server, False, False
                    self._world.checker.note(self.name, "has started")


class ClusterWorld(World):
    """Everything of one seed, on three nodes."""

    game_type = ClusterGame
    actor_type = Traveller
    network_type = ClusterNetwork
    # A room and its sessions are read one after the other. If they do not fit together, the room's first commit is
    # refused, and they are read again. And a store may have no leader for longer than a stop waits.
    expected_errors = (*EXPECTED, "a record is set aside", "not everything could be saved before the end")
    game: ClusterGame

    def __init__(self, options: Options, ignored: frozenset[str]) -> None:
        super().__init__(options, ignored)
        self.game.sessions = list
        self.buses = BusNetwork()
        self.nodes = {name: Node(self, name) for name in NAMES}
        self.power = NodePower(self)
        self._addresses = Random(f"{options.seed}/addresses")
        self.calm_since = 0.0
        """When the last fault of a node, the bus or the store was over."""
        self._unowned_since: dict[str, float] = {}
        self.longest_unowned_s = 0.0

    # The nodes

    async def begin_life(self) -> None:
        await asyncio.gather(*(node.begin() for node in self.nodes.values()))

    def make_power(self) -> NodePower:
        return self.power

    def make_server(self, node: Node) -> MortalServer:
        """The next life of a node."""
        options = self.options.store
        assert options is not None
        life = Life(len(self.lives), self.now())
        self.lives.append(life)
        random = Random(f"{self.options.seed}/store/{life.number}")
        node.store = FaultyStore(self.disk, latency_s=options.latency_s, jitter_s=options.jitter_s, random=random)
        self.auditor.lives[node.store] = life
        server = MortalServer(
            self.kinds,
            seed=f"{self.options.seed}/{life.number}",
            network=self.network,
            grace_s=self.options.grace_s,
            limits=self.options.limits,
            name=node.name,
            cluster=self.buses,
            store=node.store,
            effects={"pay": self.cashier.pay},
            clock_ahead_s=CLOCKS_S[NAMES.index(node.name)],
        )
        server.world, server.life = self, life
        self.servers.append(server)
        self.checker.note(node.name, "starts")
        self.checker.count("lives")
        return server

    def fell(self, server: MortalServer, *, is_orderly: bool = False) -> None:
        self.checker.note(server.address, "falls")
        server.life.is_over = not is_orderly
        server.life.ended_at = self.calm_since = self.now()
        self._count(server)
        self.forget_processes()
        for node in self.nodes.values():
            if node.server is server:
                node.server, node.is_paused = None, False
                self.power.fell(node)

    def _count(self, server: MortalServer) -> None:
        super()._count(server)
        with suppress(RuntimeError):  # it fell before it stood
            parts = server.parts.cluster
            assert parts is not None
            self.checker.count("rooms taken over", parts.takeover.rooms_taken)
            self.checker.count("clients relayed", parts.edge.relayed_count)
            self.checker.count("sessions handed over", parts.handovers.given)
            self.checker.count("rooms moved", len(parts.migration.pauses_s))

    # Where things are

    @property
    def running(self) -> list[MortalServer]:
        return [node.server for node in self.nodes.values() if node.server is not None and node.is_up]

    def _is_over(self, session_id: str) -> bool:
        return self.session(session_id) is None

    def _session_of(self, link: Link, session_id: str) -> Session | None:
        return self.session(session_id)

    def is_present(self, machine: Machine | None) -> bool:
        return any(server.machine is machine for server in self.running)

    def url(self, random: Random) -> str:
        return f"memory://{random.choice(NAMES)}"

    def urls(self) -> list[str]:
        return [f"memory://{name}" for name in self._addresses.sample(NAMES, k=len(NAMES))]

    def address_of(self, link: Link) -> str:
        """Of the node that a link leads to."""
        return next((server.address for server in self.running if server.is_on(link)), "")

    @property
    def may_forget(self) -> bool:
        return self.now() - self.calm_since < FORGIVEN_S

    # What is checked

    def look(self) -> None:
        super().look()
        self._look_for_owners()
        self._look_at_drops()

    def _look_for_owners(self) -> None:
        """C8."""
        now = self.now()
        owned = {room.id for room in self.rooms()}
        open_ids = {room_id for room_id, book in self.auditor.books.items() if not book.is_ended}
        self._unowned_since = {each: self._unowned_since.get(each, now) for each in open_ids - owned}
        for room_id, since in self._unowned_since.items() if self.running else ():
            waited_s = now - max(since, self.calm_since)
            self.longest_unowned_s = max(self.longest_unowned_s, waited_s)
            self.checker.expect("C8", waited_s <= OWNED_S, f"{room_id} has been on no node for {waited_s:.1f} s")

    def _look_at_drops(self) -> None:
        """DROP."""
        due = [each for each in self.game.drops if each[0] < self.now() - DROP_S]
        self.game.drops = self.game.drops[len(due) :]
        for at, session_id, room_id in due:
            known = [each for each in self.processes if each.has_been(session_id)]
            if len(known) != 1 or known[0].is_over or known[0].started_at > at - DROP_S:
                continue  # its program has ended, or has taken a session or a seat over
            is_known = any(at - DROP_S <= one for one in known[0].dropped_at)
            self.checker.expect("DROP", is_known, f"{room_id} heard at {at:.3f} that {known[0].label} dropped")

    async def _check_empty(self) -> None:
        await super()._check_empty()
        for node in self.nodes.values():
            left = left_on(node.parts)
            self.checker.expect("C9", not any(left.values()), f"everybody has gone, and {node.name} has still {left}")


def left_on(parts: ClusterParts) -> dict[str, int]:
    """What is still there of links to other nodes, and of sessions that came from them."""
    peers = parts.node.relay._peers.values()  # noqa: SLF001 - nobody else has to know
    return {"links": sum(len(peer.links) for peer in peers), "on their way": len(parts.handovers._waiting)}  # noqa: SLF001
