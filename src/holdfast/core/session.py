"""A session: a player's presence on the server. It outlives its connections; each new one raises its epoch."""

from collections.abc import Callable, Iterator
from enum import Enum, Flag, auto
from typing import Any, NewType, Protocol

from holdfast.core.channel import Channel
from holdfast.core.codec import Codec
from holdfast.core.connection import Connection
from holdfast.core.flood import Flood
from holdfast.core.latency import Latency
from holdfast.core.limits import Limits
from holdfast.core.lineage import Lineage
from holdfast.core.outlet import Outlet
from holdfast.core.reasons import Reason
from holdfast.core.tables import Table
from holdfast.core.tokens import ResumeTokens
from holdfast.schemas.frames import Data, Latest, Reply
from holdfast.schemas.session import Fork, Reached

SessionId = NewType("SessionId", str)
PlayerId = NewType("PlayerId", str)

SESSION_ID_BYTES = 12
"""Of chance in a session's id: enough that it cannot be guessed, though knowing it proves nothing."""


class SessionState(Enum):
    """Where a session is in its life."""

    PRECONNECT = "preconnect"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    ENDED = "ended"


class SessionStep(Enum):
    """What can happen to a session."""

    ATTACHED = "attached"
    DETACHED = "detached"
    RESTORED = "restored"
    EXPIRED = "expired"
    ENDED = "ended"


_S, _E = SessionState, SessionStep

SESSION_TABLE = Table(
    "session",
    _S.PRECONNECT,
    {
        _S.PRECONNECT: {_E.ATTACHED: _S.CONNECTED, _E.RESTORED: _S.DISCONNECTED, _E.ENDED: _S.ENDED},
        _S.CONNECTED: {_E.ATTACHED: _S.CONNECTED, _E.DETACHED: _S.DISCONNECTED, _E.ENDED: _S.ENDED},
        _S.DISCONNECTED: {_E.ATTACHED: _S.CONNECTED, _E.EXPIRED: _S.ENDED, _E.ENDED: _S.ENDED},
        _S.ENDED: {},
    },
)


class SessionFlags(Flag):
    """What is switched on for a session."""

    NONE = 0
    ENCRYPTION = auto()
    COMPRESSION = auto()
    PACKET_LOGGING = auto()
    AWAITING_RESPONSE = auto()


# Those that are its connection's: the next one brings its own.
_OF_A_CONNECTION = SessionFlags.ENCRYPTION | SessionFlags.COMPRESSION


class SessionCommands(Protocol):
    """Who carries out what a session is told: the server."""

    def disconnect(self, session: "Session", reason: str) -> None:
        """Close the session's connection."""

    def end(self, session: "Session", reason: str) -> None:
        """End the session."""


class PlaceRunner(Protocol):
    """Who runs the room that a place is in. Each call names the place."""

    @property
    def room(self) -> Any:
        """The room."""

    def deliver(self, place: Any, frame: Data) -> None:
        """Give the room the next message."""

    def refuse(self, place: Any, frame: Data) -> None:
        """The next message is beyond what the client may send: tell them, in its place."""

    def has_read(self, place: Any) -> None:
        """The client has acknowledged something, and what it said may have its turn."""

    def deliver_latest(self, place: Any, frame: Latest) -> None:
        """Give the room an unreliable message, if it is free to take one."""

    def let_finish(self, place: Any) -> None:
        """Everything that was said has its turn, also if the client does not read any more."""

    def dropped(self, place: Any) -> None:
        """The connection is gone."""

    def returned(self, place: Any, *, is_resynced: bool) -> None:
        """The session has a connection again; with `is_resynced` its stream begins anew."""

    def leave(self, place: Any) -> None:
        """Give the place back, when what was said before is applied."""

    def free(self, place: Any, reason: Reason, message: str = "") -> None:
        """Take the place away now."""

    def kick(self, place: Any, message: str) -> None:
        """The game takes the place away."""


class Place(Protocol):
    """What a session has in a room: a seat."""

    @property
    def outlet(self) -> Outlet:
        """Where messages to the session go."""

    @property
    def runner(self) -> PlaceRunner:
        """Who runs the room."""

    @property
    def player(self) -> Any:
        """What the game sees of the session."""

    @property
    def is_joining(self) -> bool:
        """Whether the room has not heard of the player yet."""


