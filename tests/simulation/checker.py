"""The checker: what happened, and which promise it broke. It sees what games see, never how the library does it.

I1, I12  a room's stream arrives whole, once, in order; every gap the application saw was declared
I2       nothing that anybody saw is lost: it is in the log of its room, in a saved one it is in the store
I3       what was acknowledged or answered has taken effect
I4       what was sent takes effect at most once, in order, with nothing left out in between; refused means never
I5       one writer: every record of a room follows from the one before (see `audit`)
I6       nothing leaves the server before the commit that it came from (see `tap`)
I7       who lost a session or a seat to a newer connection has no more say
I8       a retired token opens nothing
I9       everything that piles up stays under its limit
I10      when the faults are over, everybody is back and everything is answered
P3       a session ends, and begins anew, only for a cause, and says which
P6       a room takes one turn at a time; a seat's hooks come in their order
P8       who handles a message has what the room shared at the end of its turn (see `mirrors`), and nothing of others
P9       a turn of a transactional room that fails has changed nothing, and nobody hears of it
REC      what was recorded of a room, replayed, is the room as it is (see `recorded`)
TIMER    a timer rings once, whatever happens in between; a repeated call is made at most once in each period
EFFECT   what a room wants done outside is done once, after it was saved
DICE     chance goes on where it was
BUG      the library logged an error of its own
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.simulation.mirrors import Image


class Op(NamedTuple):
    """One thing a client asked of a room: unique, because no process is called like another."""

    process: str
    n: int


class Violation(NamedTuple):
    """A promise that was broken."""

    invariant: str
    what: str
    at_s: float


@dataclass(slots=True)
class Sent:
    """An operation that was given to the library."""

    stream: "Stream"
    at_s: float
    is_refused: bool
    # The room came back from a checkpoint that is older: it may take effect again, or never.
    is_lost: bool = False


@dataclass(slots=True, eq=False)
class Stream:
    """What one process sent from one seat. It takes effect as a prefix: nothing is left out."""

    player: str
    # Set for a process that went on from a saved state: these came before, in this seat.
    after: "Stream | None" = None
    after_count: int = 0
    ops: list[Op] = field(default_factory=list)
    applied: int = 0


@dataclass(slots=True)
class Seat:
    """A seat, as its hooks tell it."""

    state: str = "new"
    dropped_at_s: float = 0.0
    # How long it must be held, if its room came back.
    grace_s: float = 0.0


# The hooks of a seat and what may come after them.
_HOOKS = {
    "new": {"on_join", "on_spectate"},
    "on_join": {"on_drop", "on_leave"},
    "on_drop": {"on_rejoin", "on_leave", "on_resync"},
    "on_rejoin": {"on_drop", "on_leave"},
    "on_resync": {"on_rejoin", "on_leave"},
    "on_leave": set[str](),
    # In a cluster: it may have come with its connection, or wait for it.
    "recovered": {"on_drop", "on_rejoin", "on_leave", "on_resync"},
    "on_spectate": {"resync_spectator", "on_unspectate"},
    "resync_spectator": {"resync_spectator", "on_unspectate"},
    "on_unspectate": set[str](),
}

# In a cluster, a connection that is to follow, or that another node lets go, is not taken for a drop at once.
_UNNOTICED = {("on_join", "on_resync"), ("on_rejoin", "on_resync"), ("on_resync", "on_drop")}


class Checker:
    """Told by the rooms and the clients of one world."""

    def __init__(self, now: Callable[[], float], *, ignored: frozenset[str] = frozenset()) -> None:
        self._now = now
        self._ignored = ignored
        self.violations: list[Violation] = []
        self.counts: Counter[str] = Counter()
        self.history: list[str] = []
        self.failed: Callable[[], None] = lambda: None
        self.logs: dict[str, list[Op]] = {}
        self.rewinds: dict[str, int] = {}
        """How often a room came back from an older state."""
        self.has_moves = False
        self.rollbacks = 0
        """How often an older copy of the store was restored."""
        self.ages: dict[str, list[float]] = {}
        """And how old the states were that it came back with, each time."""
        self.images: dict[int, Image] = {}
        """What rooms shared at the end of each turn."""
        self._sent: dict[Op, Sent] = {}
        self._applied: dict[Op, str] = {}
        self._forbidden: dict[Op, str] = {}
        self._seats: dict[int, Seat] = {}
        self._welcomed_at: dict[str, float] = {}
        self._cries: dict[tuple[str, int, int], Callable[[], bool]] = {}
        self._fences: dict[str, tuple[float, float]] = {}

    def note(self, *what: object) -> None:
        """Remember what happened."""
        self.history.append(f"{self._now():.6f} " + " ".join(map(str, what)))

    def count(self, what: str, times: int = 1) -> None:
        """Count it for the summary."""
        self.counts[what] += times

    def fail(self, invariant: str, what: str) -> None:
        """A promise is broken."""
        self.note("VIOLATION", invariant, what)
        if invariant in self._ignored:
            return
        self.violations.append(Violation(invariant, what, self._now()))
        self.failed()

    def expect(self, invariant: str, holds: bool, what: str) -> None:
        """A promise that must hold now."""
        if not holds:
            self.fail(invariant, what)

    @property
    def digest(self) -> str:
        """The whole history in one number: equal seeds give equal digests."""
        return hashlib.sha256("\n".join(self.history).encode()).hexdigest()[:16]

    # What clients do

    def sent(self, op: Op, stream: Stream, *, is_refused: bool) -> None:
        """A client gave an operation to the library."""
        self.note(op.process, "sent", op.n)
        self._sent[op] = Sent(stream, self._now(), is_refused)
        if not is_refused:
            stream.ops.append(op)

    def is_of(self, op: Op, stream: Stream) -> bool:
        """Whether an operation was sent from this seat."""
        return self._sent[op].stream is stream

    def forbid(self, op: Op, invariant: str) -> None:
        """Somebody sends what must never take effect."""
        self._forbidden[op] = invariant

    def acked(self, ops: list[Op]) -> None:
        """The library said that these have been applied."""
        for op in ops:
            sent = self._sent[op]
            is_done = op in self._applied or sent.is_refused or sent.is_lost
            self.expect("I3", is_done, f"{op} was acknowledged, not applied")

    def answered(self, op: Op, room: str, at: int) -> None:
        """The room said that this is its entry number `at`."""
        self.expect("I3", self._is_entry(room, at, op), f"{op} was answered, but is not entry {at} of {room}")

    def saw(self, room: str, at: int, op: Op) -> None:
        """Somebody was told that this is the room's entry number `at`."""
        self.expect("I2", self._is_entry(room, at, op), f"{op} was seen, but is not entry {at} of {room}")

    def _is_entry(self, room: str, at: int, op: Op) -> bool:
        log = self.logs.get(room, [])
        # What a rewound room had said before may be read late.
        return room in self.rewinds or (at < len(log) and log[at] == op)

    def refused(self, op: Op) -> None:
        """The room said no."""
        self.expect("I4", self._sent[op].is_refused, f"{op} was refused, but nobody meant to")

    def cried(self, session: str, life: int, number: int, is_lost: Callable[[], bool]) -> None:
        """A server spoke to a session of its own, which another server may take over before the word is saved."""
        self._cries[session, life, number] = is_lost

    def unheard(self, session: str, life: int, numbers: Iterable[int]) -> list[int]:
        """Which of these were said to a session that stayed where it was."""
        return [n for n in numbers if (is_lost := self._cries.get((session, life, n))) is not None and not is_lost()]

    def welcomed(self, process: str) -> None:
        """The server knows this process."""
        self._welcomed_at[process] = self._now()

    def took_over(self, former: str, started_at: float) -> None:
        """Who began to take over at `started_at` has succeeded: what the former says from now on counts no more."""
        self._fences.setdefault(former, (started_at, self._now()))

    # What rooms do

    def wrote(self, room: str, player: str, op: Op) -> None:
        """A room made an entry in its log: an operation of a player, or one of its own (no player)."""
        self.logs.setdefault(room, []).append(op)
        if player:
            self.note(room, "applied", op.process, op.n)
            self.count("messages up")
            self._applied_once(room, player, op)

    def _applied_once(self, room: str, player: str, op: Op) -> None:
        if op in self._forbidden:
            self.fail(self._forbidden[op], f"{op} must never have been applied")
        elif op not in self._sent:
            self.fail("I4", f"{op} was applied, but never sent")
        elif op in self._applied:
            self.fail("I4", f"{op} was applied twice")
        else:
            self._applied[op] = room
            self._check_applied(op, self._sent[op], player)

    def lost(self, op: Op) -> None:
        """A room that another server has by now took an operation, and knew no better."""
        self._sent[op].is_lost = True

    def rewound(self, room: str, log: list[Op]) -> None:
        """A room comes back from an older state, with this log."""
        self.rewinds[room] = self.rewinds.get(room, 0) + 1
        known = self.logs.get(room, [])
        for op in known:
            if op in self._applied and op not in log:
                self.count("messages rewound")
                del self._applied[op]
                stream = self._sent[op].stream
                self._sent[op].is_lost = True
                stream.applied = min(stream.applied, stream.ops.index(op))
        self.logs[room] = log

    def _check_applied(self, op: Op, sent: Sent, player: str) -> None:
        stream = sent.stream
        if sent.is_refused:
            self.fail("I4", f"{op} was refused and yet applied")
            return
        self.expect("P5", stream.player == player, f"{op} of {stream.player} was applied for {player}")
        at = stream.ops.index(op)
        due = [each for each in stream.ops[stream.applied : at] if not self._sent[each].is_lost]
        self.expect("I4", at >= stream.applied and not due, f"{op} was applied before {due or stream.ops[at + 1 :]}")
        stream.applied = at + 1
        before = stream.after
        saved = before.ops[before.applied : stream.after_count] if before is not None else []
        missing = [each for each in saved if not self._sent[each].is_lost]
        self.expect("I4", not missing, f"{op} was applied, but what was saved before it was not: {missing}")
        if op.process in self._fences:
            started_at, fenced_at = self._fences[op.process]
            came_back = self._welcomed_at.get(op.process, 0.0) >= started_at
            late = sent.at_s > fenced_at and not came_back
            self.expect("I7", not late, f"{op} was sent after another took over at {fenced_at:.3f}, and applied")

    def held(self, numbers: Iterable[int], *, grace_s: float, state: str = "on_drop") -> None:
        """A room came back, and these seats are held from now on, whatever they were before."""
        for number in numbers:
            # A room that moved goes on with the graces that had begun.
            self._seats[number] = Seat(state, self._now(), 0.0 if self.has_moves else grace_s)

    def was_away(self, number: int) -> None:
        """This seat was given to a spectator who was away, and waits for the rest of their grace."""
        self._seats[number] = Seat("on_drop", -inf)

    def watched(self, numbers: Iterable[int]) -> None:
        """A room came back, and these places of spectators are held, whatever they were before."""
        for number in numbers:
            self._seats[number] = Seat("on_spectate")

    def hook(self, name: str, player: str, number: int, *, reason: str = "", grace_s: float = 0.0) -> None:
        """A room heard of one of its seats."""
        self.note(name, player, number, reason)
        self.count(name)
        seat = self._seats.setdefault(number, Seat())
        is_next = name in _HOOKS[seat.state] or (self.has_moves and (seat.state, name) in _UNNOTICED)
        self.expect("P6", is_next, f"{name} of seat {number} of {player} after {seat.state}")
        if name == "on_drop":
            seat.dropped_at_s, seat.grace_s = self._now(), 0.0
        if reason == "grace_ended":
            away_s = self._now() - seat.dropped_at_s
            self.expect(
                "P3", seat.state in {"on_drop", "recovered"}, f"the grace of {player} ended, but they were there"
            )
            is_late = away_s >= max(grace_s, seat.grace_s) - 0.001
            self.expect("P3", is_late, f"the grace of {player} ended after {away_s:.3f} s")
        seat.state = name
