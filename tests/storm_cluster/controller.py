"""The storm on a cluster: clients at play, and three nodes and three NATS servers killed, stopped and cut off."""

import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from holdfast.stores import StoreError, open_store
from tests.migration_steps import STEPS, WHEN
from tests.nats_cluster import SIZE, NatsCluster
from tests.storm.controller import DEADLINE_S, Stuck
from tests.storm.final import is_settled, write_final
from tests.storm.history import Writer
from tests.storm.life import Clients
from tests.storm_cluster.network import NODES, Link, Loopback, Namespaces
from tests.storm_cluster.nodes import Nodes
from tests.storm_cluster.plan import Plan

# A move may wait for a store without a leader, and for a node that has just gone.
_MOVE_S = 40.0
_OTHER_SHARE = 0.6
_STOP_S = (1.0, 5.0, 12.0)
_CUT_S = (0.5, 3.0, 8.0, 15.0)
# A node that finds no leader ends, and is started again, as a supervisor would.
_STARTS_MAX = 20
# Some of them go nowhere: the room is there.
_MOVES_MAX = 5


class Storm:
    """One run. `show` is told now and then how far it is."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        network: Loopback | Namespaces,
        show: Callable[["Storm"], None],
        other: Path | None = None,
    ) -> None:
        """`other` is the Python of another version, of which some lives of nodes are."""
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self.episode = ""
        self._folder = folder
        self._network = network
        self._show = show
        self._random = Random(plan.seed)
        self._news = asyncio.Event()
        self._history = Writer(folder / "storm.jsonl")
        self._nats = NatsCluster(folder, network.places())
        self._nodes = Nodes(folder, self._nats.url("storm"), network, self._history, self._news)
        self._other = other
        self._probes = 0
        self._steps = 0
        """The next step of a move, and whether before or after it, at which a node dies."""
        self.clients = Clients(plan.names, self._news)

    async def run(self) -> None:
        """From the first start to the orderly end; what goes wrong is in the histories."""
        running = asyncio.current_task()
        assert running is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        try:
            await asyncio.to_thread(self._nats.start)
            await self._begin(0)
            await self._ready()
            for place in range(1, NODES):
                await self._begin(place)
            await self._ready()
            plan = self.plan
            await self.clients.start(plan.groups, self._nodes.urls, self._folder, plan.seats, plan.hurry)
            await self._until_or_stuck("there", lambda: all(self.clients.back_at.values()))
            for episode in plan.episodes(self._random):
                self.episode = episode
                self._history.note("episode", episode)
                await self._episode(episode)
                self.counts[episode] += 1
                self._show(self)
            await self._finish()
        except Stuck as stuck:
            self._history.note("fault", f"{self.episode}: {stuck}")
        finally:
            await self._end()

    async def _episode(self, name: str) -> None:
        """Do something to the cluster that is whole, and wait until it is whole again."""
        await self._everybody_plays()
        kind, _, seconds = name.rpartition(" ") if name.startswith("stop node") else (name, "", "0")
        deeds: dict[str, Callable[[], Awaitable[None]]] = {
            "kill node": lambda: self._kill(self._anyone()),
            "kill two nodes": self._kill_two,
            "kill in takeover": self._kill_in_takeover,
            "kill leader": lambda: self._nats_down(signal.SIGKILL),
            "end leader": lambda: self._nats_down(signal.SIGTERM),
            "stop leader": self._stop_leader,
            "kill both": self._kill_both,
            "stop node": lambda: self._stop_node(float(seconds)),
            "move": self._move,
            "move and kill": self._move_and_kill,
            "die in a move": self._die_in_a_move,
            "slow disk": self._slow_disk,
            "drain": lambda: self._drain(self._anyone()),
            "rolling restart": self._restart_all,
            "cut node from NATS": lambda: self._cut(self._nodes.name(self._anyone()), "back"),
            "cut node from clients": lambda: self._cut(self._nodes.name(self._anyone()), "front"),
            "cut leader from NATS": self._cut_leader,
        }
        await deeds[kind]()
        await self._everybody_plays()

    def _anyone(self) -> int:
        return self._random.randrange(NODES)

    # Nodes

    async def _kill(self, place: int, *, longest_s: float = 4.0) -> None:
        """SIGKILL; another life begins there at once, or when the others have its rooms."""
        self._nodes.kill(place)
        self.counts["kills"] += 1
        await self._nodes.lives[place].ended()
        await self._pause(longest_s)
        await self._begin(place)

    async def _kill_two(self) -> None:
        """The third one has everything for a while."""
        await asyncio.gather(*(self._kill(place, longest_s=10.0) for place in self._random.sample(range(NODES), 2)))

    async def _kill_in_takeover(self) -> None:
        """The next one dies while it takes over, or just after."""
        first, second = self._random.sample(range(NODES), 2)
        killing = asyncio.create_task(self._kill(first))
        await self._pause(2.5)
        await asyncio.gather(killing, self._kill(second))

    async def _kill_both(self) -> None:
        await asyncio.gather(self._nats_down(signal.SIGKILL), self._kill(self._anyone()))

    async def _restart_all(self) -> None:
        """As a deploy does: the next one once the one before is ready."""
        for place in range(NODES):
            await self._drain(place)
            await self._ready()

    async def _begin(self, place: int) -> None:
        """Another life there; the first node is always of this version."""
        is_other = self._other is not None and place > 0 and self._random.random() < _OTHER_SHARE
        self.counts["lives of the other version"] += is_other
        await self._nodes.start(place, python=str(self._other) if is_other else sys.executable)

    async def _stop_node(self, seconds: float) -> None:
        place = self._anyone()
        self._nodes.stop(place)
        await asyncio.sleep(seconds)
        self._nodes.go_on(place)

    async def _move(self) -> None:
        """Each of the rooms to any node, all at once, asked of any node."""
        await asyncio.gather(*(self._moved(room) for room in self.clients.rooms))

    async def _moved(self, room: str) -> None:
        asked, to = self._nodes.lives[self._anyone()], self._nodes.name(self._anyone())
        asked.moves.pop(room, None)
        self._history.note("move", room, to)
        asked.tell(f"move {room} {to}")
        if not await self._until(lambda: room in asked.moves or asked.code is not None, _MOVE_S):
            raise Stuck(f"the move of {room} to {to} has no end")
        self._history.note("moved", room, asked.moves.get(room, "the node that was asked is gone"))
        self.counts["moves"] += asked.moves.get(room) == "moved"

    async def _move_and_kill(self) -> None:
        """A node dies in the middle of a move: the one that has the room, the one that takes it, or neither."""
        moving = asyncio.create_task(self._move())
        await self._pause(0.06)
        await self._kill(self._anyone())
        await moving

    async def _die_in_a_move(self) -> None:
        """A node kills itself at one step of a move: the next one of the table each time."""
        for _ in range(_MOVES_MAX):
            if await self._died_in_a_move():
                self._steps = (self._steps + 1) % (len(STEPS) * len(WHEN))
                return
        # As the last steps, if nobody was connected to the node that had the room.
        self._steps = (self._steps + 1) % (len(STEPS) * len(WHEN))

    async def _died_in_a_move(self) -> bool:
        """False if the room was there already, or the move did not come so far."""
        step, when = divmod(self._steps, len(WHEN))
        lives = dict(self._nodes.lives)
        for life in lives.values():
            life.tell(f"die {step} {WHEN[when]}")
        moving = asyncio.create_task(self._moved(self._random.choice(sorted(self.clients.rooms))))
        moving.add_done_callback(lambda _: self._news.set())
        await self._until(lambda: moving.done() or any(life.code is not None for life in lives.values()), _MOVE_S)
        # The last steps are taken when the move has been answered.
        await self._until(lambda: any(life.code is not None for life in lives.values()), 1.0)
        dead = [place for place, life in lives.items() if life.code is not None]
        for place, life in lives.items():
            if place in dead:
                self._nodes.fell(place)
            else:
                life.tell("live")
        self.counts["kills"] += len(dead)
        self.counts[f"died {WHEN[when]}: {STEPS[step].name}"] += len(dead)
        for place in dead:
            await self._pause(4.0)
            await self._begin(place)
        await moving
        return bool(dead)

    async def _slow_disk(self) -> None:
        """Every commit of every node takes long for a while."""
        slow_s = self._random.uniform(0.2, 1.5)
        for word in (f"slow {slow_s}", "slow 0"):
            for life in self._nodes.lives.values():
                life.tell(word)
            if word != "slow 0":
                await asyncio.sleep(self._random.uniform(4.0, 8.0))

    async def _drain(self, place: int) -> None:
        """SIGTERM: what it has goes to the others, and it ends."""
        life = self._nodes.lives[place]
        if not await self._until(lambda: self._nodes.ready(place), DEADLINE_S):
            raise Stuck(f"life {life.number} does not get ready")
        self._history.note("drain", life.number)
        life.signal(signal.SIGTERM)
        if not await self._until(lambda: life.code is not None, DEADLINE_S):
            raise Stuck(f"life {life.number} does not end after SIGTERM")
        self._history.note("end", life.number, life.code)
        if life.code:
            raise Stuck(f"life {life.number} was told to end, and its code was {life.code}")
        await self._pause(1.0)
        await self._begin(place)

    # NATS

    async def _leader(self) -> int:
        """Which NATS server leads the stream."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                if (leader := await asyncio.to_thread(self._nats.leader)) is not None:
                    return leader
                await asyncio.sleep(0.1)

    async def _nats_down(self, how: signal.Signals) -> None:
        leader = await self._leader()
        server = self._nats.servers[leader]
        self._history.note("nats", "down", leader, how.name)
        await asyncio.to_thread(server.kill, how)
        await self._pause(12.0)
        await asyncio.to_thread(server.start)
        self._history.note("nats", "up", leader)

    async def _stop_leader(self) -> None:
        leader = await self._leader()
        server = self._nats.servers[leader]
        self._history.note("nats", "down", leader, "SIGSTOP")
        server.signal(signal.SIGSTOP)
        await asyncio.sleep(self._random.choice(_STOP_S))
        server.signal(signal.SIGCONT)
        self._history.note("nats", "up", leader)

    async def _cut_leader(self) -> None:
        """From the other NATS servers: its clients keep their links, and hear nothing."""
        leader = await self._leader()
        self._history.note("nats", "down", leader, "cut")
        await self._cut(f"nats{leader}", "inner")
        self._history.note("nats", "up", leader)

    async def _cut(self, name: str, link: Link) -> None:
        network = self._network
        assert isinstance(network, Namespaces)
        self._history.note("cut", name, link)
        network.cut(name, link)
        await asyncio.sleep(self._random.choice(_CUT_S))
        network.mend(name, link)
        self._history.note("mend", name, link)

    # Waiting

    async def _pause(self, longest_s: float) -> None:
        await asyncio.sleep(self._random.uniform(0.0, longest_s))

    async def _ready(self) -> None:
        """All nodes are there; one that ended because NATS was not ready is started again."""
        nodes = self._nodes
        for _ in range(_STARTS_MAX):
            is_over = await self._until(
                lambda: all(life.port is not None or life.code is not None for life in nodes.lives.values()), DEADLINE_S
            )
            ended = [place for place, life in nodes.lives.items() if life.code is not None]
            if is_over and not ended:
                return
            if not is_over:
                raise Stuck("the nodes do not get ready")
            for place in ended:
                life = nodes.lives[place]
                self._history.note("end", life.number, life.code)
                if life.port is not None:
                    raise Stuck(f"life {life.number} ended by itself with {life.code}")
                self.counts["starts that failed"] += 1
                await asyncio.sleep(1.0)
                await self._begin(place)
        raise Stuck("a node does not get ready, however often it is started")

    async def _everybody_plays(self) -> None:
        """All nodes are there, and each client has something acknowledged that it sent after that."""
        await self._ready()
        began_at = time.monotonic()
        self._probes += 1
        self.clients.tell(f"probe {self._probes}")
        await self._until_or_stuck("back", lambda: min(self.clients.back_at.values()) > began_at)

    async def _until_or_stuck(self, what: str, holds: Callable[[], bool]) -> None:
        is_over = await self._until(lambda: holds() or bool(self.clients.failed), DEADLINE_S)
        if self.clients.failed:
            raise Stuck(self.clients.failed[0])
        if not is_over:
            late = sorted(self.clients.back_at.items(), key=lambda each: each[1])[:3]
            raise Stuck(f"the clients are not {what} after {DEADLINE_S:g} s: {late} at {time.monotonic():.1f}")
        for life in self._nodes.lives.values():
            if life.port is not None and life.code is not None:
                raise Stuck(f"life {life.number} ended by itself with {life.code}")

    async def _until(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Wait until something is true that one of the programs tells."""
        try:
            async with asyncio.timeout(within_s):
                while not holds():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    # The end

    async def _finish(self) -> None:
        """No more trouble: everything that was begun comes to its end."""
        self.episode = "end"
        await self._everybody_plays()
        names = set(self.plan.names)
        self.clients.tell("finish")
        await self._until_or_stuck("through", lambda: self.clients.finished == names)
        self.clients.tell("ask")
        await self._until_or_stuck("told the last event", lambda: self.clients.done == names)
        await self._settled()
        await self._note_owners()
        for place in range(NODES - 1):
            await self._end_in_order(place)
        # The last one has nobody to give its rooms to.
        await self._end_in_order(NODES - 1)

    async def _settled(self) -> None:
        store = open_store(self._nats.url("storm"))
        await store.open()
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not is_settled(await store.list("")):  # noqa: ASYNC110 - of another process there is no event
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise Stuck("timers or effects are not done") from None
        finally:
            await store.close()

    async def _note_owners(self) -> None:
        """Which node has which rooms, now that nothing happens any more."""
        for place, life in self._nodes.lives.items():
            life.tell("rooms")
            if not await self._until(lambda life=life: life.rooms is not None, DEADLINE_S):  # type: ignore[misc]
                raise Stuck(f"life {life.number} does not say which rooms it has")
            self._history.note("owns", self._nodes.name(place), *sorted(life.rooms or ()))

    async def _end_in_order(self, place: int) -> None:
        life = self._nodes.lives[place]
        life.signal(signal.SIGTERM)
        if not await self._until(lambda: life.code is not None, DEADLINE_S):
            raise Stuck(f"life {life.number} does not end after SIGTERM")
        self._history.note("end", life.number, life.code)
        if life.code:
            raise Stuck(f"life {life.number} was told to end, and its code was {life.code}")

    async def _end(self) -> None:
        await self._nodes.end()
        await self.clients.end()
        for server in self._nats.servers:
            if not server.is_running:
                await asyncio.to_thread(server.start)
        try:
            await _again(lambda: write_final(self._nats.url("storm"), self._folder))
        finally:
            self._nats.stop()


async def _again(work: Callable[[], Awaitable[None]]) -> None:
    """While NATS looks for a leader."""
    for _ in range(SIZE * _STARTS_MAX):
        with suppress(StoreError):
            await work()
            return
        await asyncio.sleep(0.5)