class Session:
    """What the server keeps of one player's presence."""

    __slots__ = (
        "_commands",
        "_limits",
        "address",
        "channel",
        "channels_opened",
        "closing",
        "codec",
        "connection",
        "created_at",
        "data",
        "drop_reason",
        "dropped_at",
        "drops",
        "end_reason",
        "epoch",
        "expires_at",
        "flags",
        "flood",
        "grace_s",
        "id",
        "last_active_at",
        "last_request",
        "latency",
        "lineage",
        "on_disconnect",
        "player_id",
        "replayed",
        "replies",
        "requests_announced",
        "resumes",
        "rewound_s",
        "roles",
        "seat",
        "sign_outs",
        "signed_in_at",
        "state",
        "tokens",
        "wrong_guesses",
    )

    def __init__(  # noqa: PLR0915 - one call site; all but the first two by keyword
        self,
        session_id: SessionId,
        player_id: PlayerId,
        *,
        limits: Limits,
        now: float,
        grace_s: float,
        codec: Codec | None = None,
        roles: frozenset[str] = frozenset(),
    ) -> None:
        self.id = session_id
        self.player_id = player_id
        self.roles = roles
        self.codec = codec
        self.flags = SessionFlags.NONE
        self.grace_s = grace_s
        self.data: Any = None
        self.created_at = now
        self.signed_in_at = 0.0
        """The same by the wall clock, for what outlives this node's own; 0 if it is not known."""
        self.last_active_at = now
        self.wrong_guesses = 0
        self.flood: Flood | None = None
        """What its client may say; None if nothing was said of late, and of an agent, who may say anything."""
        self.on_disconnect: Callable[[Session], None] | None = None

        self.state = SESSION_TABLE.start
        self.connection: Connection | None = None
        self.epoch = 0
        self.address = ""
        """Where its last connection came from."""
        self.dropped_at: float | None = None
        """Since when it waits for its player."""
        self.sign_outs = 0
        """The last sign-out that there had been when it began: a later one of its player has ended it."""
        self.expires_at: float | None = None
        self.end_reason: Reason | None = None
        self.tokens = ResumeTokens(limits.retired_tokens_max)
        self.lineage = Lineage(limits.forks_kept_max)
        self.latency = Latency()
        self.drops = 0
        self.drop_reason: Reason | None = None
        """Why we have ended its last connection, until the client is heard again: it may not know."""
        self.resumes = 0
        self.replayed = 0
        self.rewound_s: float | None = None
        """Its room came back from a checkpoint of this age: the client remembers more than we do."""

        self.seat: Place | None = None
        self.channel: Channel | None = None
        self.closing: tuple[Channel, ...] = ()
        """Of seats that are gone: each stays until its last message is acknowledged."""
        self.channels_opened = 0
        self._limits = limits
        self.last_request = 0
        self.requests_announced = 0
        self.replies: tuple[Reply, ...] = ()
        """To its last requests, oldest first, in case they are asked again."""
        self._commands: SessionCommands | None = None

    @property
    def player(self) -> Any:
        """The `Player` that the session is in its room; None without a seat."""
        return self.seat.player if self.seat is not None else None

    @property
    def room(self) -> Any:
        """The `Room` that the session has its seat in; None without one."""
        return self.seat.runner.room if self.seat is not None else None

    @property
    def status(self) -> str:
        """ "preconnect", "connected", "disconnected" or "ended"."""
        return self.state.value

    @property
    def latency_ms(self) -> float:
        """The smoothed round-trip time."""
        return self.latency.smoothed_ms

    # What the server's commands do is set by the server; a session alone can only be told.

    def disconnect(self, reason: str = "") -> None:
        """Close the connection; the session lives on and the player may come back."""
        if self._commands is not None:
            self._commands.disconnect(self, reason)

    def end(self, reason: str = "") -> None:
        """End the session for good: its seat is freed and its token is dead."""
        if self._commands is not None:
            self._commands.end(self, reason)

    def obeyed_by(self, commands: SessionCommands) -> None:
        """Connect `disconnect` and `end` to who can carry them out."""
        self._commands = commands

    # State. Called by the registry, which keeps its indexes in step.

    def attach(self, connection: Connection, now: float) -> Connection | None:
        """A new connection takes over; the old one, if any, is returned and has no more say."""
        self.state = SESSION_TABLE.after(self.state, SessionStep.ATTACHED)
        old, self.connection = self.connection, connection
        self.flags &= ~_OF_A_CONNECTION
        if connection.is_encrypted:
            self.flags |= SessionFlags.ENCRYPTION
        if connection.is_compressed:
            self.flags |= SessionFlags.COMPRESSION
        self.epoch += 1
        self.address = connection.address
        self.dropped_at = self.expires_at = None
        self.last_active_at = now
        return old

    def detach(self, now: float) -> None:
        """The connection is gone; the grace begins."""
        self.state = SESSION_TABLE.after(self.state, SessionStep.DETACHED)
        self.connection = None
        self.dropped_at = now
        self.expires_at = now + self.grace_s
        self.drops += 1
        # It may wait for long: keep what is needed, and no more.
        for channel in self.channels():
            channel.shrink()
        if self.flood is not None and self.flood.is_rested(now):
            self.flood = None

    def restored(self, now: float) -> None:
        """The server came back and remembers the session; a fresh grace begins."""
        self.state = SESSION_TABLE.after(self.state, SessionStep.RESTORED)
        self.dropped_at = now
        self.expires_at = now + self.grace_s

    def forked(self, age_s: float | None) -> None:
        """The server came back with this session as it is now, and its room's state was so old."""
        reached = [
            Reached(
                channel.number, channel.generation, None if channel.overflowed else channel.last_seq, channel.applied
            )
            for channel in self.channels()
        ]
        requests = max(self.last_request, self.requests_announced)
        self.lineage.fork(Fork(self.lineage.name, self.channels_opened, requests, reached, age_s))

    def has_expired(self, now: float) -> bool:
        """Whether the grace has passed: a return in between has cleared or moved the deadline."""
        return self.expires_at is not None and now >= self.expires_at

    def finish(self, event: SessionStep, reason: Reason) -> None:
        """The end; nothing follows it."""
        self.state = SESSION_TABLE.after(self.state, event)
        self.connection = None
        self.expires_at = None
        self.end_reason = reason

    # Channels

    def open_channel(self) -> Channel:
        """The channel of a new seat; its number is never used again in this session."""
        self.channels_opened += 1
        self.channel = Channel(self.channels_opened, self._limits)
        return self.channel

    def was_opened(self, number: int) -> bool:
        """Whether there is or was a channel with this number."""
        return 1 <= number <= self.channels_opened

    def close_channel(self) -> None:
        """The seat is gone: the channel stays until its last message is acknowledged."""
        channel, self.channel = self.channel, None
        if channel is not None:
            if self.rewound_s is not None:
                # Its client counts otherwise and will not be told: what is left must not be taken for what it missed.
                channel.give_up()
            closing = (*self.closing, channel)
            self.closing = closing[max(0, len(closing) - self._limits.closing_channels_max) :]

    def channel_over(self, channel: Channel) -> None:
        """The last message of a seat that is gone was acknowledged, or nobody waits for it."""
        self.closing = tuple(each for each in self.closing if each is not channel)

    def channels(self) -> Iterator[Channel]:
        """Every channel that still has something to say, oldest first."""
        yield from self.closing
        if self.channel is not None:
            yield self.channel

    def channel_numbered(self, number: int) -> Channel | None:
        """The channel with this number, or None if it is over."""
        return next((channel for channel in self.channels() if channel.number == number), None)

    # Requests

    def reply_to(self, request_id: int) -> Reply | None:
        """The reply to one of the last requests."""
        return next((reply for reply in self.replies if reply.id == request_id), None)

    def replied(self, reply: Reply) -> None:
        """Keep a reply in case its request is asked again; the oldest ones are forgotten."""
        replies = (*self.replies, reply)
        self.replies = replies[max(0, len(replies) - self._limits.replies_kept_max) :]

    def __repr__(self) -> str:
        return f"<Session {self.id} of {self.player_id} {self.status} epoch {self.epoch}>"
