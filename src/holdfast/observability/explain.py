"""Explains why a player dropped: a session's timeline in words, with a verdict and advice.

Pure: the same events give the same words. Times are in UTC.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.reasons import Reason
from holdfast.observability.reason_words import WORDS, Words
from holdfast.schemas.events import (
    Authenticated,
    Dropped,
    Ended,
    Event,
    LimitExceeded,
    PlayerJoined,
    PlayerLeft,
    Released,
    Renamed,
    Restored,
    Resumed,
    RoleGranted,
    RoleRevoked,
    RolledBack,
    SessionArrived,
    SessionOpened,
    SessionResynced,
    SpectatorJoined,
    SpectatorLeft,
    Superseded,
    TokenReused,
)

_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60
# WebSocket's close codes of a closed page or app, and of a client that closed the connection itself.
_GOING_AWAY, _NORMAL = 1001, 1000
_NO_WORDS = Words(advice="")


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explanation of one session, for operators."""

    verdict: str
    """What happened to it, in a few sentences."""
    advice: str
    """What to do about it; empty if nothing went wrong."""
    reason: Reason | None
    """The reason of the end, or of the last drop; None if there was neither."""


def explain(events: Sequence[Event], name: str = "") -> Explanation:
    """Explain a session from its events, oldest first; `name` is what its player is called."""
    story = _Story(events, name)
    reasons = story.reasons()
    advice = " ".join(WORDS[reason].advice for reason in reasons if reason in WORDS)
    limits = [f"They reached the limit {name} {_times(count)}." for name, count in story.limits.items()]
    return Explanation(" ".join([*story.verdict(), *limits]), advice, reasons[-1] if reasons else None)


class _Story:
    """The events of a timeline that matter."""

    def __init__(self, events: Sequence[Event], name: str) -> None:
        self._who = f"“{name}”" if name else "The player"
        self.opened: SessionOpened | Restored | None = None
        self.arrived: SessionArrived | None = None
        """How it came to the node that it is on, if its connection came with it."""
        self.drop: Dropped | None = None
        self.takeover: Superseded | None = None
        self.back: Resumed | None = None
        """The return from that drop, or with the connection that took over."""
        self.seat: PlayerJoined | PlayerLeft | None = None
        self.holds_seat = False
        """Whether a seat is held for the absent player."""
        self.end: Ended | Released | None = None
        self.limits: Counter[str] = Counter()
        for event in events:
            self._happened(event)

    def _happened(self, event: Event) -> None:
        match event:
            case SessionOpened():
                self.opened = event
            case SessionArrived():
                self.arrived, self.end = event, None
            case Restored():
                # Start over: nobody is connected.
                self.arrived = None
                self.opened, self.end, self.drop, self.back = event, None, None, None
                self.holds_seat = bool(event.room)
            case Dropped():
                self.drop, self.back, self.takeover = event, None, None
            case Superseded():
                self.drop, self.back, self.takeover = None, None, event
            case Resumed():
                self.back = event
            case PlayerJoined():
                self.seat, self.holds_seat = event, True
            case PlayerLeft():
                self.seat = event
                # If the grace ended, the seat was held until then.
                self.holds_seat = event.reason == Reason.GRACE_ENDED
            case Ended() | Released():
                self.end = event
            case LimitExceeded():
                self.limits[event.limit] += event.times
            case _:
                pass

    @property
    def is_away(self) -> bool:
        """Whether the player was not connected at the end."""
        has_come_alone = isinstance(self.opened, Restored) and self.arrived is None
        return self.back is None and (self.drop is not None or has_come_alone)

    def reasons(self) -> list[Reason]:
        """The reasons to give advice about, the most important last."""
        told: list[Event | None] = [self.end]
        if self.end is None:
            told = [self.drop] if self.drop is not None else [self.seat]
        elif self.end.reason == Reason.GRACE_ENDED:
            told = [self.drop, self.end]
        found = [_reason(event.reason) for event in told if isinstance(event, Dropped | PlayerLeft | Ended | Released)]
        return [reason for reason in found if reason is not None]

    def verdict(self) -> list[str]:
        if self.end is not None:
            return [*self._before(), self._end(self.end)]
        if self.is_away:
            return [*self._before(), f"{self._kept('is')} from then, and they have not come back yet."]
        came = self.back or self.opened or self.arrived
        since = f" since {_clock(came.at)}" if came is not None else ""
        how = f", over {came.transport}" if isinstance(came, SessionOpened | Resumed) else ""
        told = [f"{self._who} has been connected{since}{how}.", *self._return()]
        if isinstance(self.seat, PlayerLeft):
            told.append(f"They have had no seat since {_clock(self.seat.at)}: {_of_seat(self.seat)}.")
        return told

    def _before(self) -> list[str]:
        """Why the player was no longer connected."""
        if not self.is_away or (self.end is not None and self.drop is not None and self.drop.reason == self.end.reason):
            return []
        if self.drop is not None:
            return [_of_drop(self.drop)]
        assert isinstance(self.opened, Restored)
        return [f"{_of_return(self.opened)}."]

    def _end(self, end: Ended | Released) -> str:
        if end.reason == Reason.GRACE_ENDED and self.is_away:
            return f"{self._kept('was')}; they did not come back, so the session ended {_at(end)} (grace_ended)."
        what = _words(end.reason).end or "The session ended"
        if isinstance(end, Released) and end.node:
            what = f"The session moved to the node {end.node}"
        elif isinstance(end, Released) and end.reason == Reason.STOPPING:
            what = "The session was left in the store for the next server when this one stopped"
        return f"{what} {_at(end)} ({end.reason}){_quoted(end.message if isinstance(end, Ended) else '')}."

    def _kept(self, verb: str) -> str:
        since = self.drop or self.opened
        assert isinstance(since, Dropped | Restored)
        return f"The {'seat' if self.holds_seat else 'session'} {verb} kept for {_span(since.grace_s)}"

    def _return(self) -> list[str]:
        if self.takeover is not None:
            return [f"A newer connection took over {_at(self.takeover)}, before the old one was known to be gone."]
        if self.arrived is not None and self.drop is None:
            return [f"The session came from the node {self.arrived.node} {_at(self.arrived)}, without a drop."]
        if self.drop is None and isinstance(self.opened, Restored):
            return [f"{_of_return(self.opened)}, and they came back to it."]
        if self.drop is None or self.back is None:
            return [] if isinstance(self.seat, PlayerLeft) else ["Nothing has gone wrong."]
        what = f"They were back after {_span(self.back.away_s)}"
        if self.back.outcome == "resynced":
            return [_of_drop(self.drop), f"{what}, and were sent the present state: not every message could be kept."]
        return [_of_drop(self.drop), f"{what}; {_messages(self.back.replayed)} sent again, and nothing was lost."]


