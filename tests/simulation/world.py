"""One simulated world: real servers, real clients and a bad network in one process and in virtual time."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from holdfast import Auth, ClientSession, Session, connect
from holdfast.core.room import Room, context_of
from holdfast.server.server import SUBPROTOCOLS, Storage
from holdfast.testing import Disk, FaultyStore, Link, MemoryServer, run
from holdfast.testing.clock import Machine
from holdfast.testing.server import URL
from tests.log_lines import line_of
from tests.simulation.audit import Auditor
from tests.simulation.bounds import sample
from tests.simulation.cashier import Cashier
from tests.simulation.chaos import Chaos
from tests.simulation.checker import Checker, Violation
from tests.simulation.game import Game, Ledger, Life, rooms
from tests.simulation.hostile import Hostile
from tests.simulation.options import Options
from tests.simulation.player import Actor
from tests.simulation.power import Power
from tests.simulation.process import Process, Sitting
from tests.simulation.recorded import check_recordings
from tests.simulation.tap import Tap, TappedNetwork
from tests.simulation.view import Cry, View
from tests.simulation.watcher import Watcher

if TYPE_CHECKING:
    from tests.simulation.node_power import NodePower

SAMPLE_S = 0.2
# So many samples apart: to replay takes longer than to count.
RECORDINGS_EVERY = 10
WATCHERS = 2
CRY_S = 0.4
AFTERMATH_S = 5.0
ENDING_S = 5.0
# What remains to be done when the faults are over: to notice the last one, to wait for the next attempt (15 s at
# most), to sign in anew and to answer.
SETTLE_S = 90.0
SETTLED_AGAIN_MAX = 3
# What the library says, and rightly, of faults that the simulation makes.
EXPECTED = (
    "was taken over by another server",
    "durable rooms stand still",
    "the store cannot be trusted any more",
    "could not be saved before the stop",
)
# And of a store that is older than its clients: only where somebody has restored one.
ROLLED_BACK = "the store is older than what a client has seen"
# What servers count, and as what it is shown.
_COUNTERS = {
    "takeovers": "takeovers",
    "replayed": "messages_replayed",
    "doubles ignored": "duplicates_ignored",
    "streams overflowed": "streams_overflowed",
    "turns failed": "turns_failed",
    "internal errors": "internal_errors",
    "protocol errors": "protocol_errors",
    "rooms fenced": "rooms_fenced",
    "commits": "commits",
    "commits refused": "commits_refused",
}


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one seed."""

    options: Options
    violations: list[Violation]
    counts: Counter[str]
    virtual_s: float
    digest: str
    history: list[str]


class MortalServer(MemoryServer):
    """A server whose end is noticed, also if it ends itself."""

    world: "World"
    life: Life

    def is_on(self, link: Link) -> bool:
        """Whether this server is the one at the other end."""
        return self._machine is not None and link.server is self._machine

    async def _start(self) -> None:
        self.world.game.lives[self.machine] = self.life
        await super()._start()

    def crash(self, *, silently: bool = False) -> None:
        self.world.fell(self)
        super().crash(silently=silently)
        self.world.game.forget(self.life)


