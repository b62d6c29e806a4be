"""The timelines of a node's sessions: what happened to each, to explain why it dropped or ended.

A timeline is stored as bytes: a few dozen per event, in one object that the garbage collector need not visit. Reading
one is rare, and writing to it is not frequent either.
"""

from collections.abc import Callable, Iterable
from itertools import takewhile
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from holdfast.core.limits import Limits
from holdfast.schemas.events import (
    Ended,
    Event,
    LimitExceeded,
    Released,
    Restored,
    RoleGranted,
    RoleRevoked,
    SessionArrived,
    SessionEvent,
    SessionOpened,
)

TIMELINE_EVENTS = (SessionEvent, LimitExceeded, RoleGranted, RoleRevoked)
"""What `Timelines.record` is to be called with."""

# Known from where the timeline is stored.
_OMITTED = frozenset({"at", "session", "player", "player_name"})
KINDS: tuple[type[Event], ...] = (*SessionEvent.__subclasses__(), LimitExceeded, RoleGranted, RoleRevoked)
"""The kinds of events in timelines."""
BEGINNINGS = (SessionOpened, Restored, SessionArrived)
"""With these, a session comes to a node."""
_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
_FIELDS = {kind: tuple(name for name in kind.__struct_fields__ if name not in _OMITTED) for kind in KINDS}
# The time twice: of a single name, `attrgetter` would not make a tuple.
_VALUES = {kind: attrgetter("at", "at", *names) for kind, names in _FIELDS.items()}
# Long messages of games, operators and clients are cut; the event itself has the whole text.
_TEXT_CHARS_MAX = 200
# A full timeline drops this part of its entries at once, not one with every new one.
_FORGOTTEN_SHARE = 4

# Two numbers of two bytes: how many entries are forgotten, and how many follow. The second is how MessagePack says
# that an array begins, after its tag.
_NOTHING = bytes(4)
_COUNT_MAX = 0xFFFF
_ARRAY = b"\xdc"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[list[Any]]).decode


class Timeline(NamedTuple):
    """What happened to one session."""

    session: str
    player: str
    events: list[Event]
    forgotten: int
    """How many earlier events are no longer kept."""
    status: str
    """"live", "ended" or "released"."""
    name: str
    """The player's display name, if they have one."""


class _Past(Struct):
    """The timeline of a session that has ended or was released."""

    at: float
    player: str
    name: str
    status: str
    kept: bytes


class Timelines:
    """Observes the bus. The timelines of ended sessions are kept for a while."""

    def __init__(
        self, limits: Limits, now: Callable[[], float], sessions_of: Callable[[str], Iterable[str]] = lambda _: ()
    ) -> None:
        """`sessions_of` returns the sessions of a player: what happens to the player is in the timelines of all."""
        self._limits = limits
        self._sessions_of = sessions_of
        self._now = now
        self._live: dict[str, bytes] = {}
        # In the order of their end.
        self._past: dict[str, _Past] = {}
        self._last_of: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._live) + len(self._past)

    def record(self, event: Any) -> None:
        kind, most = type(event), self._limits.timeline_max
        if kind is RoleGranted or kind is RoleRevoked:
            self._record_role(event)
            return
        if kind not in _NUMBERS or not event.session or most <= 0:
            return
        session_id, live = event.session, self._live
        if kind is SessionOpened:
            live[session_id] = _NOTHING
        elif kind is Restored or (kind is SessionArrived and session_id not in live):
            # It may have been here before, and have been released.
            past = self._forget(session_id)
            live[session_id] = past.kept if past is not None else _NOTHING
        kept = live.get(session_id)
        if kept is not None:
            live[session_id] = _with(kept, _entry(event), most)
        elif (past := self._past.get(session_id)) is not None:
            # The room was in the middle of a turn when the session ended.
            past.kept = _with(past.kept, _entry(event), most)
        if kind is Ended or kind is Released:
            self._over(event)

    def _record_role(self, event: RoleGranted | RoleRevoked) -> None:
        for session_id in self._sessions_of(event.player):
            kept = self._live.get(session_id)
            if kept is not None:
                self._live[session_id] = _with(kept, _entry(event), self._limits.timeline_max)

    def get(self, session_id: str, player_id: str = "", name: str = "") -> Timeline | None:
        """The timeline of an open session (its player is `player_id`, called `name`), or of one that ended recently."""
        self._prune()
        kept = self._live.get(session_id)
        if kept is not None:
            return _read(session_id, player_id, name, kept, "live")
        past = self._past.get(session_id)
        return _read(session_id, past.player, past.name, past.kept, past.status) if past is not None else None

    def last_of(self, player_id: str) -> str | None:
        """The last ended session of a player, if it is still kept."""
        self._prune()
        return self._last_of.get(player_id)

    def _over(self, event: Ended | Released) -> None:
        kept = self._live.pop(event.session, None)
        if kept is None or self._limits.timelines_kept_max <= 0:
            return
        status = "ended" if isinstance(event, Ended) else "released"
        self._past[event.session] = _Past(self._now(), event.player, event.player_name, status, kept)
        self._last_of[event.player] = event.session
        self._prune()

    def _prune(self) -> None:
        too_old = self._now() - self._limits.timeline_kept_s
        while self._past:
            session_id, past = next(iter(self._past.items()))
            if past.at > too_old and len(self._past) <= self._limits.timelines_kept_max:
                return
            self._forget(session_id)

    def _forget(self, session_id: str) -> _Past | None:
        past = self._past.pop(session_id, None)
        if past is not None and self._last_of.get(past.player) == session_id:
            del self._last_of[past.player]
        return past


