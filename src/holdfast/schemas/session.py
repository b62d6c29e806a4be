"""Sessions as data: what operators see of one, and what is saved of it."""

from typing import Any

from msgspec import Struct

from holdfast.schemas.frames import Position, Resume


class SessionInfo(Struct, frozen=True, omit_defaults=True):
    """One session of a player. Tokens are not shown to anybody."""

    id: str
    player: str
    status: str
    """preconnect, connected, disconnected or ended."""
    room: str = ""
    transport: str = ""
    latency_ms: float = 0.0
    age_s: float = 0.0
    idle_s: float = 0.0
    drops: int = 0
    resumes: int = 0
    expires_in_s: float = 0.0
    """Of one that is disconnected: when its grace ends."""
    flags: list[str] = []
    """encryption, compression: its connection has that, or the last one had. awaiting_response: a ping is out."""


class SessionPage(Struct, frozen=True, omit_defaults=True):
    """One page of the sessions, by id; the cursor gets the next one, and is empty after the last."""

    sessions: list[SessionInfo]
    cursor: str = ""


class TimelineEntry(Struct, frozen=True, omit_defaults=True):
    """Something that happened to a session: the event, and what it means."""

    at: float
    type: str
    text: str
    body: dict[str, Any]


class TimelineInfo(Struct, frozen=True, omit_defaults=True):
    """What happened to a session, oldest first, and what became of it in plain words."""

    session: str
    player: str
    status: str
    """connected, disconnected or ended; released if it waits in the store or another server has it."""
    explanation: str
    """A few sentences. Times in it are UTC."""
    entries: list[TimelineEntry]
    advice: str = ""
    """What can be done about it."""
    reason: str = ""
    """Why it ended or dropped last; empty if it did neither."""
    forgotten: int = 0
    """Earlier entries that are not kept any more."""


class Reached(Struct, array_like=True, frozen=True, gc=False):
    """How far a channel was when its history forked."""

    number: int
    generation: int
    last_seq: int | None
    """None if its stream had overflowed: it begins anew in any case."""
    applied: int


class Fork(Struct, array_like=True, frozen=True):
    """Where a lineage ended: what its client may know of our history."""

    lineage: str
    channels_opened: int
    requests: int
    channels: list[Reached]
    age_s: float | None = None
    """How old the room's state was when the server came back with it; None without a room."""

    def includes(self, resume: Resume, *, but: int) -> bool:
        """Whether a client with these positions knows nothing from beyond the fork; channel `but` is not looked at."""
        if resume.requests > self.requests:
            return False
        return all(self._reaches(position) for position in resume.positions if position.channel != but)

    def _reaches(self, position: Position) -> bool:
        if position.channel > self.channels_opened:
            return False
        reached = next((each for each in self.channels if each.number == position.channel), None)
        if reached is None:
            # It was over before.
            return True
        if position.acked > reached.applied:
            return False
        if position.generation != reached.generation or reached.last_seq is None:
            return position.generation <= reached.generation
        return max(position.received or 0, position.accepted) <= reached.last_seq


class ChannelRecord(Struct, array_like=True, frozen=True, gc=False):
    """Both streams of a seat: how far the player's messages were applied, and what was not acknowledged by it."""

    number: int
    generation: int
    applied: int
    last_seq: int
    kept: list[tuple[str, bytes]]
    is_finished: bool = False
    is_overflowed: bool = False


class SessionRecord(Struct, array_like=True, frozen=True):
    """A session whose seat is in a durable room, or was. Tokens are kept as hashes only."""

    player: str
    codec: str
    roles: list[str]
    epoch: int
    room: str
    channels_opened: int
    closing: list[ChannelRecord]
    token: bytes
    next_token: bytes
    retired_tokens: list[bytes]
    last_request: int
    requests_announced: int
    replies: list[tuple[int, bytes | None, tuple[str, str] | None]]
    sign_outs: int = 0
    """The last sign-out that there had been when it began: a later one of its player has ended it."""
    signed_in_at: float = 0.0
    """When it began, by the wall clock; 0 if that is not known."""
    address: str = ""
    """Where its last connection came from; empty if that is not known."""
    lineage: str = ""
    """The history that its client was last told to be part of, and where it and older ones were forked."""
    forks: list[Fork] = []


class StandingRecord(Struct, array_like=True, frozen=True):
    """Since when a player's sessions and credentials count; of the player "" for everybody."""

    player: str
    sign_out: int
    """Sign-outs are numbered: sessions that began before this one are over."""
    not_before: float
    """By the wall clock: credentials that were issued before do not count."""