def describe(event: Event) -> str:
    """One event of a timeline in a few words, without its time."""
    tell = _TELL.get(type(event))
    return tell(event) if tell is not None else event.name


def _of_drop(drop: Dropped) -> str:
    what = _words(drop.reason).drop or "The connection ended"
    at = _at(drop)
    if drop.reason == Reason.SILENT:
        pings = f" ({_count(drop.pings, 'ping')} unanswered)" if drop.pings else ""
        return f"{what}: nothing was heard for {_span(drop.silent_s)}{pings}, so it was cut {at}."
    if drop.reason == Reason.DROPPED:
        if drop.code == _GOING_AWAY:
            what = "The client's page or app was closed"
        elif drop.code == _NORMAL:
            what = "The client closed the connection without ending the session"
        times = f", and a round trip took {drop.latency_ms:.0f} ms (the worst {drop.worst_ms:.0f} ms)"
        return f"{what} {at}; it was last heard {_span(drop.silent_s)} before{times if drop.worst_ms else ''}."
    return f"{what} {at} ({drop.reason})."


def _of_return(restored: Restored) -> str:
    at = _at(restored)
    if restored.has_died:
        return f"The node {restored.node} died, and another one took the session over {at}"
    if restored.node:
        return f"The session was taken over from the node {restored.node} {at}"
    return f"The session came back from the store {at}"


def _of_seat(left: PlayerLeft | SpectatorLeft) -> str:
    why = _words(left.reason).seat
    return f"{why} ({left.reason}){_quoted(left.message)}" if why else f"{left.reason}{_quoted(left.message)}"


def _tell_opened(event: SessionOpened) -> str:
    if event.transport == "agent":
        return "an agent was opened"
    anew = "signed in again (their session was gone)" if event.is_reset else "signed in"
    return f"{anew} over {event.transport}{_from(event.peer)}"