def _entry(event: Event) -> list[Any]:
    return [_NUMBERS[type(event)], *_VALUES[type(event)](event)[1:]]


def _short(value: Any) -> Any:
    return f"{value[: _TEXT_CHARS_MAX - 1]}…" if isinstance(value, str) and len(value) > _TEXT_CHARS_MAX else value


def _with(kept: bytes, entry: list[Any], most: int) -> bytes:
    """The timeline with one more entry."""
    count = int.from_bytes(kept[2:4], "big")
    packed = _encode(entry)
    if len(packed) > _TEXT_CHARS_MAX:
        # Only then can one of its texts be too long.
        entry = [_short(value) for value in entry]
        packed = _encode(entry)
    is_of_limit = entry[0] == _NUMBERS[LimitExceeded]
    if count < most and not is_of_limit:
        return kept[:2] + (count + 1).to_bytes(2, "big") + kept[4:] + packed
    forgotten, entries = int.from_bytes(kept[:2], "big"), _entries(kept)
    known = _same_limit(entries, entry) if is_of_limit else None
    if known is not None:
        # A flood must not push out everything else.
        known[_TIMES] += entry[_TIMES]
    else:
        surplus = max(1, most // _FORGOTTEN_SHARE) if count >= most else 0
        forgotten = min(forgotten + surplus, _COUNT_MAX)
        entries = [*entries[surplus:], entry]
    head = forgotten.to_bytes(2, "big") + len(entries).to_bytes(2, "big")
    return head + b"".join(map(_encode, entries))


def _entries(kept: bytes) -> list[list[Any]]:
    return _decode(_ARRAY + kept[2:])


# The positions of the fields in an entry of `LimitExceeded`: after its kind and its time.
_LIMIT, _ACTION, _TIMES = (2 + _FIELDS[LimitExceeded].index(name) for name in ("limit", "action", "times"))


def _same_limit(entries: list[list[Any]], entry: list[Any]) -> list[Any] | None:
    """The entry of the same limit and action, if only limits came after it: a flood may exceed several."""
    last = takewhile(lambda each: each[0] == entry[0], reversed(entries))
    return next((each for each in last if each[_LIMIT] == entry[_LIMIT] and each[_ACTION] == entry[_ACTION]), None)


def _read(session_id: str, player_id: str, name: str, kept: bytes, status: str) -> Timeline:
    events: list[Event] = []
    for number, at, *values in _entries(kept):
        kind = KINDS[number]
        said = dict(zip(_FIELDS[kind], values, strict=True))
        if "session" in kind.__struct_fields__:
            said["session"] = session_id
        events.append(kind(at=at, player=player_id, player_name=name, **said))
    return Timeline(session_id, player_id, events, int.from_bytes(kept[:2], "big"), status, name)