class World:
    """Everything of one seed."""

    game_type: type[Game] = Game
    actor_type: type[Actor] = Actor
    network_type: type[TappedNetwork] = TappedNetwork
    expected_errors: tuple[str, ...] = EXPECTED

    def __init__(self, options: Options, ignored: frozenset[str]) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.options = options
        self.checker = Checker(loop.time, ignored=ignored)
        self.game = self.game_type(self.checker, options)
        self.game.sessions = lambda: list(self.server.sessions) if self.is_up else []
        self.network = self.network_type(options, Random(f"{options.seed}/network"), self.checker)
        self.disk = Disk()
        self.server: MortalServer
        self.servers: list[MortalServer] = []
        """All that there ever were."""
        self.store: FaultyStore
        self.is_up = False
        self.falls = 0
        self.kinds = rooms(self.game)
        self.lives: list[Life] = []
        self._counted: dict[MortalServer, Counter[str]] = {}
        self.clients: list[ClientSession] = []
        self.seats: dict[tuple[str, str], View] = {}
        """The seats and spectators' places that clients know of, by session and purpose."""
        self._clients_made = 0
        self._random = Random(f"{options.seed}/dialects")
        self.labels: Counter[str] = Counter()
        self.processes: list[Process] = []
        self.actors = [self.actor_type(self, f"player{number}") for number in range(options.players)]
        self.watchers = [Watcher(self, f"watcher{number}") for number in range(WATCHERS)]
        self.hostile = Hostile(self)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed = asyncio.Event()
        self.checker.failed = self._failed.set
        self.durability = {kind.kind: kind.durability for kind in self.kinds}
        self.sharing = {kind.kind for kind in self.kinds if kind.shares}
        self.auditor = Auditor(self.disk, self.checker, self.game, lambda kind: self.durability[kind] == "commit")
        self.cashier = Cashier(self.checker, self.auditor, Random(f"{options.seed}/cashier"))
        if options.store is not None:
            self.network.tap = Tap(self.checker, self.auditor, self.durability, self._is_over, self._session_of)

    def _session_of(self, link: Link, session_id: str) -> Session | None:
        server = next(server for server in self.servers if server.is_on(link))
        return server.sessions.get(session_id)

    def _is_over(self, session_id: str) -> bool:
        return self.server.sessions.get(session_id) is None

    # Where things are

    @property
    def running(self) -> list[MortalServer]:
        """The servers that are up: one at most, but in a cluster."""
        return [self.server] if self.is_up else []

    def rooms(self) -> list[Room[Any]]:
        """Those of all of them."""
        return [room for server in self.running for room in server.rooms]

    def room(self, room_id: str) -> Room[Any] | None:
        """A room, on whichever server it is."""
        return next((room for server in self.running if (room := server.rooms.get(room_id)) is not None), None)

    def home_of(self, session_id: str) -> MortalServer | None:
        """The server that has a session."""
        return next((server for server in self.running if server.sessions.get(session_id) is not None), None)

    def session(self, session_id: str) -> Session | None:
        """A session, on whichever server it is."""
        home = self.home_of(session_id)
        return home.sessions.get(session_id) if home is not None else None

    def is_present(self, machine: Machine | None) -> bool:
        """Whether this is the machine of a server that no other has replaced."""
        return machine is self.server.machine

    def url(self, _: Random) -> str:
        """An address of the world's servers."""
        return URL

    def urls(self) -> str | list[str]:
        """Those that the next client knows."""
        return URL

    def make_power(self) -> "Power | NodePower | None":
        """What befalls the servers of this world."""
        return Power(self) if self.options.store is not None else None

    @property
    def may_forget(self) -> bool:
        """Whether a server may think now that another one is gone, with all that is not saved."""
        return False

    # The server

    async def begin_life(self) -> None:
        """Start a server, the first one or the next."""
        life = Life(len(self.lives), self.now())
        self.lives.append(life)
        self.game.life = life
        self.server = MortalServer(
            self.kinds,
            seed=f"{self.options.seed}/{life.number}",
            network=self.network,
            grace_s=self.options.grace_s,
            limits=self.options.limits,
            **self._store_options(life),
        )
        self.server.world, self.server.life = self, life
        self.servers.append(self.server)
        self.checker.note("the server starts")
        await self.server.start()
        self.is_up = True
        self.checker.note("the server has started")
        self.checker.count("lives")

    def _store_options(self, life: Life) -> dict[str, Any]:
        options = self.options.store
        if options is None:
            return {}
        random = Random(f"{self.options.seed}/store/{life.number}")
        self.store = FaultyStore(self.disk, latency_s=options.latency_s, jitter_s=options.jitter_s, random=random)
        self.auditor.lives[self.store] = life
        return {"store": Storage(self.store, recovery=options.recovery), "effects": {"pay": self.cashier.pay}}

    def fell(self, server: MortalServer, *, is_orderly: bool = False) -> None:
        """A server is about to go, or to be replaced."""
        self.checker.note("the server falls")
        if server is self.server:
            self.is_up = False
            server.life.is_over = not is_orderly
        server.life.ended_at = self.now()
        self._count(server)
        self.forget_processes()

    def backup(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """A copy of the store, and what is known to be saved in it."""
        return dict(self.disk.entries), self.auditor.backup()

    def restore(self, backup: tuple[dict[str, Any], dict[str, Any]]) -> None:
        """An older copy takes the place of the store: what happened since never did."""
        entries, known = backup
        self.checker.note("the store is rolled back")
        self.checker.rollbacks += 1
        self.disk.entries = dict(entries)
        self.auditor.restore(known)
        self.cashier.rolled_back()
        for room_id, book in self.auditor.books.items():
            if not book.is_ended:
                self.checker.rewound(room_id, [entry.op for entry in book.log])
        for process in self.processes:
            process.store_rolled_back()

    def forget_processes(self) -> None:
        """The next server need not know those that were never saved."""
        self.falls += 1
        for process in self.processes:
            process.server_falls()

    def _count(self, server: MortalServer) -> None:
        with suppress(RuntimeError):  # it fell before it stood
            counters = server.counters
            self._counted[server] = Counter({name: getattr(counters, counter) for name, counter in _COUNTERS.items()})

    async def next_written(self) -> None:
        """Wait until the disk has something new: nobody else has heard of it yet."""
        written = asyncio.get_running_loop().create_future()
        self.auditor.waiting.append(written)
        await written

    # Processes

    async def connect(self, name: str, **options: Any) -> ClientSession:
        """A client for the player with this name."""
        self._clients_made += 1
        random = Random(f"{self.options.seed}/client/{self._clients_made}")
        auth = Auth("name", name)
        client = await connect(self.urls(), auth=auth, random=random, limits=self.options.limits, **options)
        self.clients.append(client)
        return client

    def next_label(self, player: str) -> str:
        """A name for a new process."""
        self.labels[player] += 1
        return f"{player}#{self.labels[player]}"

    def next_codec(self) -> str:
        """What the next process speaks, unless it goes on with a session that speaks something else."""
        return self._random.choice(SUBPROTOCOLS).name

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something beside everything else; what it raises is a failure."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.checker.fail("BUG", f"the simulation failed: {task.exception()!r}")

    async def run(self) -> None:
        """Live, heal, settle, and see that everything is as promised."""
        story = asyncio.get_running_loop().create_task(self._story())
        failed = asyncio.get_running_loop().create_task(self._failed.wait())
        await asyncio.wait([story, failed], return_when=asyncio.FIRST_COMPLETED)
        failed.cancel()
        if not story.done():
            story.cancel()
        elif story.exception() is not None:
            raise story.exception()  # type: ignore[misc]  # it is not None

    async def _story(self) -> None:
        await self.begin_life()
        chaos = Chaos(self)
        trouble = [self.start(chaos.run()), self.start(self.hostile.run())]
        power = self.make_power()
        if power is not None:
            trouble.append(self.start(power.run()))
        if not self.options.has_robberies:
            trouble.append(self.start(self._cry()))
        sampler = self.start(self._sample())
        await asyncio.gather(*(actor.live(self.options.steps) for actor in (*self.actors, *self.watchers)))
        for task in trouble:
            task.cancel()
        await asyncio.wait(trouble)
        chaos.heal()
        if power is not None:
            await power.heal()
        # For what was on its way: a late hello, a program that is about to be killed.
        await asyncio.sleep(AFTERMATH_S)
        # Else streams overflow again and again, hard rooms take seats for it, and nobody reads to the end.
        self.game.is_quiet = self.options.reads_slowly
        await asyncio.gather(*(self._settle(actor) for actor in self.actors))
        await asyncio.gather(*(self._settle(watcher) for watcher in self.watchers))
        self.game.is_quiet = True
        for _ in range(SETTLED_AGAIN_MAX):
            # What one has set off may have overflowed the stream of another, whose room then freed the seat.
            await asyncio.gather(*(self._settle(actor) for actor in self.actors))
            # For the last timers and payments.
            await asyncio.sleep(2.0 if self.options.store is None else 10.0)
            await self.read_to_the_end()
            await self.until_ends_are_told()
            if all(
                each.process is not None and each.process.sit() is not None for each in (*self.actors, *self.watchers)
            ):
                break
            await asyncio.gather(*(self._settle(watcher) for watcher in self.watchers))
        for actor in self.actors:
            self._check_whole(actor, actor.process.sitting if actor.process is not None else None)
        for watcher in self.watchers:
            self.check_watching(watcher)
            if (sitting := watcher.own_sitting()) is not None:
                self._check_whole(watcher, sitting)
        sampler.cancel()
        self._check_timers()
        self._check_agents()
        check_recordings(self)
        self.cashier.check_all_paid()
        await self._check_empty()
        self._check_counters()
        await self._stop()

    async def until_ends_are_told(self) -> None:
        """Wait for rooms in the middle of their end: a place is gone at once, and its client hears so when the turns
        of all who leave are over.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_S):
                while self._is_ending():  # noqa: ASYNC110 - costs nothing in virtual time
                    await asyncio.sleep(0.1)

    def _is_ending(self) -> bool:
        if any(context_of(room).is_closing for room in self.rooms()):
            return True
        sittings = [each for watcher in self.watchers if watcher.process for each in watcher.process.sittings()]
        watched = [sitting.room for sitting in sittings if sitting.room.left is None]
        return any(self.room(room.id) is None for room in watched)

    def look(self) -> None:
        """See whether everything is as it should be now."""
        sample(self)

    async def _sample(self) -> None:
        for number in count(1):
            self.look()
            if number % RECORDINGS_EVERY == 0:
                check_recordings(self)
            await asyncio.sleep(SAMPLE_S)

    async def _cry(self) -> None:
        """Speak to everybody, now and then."""
        for number in count():
            await asyncio.sleep(CRY_S)
            for server in self.running:
                self.checker.count("cries")
                cry = Cry(server.life.number, number)
                server.broadcast(cry, where=partial(self._hears, cry))

    def _hears(self, cry: Cry, session: Session) -> bool:
        # An end that was not saved may never have happened: the session comes back, without what was said to it last.
        self.checker.cried(session.id, cry.life, cry.number, lambda: session.end_reason is not None)
        return True

    async def _settle(self, actor: Actor) -> None:
        try:
            async with asyncio.timeout(SETTLE_S):
                while not await actor.has_settled():  # noqa: ASYNC110 - costs nothing in virtual time
                    await asyncio.sleep(0.5)
        except TimeoutError:
            self.checker.fail("I10", f"{actor.name} is not back after {SETTLE_S:g} s: {actor.state()}")

    async def read_to_the_end(self) -> None:
        """Wait until nobody has anything to read, if it comes to that: a slow server hears late that a window opens."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                while self._has_unread():  # noqa: ASYNC110 - costs nothing in virtual time
                    await asyncio.sleep(0.5)

    def _has_unread(self) -> bool:
        processes = [each.process for each in (*self.actors, *self.watchers)]
        sessions = [self.session(each.session.id) for each in processes if each and not each.is_over]
        return any(channel.kept for session in sessions if session is not None for channel in session.channels())

    def _check_whole(self, actor: Actor, sitting: Sitting | None) -> None:
        """A stream that is quiet has arrived to its end."""
        process = actor.process
        if process is None or process.is_over or sitting is None or sitting.is_over:
            self.checker.fail("I10", f"{actor.name} was back, and is gone again: {actor.state()}")
            return
        room = self.room(sitting.room.id)
        player = room.player(actor.name) if room is not None else None
        if player is None:
            self.checker.fail("P3", f"{process.label} believes that it has a seat in {sitting.room}")
            return
        view = sitting.view
        end = (len(self.checker.logs.get(sitting.room.id, ())), player.data.told)
        self.checker.expect("I1", (view.at, view.told) == end, f"{process.label} is at {view}, the room at {end}")
        self._check_stream(process, sitting)
        if sitting.looker is not None:
            assert isinstance(room, Ledger)
            sitting.looker.look_at_last(room.state.turn)

    def _check_stream(self, process: Process, sitting: Sitting) -> None:
        """What was read is of the room's history, and nothing is open."""
        view, log = sitting.view, self.checker.logs.get(sitting.room.id, [])
        others = {at: op for at, op in view.seen.items() if at >= len(log) or log[at] != op}
        self.checker.expect("I12", not others, f"{process.label} saw {others} of another history, and no gap")
        self.checker.expect("I12", not view.is_blind, f"{process.label} was resynced and never shown the state")
        self.checker.expect("I10", not view.awaited, f"{process.label} still awaits {list(view.awaited)}")
        self.checker.expect("I10", not process.asking, f"{process.label} still asks {list(process.asking)}")
        self._check_mail(process)

    def _check_mail(self, process: Process) -> None:
        """What was sent to a session has arrived to its end."""
        mail = process.mail
        for room in self.rooms():
            assert isinstance(room, Ledger)
            sent, got = room.state.letters.get(process.session.id, 0), mail.next.get(room.id)
            is_whole = got == sent or (got is None and (not sent or mail.has_gap)) or room.id in self.checker.rewinds
            self.checker.expect("I1", is_whole, f"{process.label} got {got} letters of {room.id}, which sent {sent}")

    def check_watching(self, watcher: Watcher) -> None:
        """The same for a spectator, unless the last player has left the room since."""
        process = watcher.process
        sitting = process.sitting if process is not None else None
        left = sitting.room.left if sitting is not None else None
        if sitting is not None and left is not None and left.reason == "room_closed":
            is_gone = self.room(sitting.room.id) is None
            self.checker.expect("P3", is_gone, f"{watcher.name} was told that {sitting.room} is closed")
            return
        if process is None or process.is_over or sitting is None or sitting.is_over:
            self.checker.fail("I10", f"{watcher.name} watched, and is gone again: {watcher.state()}")
            return
        room = self.room(sitting.room.id)
        spectators = [each.id for each in room.spectators] if room is not None else []
        self.checker.expect(
            "P3", watcher.name in spectators, f"{process.label} believes that it watches {sitting.room}"
        )
        end = len(self.checker.logs.get(sitting.room.id, ()))
        self.checker.expect("I1", sitting.view.at == end, f"{process.label} is at {sitting.view}, the room at {end}")
        self._check_stream(process, sitting)
        if sitting.looker is not None:
            assert isinstance(room, Ledger)
            sitting.looker.look_at_last(room.state.turn)

    def _check_timers(self) -> None:
        for room in self.rooms():
            overdue = {number: due for number, due in room.state.armed.items() if due < self.now() - 1.0}
            self.checker.expect("TIMER", not overdue, f"timers of {room.id} never rang: {overdue}")
            silent = {name: bell for name, bell in room.state.bells.items() if bell.is_overdue(self.now() - 1.0)}
            self.checker.expect("TIMER", not silent, f"bells of {room.id} stopped: {silent}")

    def _check_agents(self) -> None:
        for room in self.rooms():
            agents = [player for player in room.players if player.is_agent and player.connected]
            self.checker.expect("I2", len(agents) == 1, f"{room.id} has {len(agents)} agents, not 1")

    async def _check_empty(self) -> None:
        """When everybody has gone, nothing is left of them."""
        limits = self.options.limits
        for process in self.processes:
            process.excuses.add("bye")
        for client in self.clients:
            await client.close()
        await asyncio.sleep(limits.silence_s + self.options.grace_s + limits.unjoined_s)
        left = {
            "sessions": sum(len(server.sessions) for server in self.running),
            "rooms": len(self.rooms()),
            "connections": sum(len(server.parts.connections) for server in self.running),
            "wires": len(self.network.wires),
            "saved": len(self.disk.entries),
        }
        self.checker.expect("I9", not any(left.values()), f"everybody has gone, and there are still {left}")

    def _check_counters(self) -> None:
        for server in self.running:
            self._count(server)
        counts = sum(self._counted.values(), Counter[str]())
        for name in _COUNTERS:
            self.checker.count(name, counts[name])
        for name in ("turns failed", "internal errors"):
            self.checker.expect("BUG", not counts[name], f"{counts[name]} {name}")
        broken = counts["protocol errors"] - self.hostile.offences
        self.checker.expect("BUG", broken <= 0, f"honest clients broke the protocol {broken} times")

    async def _stop(self) -> None:
        try:
            async with asyncio.timeout(30.0):
                for server in self.running:
                    await server.stop()
        except TimeoutError:
            self.checker.fail("I10", "the server does not stop")


class Ear(logging.Handler):
    """Hears what the library logs: its own errors are failures."""

    world: World

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    @property
    def checker(self) -> Checker:
        return self.world.checker

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        self.checker.note("log:", record.getMessage(), repr(cause) if cause else "")
        expected = self.world.expected_errors
        if self.checker.rollbacks:
            expected = (*expected, ROLLED_BACK)
        is_expected = any(words in record.msg for words in expected) or self._is_abandoned(record)
        if (record.levelno >= logging.ERROR and not is_expected) or "broke the protocol" in record.msg:
            self.checker.fail("BUG", f"{record.getMessage()}: {cause!r}")

    def _is_abandoned(self, record: logging.LogRecord) -> bool:
        """Whether a room had all the time that it may take when its server stops, and its own code needs more."""
        name, fields = line_of(record)
        if name != "room.failed" or fields["why"] != "abandoned":
            return False
        self.checker.count("rooms abandoned")
        return self.world.game.rooms[fields["room"]].busy_s >= self.world.options.limits.close_s - 0.001


async def _simulate(options: Options, ignored: frozenset[str], ear: Ear, world_type: type[World]) -> Result:
    world = world_type(options, ignored)

    def failed(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        world.checker.fail("BUG", f"{context['message']}: {context.get('exception')!r}")

    asyncio.get_running_loop().set_exception_handler(failed)
    ear.world, checker = world, world.checker
    await world.run()
    return Result(options, checker.violations, checker.counts, world.now(), checker.digest, checker.history)


def simulate(options: Options, *, ignored: frozenset[str] = frozenset(), world_type: type[World] = World) -> Result:
    """Run one world from its beginning to its end, or to the first promise that it breaks."""
    logger = logging.getLogger("holdfast")
    ear = Ear()
    logger.addHandler(ear)
    before, logger.propagate = logger.propagate, False
    try:
        return run(_simulate(options, ignored, ear, world_type))
    finally:
        logger.removeHandler(ear)
        logger.propagate = before
