"""What a node counts and measures while it runs; `exposition.py` shows it to Prometheus.

Counters on the way of a message are plain integers. Histograms are prometheus-client's, which is imported when a server
starts. Totals are never sums over what is there now: such a sum shrinks when somebody leaves.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.core.connection import Connection
from holdfast.core.reasons import CLOSE_CODES, Reason
from holdfast.schemas.events import (
    Authenticated,
    Dropped,
    Ended,
    Event,
    LimitExceeded,
    NodeDied,
    Resumed,
    RoomCreated,
    RoomFailed,
    RoomMoved,
    SessionOpened,
    SignInFailed,
)
from holdfast.schemas.node import SpreadInfo

if TYPE_CHECKING:
    from prometheus_client import Histogram

COUNTED_EVENTS = (
    *(SessionOpened, Resumed, Dropped, Ended, Authenticated, SignInFailed, LimitExceeded, RoomCreated, RoomFailed),
    *(RoomMoved, NodeDied),
)
"""What `Metrics.record` is to be called with."""
OTHER = "other"
"""Stands for names that are not ours: whatever an unauthenticated client or an old record may say."""
TURNS_PER_SAMPLE = 31
"""One turn in this many is timed, per kind of room. A prime: games count their rounds in tens and sixteens."""
LOOP_LAG_SAMPLE_S = 0.25
"""Often enough to meet a loop that hangs for a moment, seldom enough to cost nothing."""

_TURN_S = (0.000_02, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0)
_STORE_S = (0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
_NETWORK_S = (0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)
_PAUSE_S = (0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_LAG_S = (0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_SESSION_S = (1, 10, 30, 60, 300, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400)
_AWAY_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)

_SIGN_IN_FAILURES = (Reason.AUTH_FAILED, Reason.REFUSED, Reason.BANNED)

Labels = tuple[str, ...]
Timed = tuple[Callable[..., None], tuple[Any, ...]]


@dataclass(slots=True)
class Counters:
    """Totals of one node since it started."""

    connections: int = 0
    connections_refused: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    frames_received: int = 0
    frames_sent: int = 0
    sessions: int = 0
    sessions_ended: int = 0
    drops: int = 0
    resumed: int = 0
    resynced: int = 0
    reset: int = 0
    takeovers: int = 0
    messages_replayed: int = 0
    messages_applied: int = 0
    messages_refused: int = 0
    duplicates_ignored: int = 0
    messages_throttled: int = 0
    latest_throttled: int = 0
    requests_throttled: int = 0
    floods: int = 0
    hellos_throttled: int = 0
    protocol_errors: int = 0
    datagrams_unknown: int = 0
    datagrams_forged: int = 0
    datagrams_late: int = 0
    tokens_reused: int = 0
    clients_rolled_back: int = 0
    streams_overflowed: int = 0
    turns_failed: int = 0
    ticks_skipped: int = 0
    turns_recorded: int = 0
    rooms_created: int = 0
    rooms_ended: int = 0
    rooms_recovered: int = 0
    rooms_fenced: int = 0
    commits: int = 0
    commits_refused: int = 0
    effects_done: int = 0
    effects_failed: int = 0
    internal_errors: int = 0


class TurnMeter:
    """The turns of one kind of rooms: all are counted, one in `TURNS_PER_SAMPLE` is timed.

    Whoever takes a turn decrements `countdown` and calls `timed` when it reaches zero: the other turns cost no more
    than that.
    """

    __slots__ = ("_now", "_observe", "_timed", "countdown")

    def __init__(self, now: Callable[[], float], observe: Callable[[float], None]) -> None:
        self._now = now
        self._observe = observe
        self._timed = 0
        # The first turn is timed.
        self.countdown = 1

    @property
    def taken(self) -> int:
        return self._timed * TURNS_PER_SAMPLE + 1 - self.countdown

    def timed(self, done: Callable[..., None] | None, done_args: tuple[Any, ...]) -> Timed:
        """Time the turn that begins now: returns what to call at its end, in place of `done`."""
        self._timed += 1
        self.countdown = TURNS_PER_SAMPLE
        began_at = self._now()

        def ended(error: Exception | None, result: Any) -> None:
            self._observe(self._now() - began_at)
            if done is not None:
                done(error, result, *done_args)

        return ended, ()


class LoopLag:
    """Measures how late the event loop is, with a timer: whatever blocks the loop delays everybody on the node."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, now: Callable[[], float], observe: Callable[[float], None]
    ) -> None:
        self._loop = loop
        self._now = now
        self._observe = observe
        self._due_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._due_at = self._now() + LOOP_LAG_SAMPLE_S
        self._timer = self._loop.call_later(LOOP_LAG_SAMPLE_S, self._sample)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sample(self) -> None:
        # uvloop's clock ticks in milliseconds: a timer may fire a little early by ours.
        self._observe(max(0.0, self._now() - self._due_at))
        self.start()


