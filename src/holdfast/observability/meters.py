"""What a node measures beside its counters: how long things take, and how often each kind of thing happens.

Most of it is learned from the node's events, the rest is told by those who do it. Nothing here is ever a sum over what
is there now.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from holdfast.core.connection import ConnectionId
from holdfast.core.histogram import Histogram
from holdfast.core.reasons import CLOSE_CODES, Reason
from holdfast.core.tally import OTHER, Tally
from holdfast.schemas.events import (
    Authenticated,
    Dropped,
    Ended,
    Event,
    LimitExceeded,
    Resumed,
    RoomCreated,
    RoomFailed,
    SessionOpened,
    SignInFailed,
)

if TYPE_CHECKING:
    from holdfast.server.connection.connection import LiveConnection
    from holdfast.server.node import Node

TURNS_PER_SAMPLE = 31
"""Of so many turns of a kind of rooms one is timed. A prime: games count their rounds in tens and sixteens."""

_TURN_S = (0.000_02, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0)
_STORE_S = (0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
_NETWORK_S = (0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)
_LAG_S = (0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_AWAY_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)

# Why connections close and sessions drop, and why sessions end.
_CLOSES = [(reason.value,) for reason in CLOSE_CODES]
_ENDS = [*_CLOSES, (Reason.GRACE_ENDED.value,)]
_REFUSALS = (Reason.AUTH_FAILED, Reason.REFUSED, Reason.BANNED)

Timed = tuple[Callable[..., None], tuple[Any, ...]]


class TurnMeter:
    """The turns of one kind of rooms: all are counted, one in `TURNS_PER_SAMPLE` is timed.

    Whoever takes a turn counts `countdown` down, and has the turn timed when that comes to zero: for all the others,
    that is all it costs.
    """

    __slots__ = ("_now", "_timed", "countdown", "seconds")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._timed = 0
        # The first turn is timed.
        self.countdown = 1
        self.seconds = Histogram(_TURN_S)

    @property
    def taken(self) -> int:
        """How many turns there were."""
        return self._timed * TURNS_PER_SAMPLE + 1 - self.countdown

    def timed(self, done: Callable[..., None] | None, done_args: tuple[Any, ...]) -> Timed:
        """A turn begins that is timed: what to call at its end, in the place of `done`."""
        self._timed += 1
        self.countdown = TURNS_PER_SAMPLE
        began_at = self._now()

        def ended(error: Exception | None, result: Any) -> None:
            self.seconds.add(self._now() - began_at)
            if done is not None:
                done(error, result, *done_args)

        return ended, ()


class Meters:
    """The histograms and tallies of one node."""

    def __init__(self, node: "Node", schemes: Iterable[str]) -> None:
        self._node = node
        self._schemes = frozenset(schemes)
        self.turns: dict[str, TurnMeter] = {}
        """By the kind of the rooms."""
        self.round_trip = Histogram(_NETWORK_S)
        self.loop_lag = Histogram(_LAG_S)
        self.commit = Histogram(_STORE_S)
        self.commit_batches = Histogram(_BATCHES)
        self.gate_wait = Histogram(_STORE_S)
        self.away = Histogram(_AWAY_S)
        self.welcome = Histogram(_STORE_S)
        self.opened = Tally()
        """Connections, by transport."""
        self.closed = Tally(_CLOSES)
        self.drops = Tally(_CLOSES)
        self.ends = Tally(_ENDS)
        self.limits = Tally()
        """By the limit, and what was done about it."""
        self.sign_ins = Tally((scheme,) for scheme in self._schemes)
        known = (*self._schemes, OTHER)
        self.sign_ins_failed = Tally((scheme, reason.value) for scheme in known for reason in _REFUSALS)
        self.rooms_created = Tally()
        self.rooms_failed = Tally()
        """By kind, and what was wrong."""
        self._on: dict[type[Event], Callable[[Any], None]] = {
            SessionOpened: self._welcomed,
            Resumed: self._resumed,
            Dropped: lambda event: self.drops.add(event.reason),
            Ended: lambda event: self.ends.add(event.reason),
            Authenticated: lambda event: self.sign_ins.add(self._scheme(event.scheme)),
            SignInFailed: lambda event: self.sign_ins_failed.add(self._scheme(event.scheme), event.reason),
            LimitExceeded: lambda event: self.limits.add(event.limit, event.action, times=event.times),
            RoomCreated: lambda event: self.rooms_created.add(event.kind),
            RoomFailed: lambda event: self.rooms_failed.add(self._kind(event.kind), event.why),
        }
        node.bus.observe(self._heard)

    def turns_of(self, kind: str) -> TurnMeter:
        """The meter that all rooms of a kind share."""
        if kind not in self.turns:
            self.turns[kind] = TurnMeter(self._node.now)
        return self.turns[kind]

    def link_up(self, connection: "LiveConnection") -> None:
        """A link is open."""
        self.opened.add(connection.transport_kind)

    def link_down(self, connection: "LiveConnection") -> None:
        """A link is gone."""
        self.closed.add(connection.end_reason or Reason.DROPPED)

    def _heard(self, event: Event) -> None:
        record = self._on.get(type(event))
        if record is not None:
            record(event)

    def _resumed(self, event: Resumed) -> None:
        self.away.add(event.away_s)
        self._welcomed(event)

    def _welcomed(self, event: SessionOpened | Resumed) -> None:
        # A client says nothing between its hello and the welcome, so it was last heard when it sent the hello.
        connection = self._node.connections.get(ConnectionId(event.connection))
        if connection is not None:
            self.welcome.add(self._node.now() - connection.heard_at)

    def _kind(self, kind: str) -> str:
        # What a record in the store calls it may be no kind of this game any more, or nothing that can be read.
        return kind if kind in self._node.rooms.kinds else OTHER

    def _scheme(self, scheme: str) -> str:
        # What a stranger calls it may be anything.
        return scheme if scheme in self._schemes else OTHER