def _tell_dropped(event: Dropped) -> str:
    facts = [f"last heard {_span(event.silent_s)} before"]
    if event.pings:
        facts.append(f"{_count(event.pings, 'ping')} unanswered")
    if event.worst_ms:
        times = (event.latency_ms, event.last_ms, event.worst_ms)
        facts.append("round trip {:.0f} ms, last {:.0f} ms, worst {:.0f} ms".format(*times))
    if event.code:
        facts.append(f"code {event.code}")
    return f"lost the connection ({event.reason}): {'; '.join(facts)}; kept for {_span(event.grace_s)}"


def _tell_resumed(event: Resumed) -> str:
    what = "got the present state" if event.outcome == "resynced" else f"{_messages(event.replayed)} sent again"
    away = f" after {_span(event.away_s)}" if event.away_s else ""
    return f"came back{away} over {event.transport}{_from(event.peer)}; {what}"


def _tell_restored(event: Restored) -> str:
    seat = f" with a seat in room {event.room}" if event.room else ""
    if event.spectating:
        seat += f" as a spectator of room {event.spectating}"
    how = "came back from the store"
    if event.node:
        how = f"its node {event.node} died; taken over" if event.has_died else f"taken over from the node {event.node}"
    return f"{how}{seat}; kept for {_span(event.grace_s)}"


def _tell_authenticated(event: Authenticated) -> str:
    return f"proved who they are ({event.scheme}){' as ' + ', '.join(event.roles) if event.roles else ''}"


def _tell_role(event: RoleGranted | RoleRevoked, what: str) -> str:
    by = f" by {event.by}" if event.by else ""
    return f"{what}{by}{': roles were reset to those of the sign-in' if event.is_reset else ''}"


_TELL: dict[type[Event], Callable[[Any], str]] = {
    SessionOpened: _tell_opened,
    Authenticated: _tell_authenticated,
    Renamed: lambda event: f"changed their name from {event.old_name!r} to {event.new_name!r}",
    RoleGranted: lambda event: _tell_role(event, f"was granted the role {event.role}"),
    RoleRevoked: lambda event: _tell_role(event, f"lost the role {event.role}"),
    Dropped: _tell_dropped,
    Resumed: _tell_resumed,
    Superseded: lambda event: f"a newer connection took over from {event.connection}",
    SessionResynced: lambda event: "more messages waited for the client than may be kept: it gets the present state",
    RolledBack: lambda event: f"knows more than the store, which is older: {event.outcome}",
    TokenReused: lambda event: f"a used token was presented{_from(event.peer)}: the session is revoked",
    LimitExceeded: lambda event: f"reached the limit {event.limit} {_times(event.times)}: {event.action}",
    PlayerJoined: lambda event: f"took a seat in room {event.room} ({event.kind})",
    PlayerLeft: lambda event: f"lost the seat in room {event.room}: {_of_seat(event)}",
    SpectatorJoined: lambda event: f"watches room {event.room} ({event.kind}) as a spectator",
    SpectatorLeft: lambda event: f"watches room {event.room} no more: {_of_seat(event)}",
    Restored: _tell_restored,
    SessionArrived: lambda event: f"came from the node {event.node} with its connection{_in_room(event.room)}",
    Released: lambda event: (
        f"moved to the node {event.node}" if event.node else f"this server released the session ({event.reason})"
    ),
    Ended: lambda event: f"the session ended ({event.reason}){_quoted(event.message)}",
}


def _in_room(room: str) -> str:
    return f", with a seat in room {room}" if room else ""


def _words(reason: str) -> Words:
    """The words for a reason; empty for one that this version does not know here."""
    known = _reason(reason)
    return WORDS.get(known, _NO_WORDS) if known is not None else _NO_WORDS


def _reason(value: str) -> Reason | None:
    return Reason(value) if value in Reason.__members__.values() else None


def _at(event: Event) -> str:
    return f"at {_clock(event.at)}"


def _clock(at: float) -> str:
    seconds = int(at) % _DAY_S
    return f"{seconds // _HOUR_S:02}:{seconds // _MINUTE_S % 60:02}:{seconds % _MINUTE_S:02} UTC"


def _span(seconds: float) -> str:
    for unit, length in (("h", _HOUR_S), ("min", _MINUTE_S)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{round(seconds, 1):g} s"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _messages(number: int) -> str:
    return "no message had to be" if number == 0 else f"{_count(number, 'message')} {'was' if number == 1 else 'were'}"


def _from(peer: str) -> str:
    return f" from {peer}" if peer else ""


def _quoted(message: str) -> str:
    return f": “{message}”" if message else ""