class Metrics:
    """The counters and histograms of one node. `record` observes the bus; the rest is called by whoever acts."""

    def __init__(
        self,
        *,
        now: Callable[[], float],
        schemes: Iterable[str],
        connection: Callable[[str], Connection | None],
        kinds: Callable[[], Collection[str]],
    ) -> None:
        """`schemes` are the ways to sign in; `kinds` lists the kinds of rooms that this node knows."""
        # Here and not at the top: it takes a while, and programs that only import Holdfast do not need it.
        from prometheus_client import Histogram  # noqa: PLC0415

        def histogram(name: str, help_text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            # In no registry: another server in this process has metrics of the same names.
            return Histogram(f"holdfast_{name}", help_text, labels, buckets=buckets, registry=None)

        self._now = now
        self._connection = connection
        self._kinds = kinds
        self._schemes = frozenset(schemes)
        self.counters = Counters()
        self.turns: dict[str, TurnMeter] = {}
        """By the kind of the rooms."""
        self.loop_lag = histogram(
            "loop_lag_seconds",
            f"Event loop lag, sampled every {LOOP_LAG_SAMPLE_S:g} s. Every client waits this long.",
            _LAG_S,
        )
        self.gc_pause = histogram(
            "gc_pause_seconds", "Duration of collections of Python's garbage. Every client waits this long.", _PAUSE_S
        )
        self.round_trip = histogram(
            "round_trip_seconds",
            "Round-trip times between the node and its clients, measured with every ping.",
            _NETWORK_S,
        )
        self.welcome = histogram(
            "welcome_seconds", "Time from a client's hello to its welcome, without the wait for the store.", _STORE_S
        )
        self.away = histogram("resume_away_seconds", "Time between a drop and the resume of the session.", _AWAY_S)
        self.session = histogram("session_seconds", "Duration of sessions that ended, from the sign-in on.", _SESSION_S)
        self.turn = histogram(
            "turn_seconds", f"Duration of a room's turns, measured for one turn in {TURNS_PER_SAMPLE}.", _TURN_S, "kind"
        )
        self.commit = histogram("commit_seconds", "Duration of a commit to the store, including retries.", _STORE_S)
        self.commit_batches = histogram(
            "commit_batches", "Rooms, and sessions without a room, saved in one commit.", _BATCHES
        )
        self.gate_wait = histogram(
            "gate_wait_seconds",
            "How long a room's oldest outgoing message waited for its commit, once per room and commit.",
            _STORE_S,
        )
        self.move_pause = histogram(
            "room_move_pause_seconds", "How long rooms stood still that moved to another node of the cluster.", _STORE_S
        )
        self.nodes_died = 0
        """Other nodes of the cluster."""
        self.histograms = (
            self.move_pause,
            *(self.loop_lag, self.gc_pause, self.round_trip, self.welcome, self.away, self.session),
            *(self.turn, self.commit, self.commit_batches, self.gate_wait),
        )
        # What alerts watch is there at zero from the start: a counter that first appears as 1 has not grown.
        closes = [(reason.value,) for reason in CLOSE_CODES]
        self.connections_opened: Counter[Labels] = Counter()
        self.connections_closed: Counter[Labels] = Counter(dict.fromkeys(closes, 0))
        self.drops: Counter[Labels] = Counter(dict.fromkeys(closes, 0))
        self.ends: Counter[Labels] = Counter(dict.fromkeys([*closes, (Reason.GRACE_ENDED.value,)], 0))
        self.limits: Counter[Labels] = Counter()
        """By the limit, and what was done about it."""
        self.sign_ins: Counter[Labels] = Counter(dict.fromkeys([(scheme,) for scheme in self._schemes], 0))
        self.sign_ins_failed: Counter[Labels] = Counter(
            {(scheme, reason.value): 0 for scheme in (*self._schemes, OTHER) for reason in _SIGN_IN_FAILURES}
        )
        self.rooms_created: Counter[Labels] = Counter()
        self.rooms_failed: Counter[Labels] = Counter()
        """By kind, and what was wrong."""

    def turns_of(self, kind: str) -> TurnMeter:
        """The meter that all rooms of a kind share."""
        if kind not in self.turns:
            self.turns[kind] = TurnMeter(self._now, self.turn.labels(kind).observe)
        return self.turns[kind]

    def connection_opened(self, transport: str) -> None:
        self.counters.connections += 1
        self.connections_opened[transport,] += 1

    def connection_closed(self, reason: Reason) -> None:
        self.connections_closed[reason.value,] += 1

    def record(self, event: Event) -> None:
        match event:
            case SessionOpened():
                self._welcomed(event.connection)
            case Resumed():
                self.away.observe(event.away_s)
                self._welcomed(event.connection)
            case Dropped():
                self.drops[event.reason,] += 1
            case Ended():
                self.ends[event.reason,] += 1
                self.session.observe(event.duration_s)
            case Authenticated():
                self.sign_ins[self._scheme(event.scheme),] += 1
            case SignInFailed():
                self.sign_ins_failed[self._scheme(event.scheme), event.reason] += 1
            case LimitExceeded():
                self.limits[event.limit, event.action] += event.times
            case RoomCreated():
                self.rooms_created[event.kind,] += 1
            case RoomFailed():
                self.rooms_failed[event.kind if event.kind in self._kinds() else OTHER, event.why] += 1
            case RoomMoved():
                self.move_pause.observe(event.pause_s)
            case NodeDied():
                self.nodes_died += 1
            case _:
                pass

    def _welcomed(self, connection_id: str) -> None:
        # A client sends nothing between its hello and the welcome, so it was last heard when it sent the hello.
        connection = self._connection(connection_id)
        if connection is not None:
            self.welcome.observe(self._now() - connection.heard_at)

    def _scheme(self, scheme: str) -> str:
        return scheme if scheme in self._schemes else OTHER


def spread_of(histogram: "Histogram") -> SpreadInfo:
    """What a histogram has counted, over all its labels."""
    buckets: Counter[float] = Counter()
    total = 0.0
    for family in histogram.collect():
        for sample in family.samples:
            if sample.name.endswith("_bucket"):
                buckets[float(sample.labels["le"])] += int(sample.value)
            elif sample.name.endswith("_sum"):
                total += sample.value
    *bounds, _ = sorted(buckets) or [0.0]
    return SpreadInfo(bounds, [buckets[bound] for bound in sorted(buckets)] or [0], total)
