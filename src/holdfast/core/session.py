"""A session, its seat in a room and its place as a spectator, and the `Player` or `Spectator` that the game sees.

A session is a player's presence on the server. It outlives its connections; each new one raises its epoch.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from copy import copy
from enum import Flag, auto
from itertools import combinations
from typing import Any, ClassVar, Generic, Literal, NewType, Protocol, TypeVar

from holdfast.core.channel import Channel
from holdfast.core.codec import Codec
from holdfast.core.connection import Connection
from holdfast.core.errors import Invalid
from holdfast.core.latency import Latency
from holdfast.core.limits import Limits, RoleLimits
from holdfast.core.messages import Message, PlayerData, check_message
from holdfast.core.outlet import Outlet
from holdfast.core.rates import Flood, Rates
from holdfast.core.reasons import Reason
from holdfast.core.tables import Table, TableEnum
from holdfast.core.tokens import Lineage, ResumeTokens
from holdfast.core.transaction import when_it_succeeds
from holdfast.core.usage import NO_USAGE, Usage
from holdfast.schemas.frames import (
    FOLLOWS_STATE,
    HEARS_SESSION,
    MOVES_NEARER,
    READS_BLOCKS,
    SENDS_DATAGRAMS,
    Data,
    Latest,
    Purpose,
    Reply,
)
from holdfast.schemas.player import AGENT_PREFIX, PLAYER_CHARS_MAX
from holdfast.schemas.session import Fork, Reached

D = TypeVar("D", bound=PlayerData)

SessionId = NewType("SessionId", str)
PlayerId = NewType("PlayerId", str)

# One object for all sessions with the same features.
_ALL_FEATURES = (HEARS_SESSION, FOLLOWS_STATE, READS_BLOCKS, SENDS_DATAGRAMS, MOVES_NEARER)
_FEATURES = {
    frozenset(features): features
    for count in range(len(_ALL_FEATURES) + 1)
    for features in combinations(_ALL_FEATURES, count)
}
# Instead of a map while no room of a session was restored from a checkpoint, as nearly always.
NOT_REWOUND: Mapping[int, float] = {}

SESSION_ID_BYTES = 12
"""Random bytes in a session's id. It cannot be guessed, and knowing it proves nothing."""


def known_features(named: Collection[str]) -> tuple[str, ...]:
    """The features of a client that this server knows."""
    return _FEATURES[frozenset(_ALL_FEATURES).intersection(named)]


def agent_id(name: str) -> PlayerId:
    """The player id of an agent with this name, which may be given as the id; `Invalid` if that cannot be one."""
    if not isinstance(name, str):
        raise TypeError(f"agents are named by text; got {name!r}")
    name = name.removeprefix(AGENT_PREFIX)
    player_id = AGENT_PREFIX + name
    if not name or len(player_id) > PLAYER_CHARS_MAX or not player_id.isprintable():
        most = PLAYER_CHARS_MAX - len(AGENT_PREFIX)
        raise Invalid(f"an agent's name is one line of printable text, 1 to {most} characters; got {name!r}")
    return PlayerId(player_id)


def is_agent(player_id: str) -> bool:
    """Whether this is the id of an agent; no other player has such an id."""
    return player_id.startswith(AGENT_PREFIX)


class SessionState(TableEnum):
    """The states of a session."""

    PRECONNECT = "preconnect"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    ENDED = "ended"


class SessionStep(TableEnum):
    """The events of a session."""

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
    """Features that are on for a session."""

    NONE = 0
    ENCRYPTION = auto()
    COMPRESSION = auto()
    PACKET_LOGGING = auto()
    AWAITING_RESPONSE = auto()


# These belong to the connection: the next one sets its own.
_OF_A_CONNECTION = SessionFlags.ENCRYPTION | SessionFlags.COMPRESSION


def changed_limits(own: RoleLimits | None, changes: Mapping[str, float | None]) -> RoleLimits | None:
    """The limits of one session after a change; None if none are left."""
    for what in ("sessions", "rooms"):
        if f"{what}_per_player_max" in changes:
            raise ValueError(f"{what}_per_player_max counts the {what} of a player: set it for a role")
    # Also those that are undone: an unknown one is a mistake.
    RoleLimits(**dict.fromkeys(changes))
    known = own.values() if own is not None else {}
    left = {name: value for name, value in {**known, **changes}.items() if value is not None}
    return RoleLimits(**left) if left else None


class Session:
    """What the server keeps of one player's presence."""

    __slots__ = (
        *("_past", "account", "address", "beside", "channel", "channels_opened", "closing", "codec", "connection"),
        *("created_at", "data", "drop_reason", "dropped_at", "drops", "end_reason", "ends", "epoch", "expires_at"),
        *("features", "flags", "flood", "grace_s", "id", "inbox", "last_active_at", "last_request", "latency"),
        *("limited", "limits", "lineage", "link_opened_at", "name", "on_disconnect", "own_channel", "own_limits"),
        *("place", "player_id"),
        *("proven_roles", "rates", "replayed", "replies", "requests_announced", "resumes", "rewound", "roles", "seat"),
        *("sends", "sign_outs", "signed_in_at"),
        *("state", "tokens", "wrong_guesses"),
    )

    def __init__(  # noqa: PLR0915 - all but the first two by keyword
        self,
        session_id: SessionId,
        player_id: PlayerId,
        *,
        limits: Limits,
        now: float,
        grace_s: float,
        codec: Codec | None = None,
        roles: frozenset[str] = frozenset(),
        name: str = "",
    ) -> None:
        self.id = session_id
        """Public: it proves nothing."""
        self.player_id = player_id
        """Who it is, as its authenticator has proven."""
        self.name = name
        """The player's display name; empty if they have none."""
        self.roles = self.proven_roles = roles
        """What the session may do: the roles that its authenticator proved, and what operators granted and revoked."""
        self.account = ""
        """The name of the account that its player signed in with; empty without one."""
        self.codec = codec
        """The encoding of its frames; None for an agent."""
        self.flags = SessionFlags.NONE
        """What is on for it now."""
        self.grace_s = grace_s
        """How long it waits for its player after a drop."""
        self.data: Any = None
        """Your own, beside the data of its player in a room."""
        self.created_at = now
        """By the server's clock, in seconds."""
        self.signed_in_at = 0.0
        """The same by the wall clock, which outlives this node; 0 if it is not known."""
        self.last_active_at = now
        """When its client last did something: a message, a request, an acknowledgement."""
        self.wrong_guesses = 0
        self.flood: Flood | None = None
        """The rate limits of its client; None for an agent, and for a client that has been quiet."""
        self.on_disconnect: Callable[[Session], None] | None = None
        """Set it to be called, before anything else, when the connection is lost."""

        self.state = SESSION_TABLE.start
        self.connection: Connection | None = None
        """The one that it has now."""
        self.epoch = 0
        """The number of connections that it has had."""
        self.address = ""
        """The address of its last connection."""
        self.link_opened_at = 0.0
        """When its last connection was opened; 0 if it has had none here."""
        self.dropped_at: float | None = None
        """When it lost its connection; None while it has one."""
        self.sign_outs = 0
        """The number of the last sign-out on the node when it began: a later one of its player ends it."""
        self.expires_at: float | None = None
        self.end_reason: Reason | None = None
        self.tokens = ResumeTokens(limits.retired_tokens_max)
        self.lineage = Lineage(limits.forks_kept_max)
        self.latency = Latency()
        self.drops = 0
        """How often it has lost its connection."""
        self.drop_reason: Reason | None = None
        """Why the server closed its last connection, until the client is heard again: it may not know."""
        self.resumes = 0
        """How often its client has come back."""
        self.replayed = 0
        """Messages that were sent again."""
        self.rewound = NOT_REWOUND
        """By channel, the age of the checkpoint from which its room was restored: the client has seen more of it."""

        self.seat: Seat | None = None
        self.place: Seat | None = None
        """Its place as a spectator: in another room than the seat's."""
        self.channel: Channel | None = None
        """The seat's."""
        self.beside: tuple[Channel, ...] = ()
        """The open channels that are not the seat's: at most one for each other purpose."""
        self.closing: tuple[Channel, ...] = ()
        """Channels of freed seats: each stays until its last message is acknowledged."""
        self.own_channel: Channel | None = None
        """From the server to the session itself, one way; None until the first message. One of `beside` while its
        client hears it."""
        self.channels_opened = 0
        self._past = NO_USAGE
        self.limits = limits
        """The limits of its client: the server's, with what its roles and `limit` have changed."""
        self.own_limits: RoleLimits | None = None
        """What `limit` has changed."""
        self.rates: Rates | None = None
        """Instead of the server's, if it has other limits."""
        self.limited: Callable[[Session], None] | None = None
        """Set by the server: how changed limits are put in force."""
        self.last_request = 0
        self.requests_announced = 0
        self.replies: tuple[Reply, ...] = ()
        """To its last requests, oldest first: a client may repeat them."""
        self.ends: Callable[[Session, Reason, str], None] | None = None
        """Set by the server: how `end` is carried out."""
        self.features: tuple[str, ...] = ()
        """What its client can do beyond the first version of the protocol."""
        self.inbox: Outlet | None = None
        """Where messages to the session itself go; None until the first one."""
        self.sends: Callable[[Session, Message], bool] | None = None
        """Set by the server: how `send` is carried out."""

    @property
    def player(self) -> "Player[Any] | None":
        """The session as its room sees it; None without a seat."""
        return self.seat.player if self.seat is not None else None

    @property
    def room_id(self) -> str:
        """The room that the session has its seat in; empty without one."""
        return self.seat.room.id if self.seat is not None else ""

    @property
    def spectating(self) -> str:
        """The room that the session watches as a spectator; empty if it watches none."""
        return self.place.room.id if self.place is not None else ""

    @property
    def rewound_s(self) -> float | None:
        """The age of the oldest checkpoint from which a room of it was restored; None once the client knows."""
        return max(self.rewound.values(), default=None)

    @property
    def status(self) -> str:
        """ "preconnect", "connected", "disconnected" or "ended"."""
        return self.state.value

    @property
    def latency_ms(self) -> float:
        """The smoothed round-trip time."""
        return self.latency.smoothed_ms

    @property
    def hears(self) -> bool:
        """Whether `send` reaches its client: not one that was made before there were messages to sessions."""
        return HEARS_SESSION in self.features or (self.codec is None and self.inbox is not None)

    def send(self, message: Message) -> bool:
        """Send to the session itself, with or without a seat: exactly once, in order, also if the player drops and
        returns. False if it cannot arrive: the session has ended, or its client does not hear such messages."""
        check_message(message)
        return self.sends is not None and self.sends(self, message)

    def disconnect(self, reason: str = "") -> None:
        """Close the connection; the session lives on and the player may come back."""
        when_it_succeeds(self._disconnect, reason)

    def end(self, reason: str = "") -> None:
        """End the session for good: its seat is freed and its token is dead."""
        when_it_succeeds(self._end, reason)

    def _disconnect(self, reason: str) -> None:
        if self.connection is not None:
            self.connection.close(Reason.DISCONNECTED, reason)

    def _end(self, reason: str) -> None:
        if self.ends is not None:
            self.ends(self, Reason.KICKED, reason)

    def limit(self, /, **limits: float | None) -> None:
        """Change limits of this session alone, at once: `session.limit(messages_per_s=500)`; None undoes a change.

        What can be changed are the fields of `RoleLimits`. They win over those of its roles.
        """
        self.own_limits = changed_limits(self.own_limits, limits)
        if self.limited is not None:
            self.limited(self)

    def renew_grace(self, otherwise_s: float) -> None:
        """How long it outlives its connection: as its seat's room says, else the one it watches, else the server."""
        seat = self.seat or self.place
        self.grace_s = seat.room.grace_s if seat is not None else otherwise_s

    # State. Called by the registry, which keeps its indexes in step.

    def attach(self, connection: Connection, now: float) -> Connection | None:
        """A new connection takes over; returns the old one, which is ignored from now on."""
        self.state = SESSION_TABLE.after(self.state, SessionStep.ATTACHED)
        old, self.connection = self.connection, connection
        if old is not None:
            self._past += Usage(bytes_in=old.bytes_received, bytes_out=old.bytes_sent)
        self.flags &= ~_OF_A_CONNECTION
        if connection.is_encrypted:
            self.flags |= SessionFlags.ENCRYPTION
        if connection.is_compressed:
            self.flags |= SessionFlags.COMPRESSION
        self.epoch += 1
        self.address = connection.address
        self.link_opened_at = connection.opened_at
        self.dropped_at = self.expires_at = None
        self.last_active_at = now
        return old

    def detach(self, now: float) -> None:
        """The connection is gone; the grace begins."""
        self.state = SESSION_TABLE.after(self.state, SessionStep.DETACHED)
        if self.connection is not None:
            self._past += Usage(bytes_in=self.connection.bytes_received, bytes_out=self.connection.bytes_sent)
        self.connection = None
        self.dropped_at = now
        self.expires_at = now + self.grace_s
        self.drops += 1
        # It may wait for long: keep what is needed, and no more.
        for channel in self.channels():
            channel.shrink()
        if self.flood is not None and self.flood.is_rested(now):
            self.flood = None

    def restore_lineage(self, name: str, forks: Iterable[Fork]) -> None:
        """The session has its lineage and its closing channels back from the store."""
        self.lineage.restore(name, forks)
        # A seat knows this of its own channel, as long as there is a seat.
        rewound = {
            channel.number: fork.age_s or 0.0
            for channel in self.closing
            if (fork := self.lineage.left_out(channel.number)) is not None
        }
        self.rewound = rewound or NOT_REWOUND

    def restored(self, now: float) -> None:
        """The session was restored from the store; a new grace begins."""
        self.state = SESSION_TABLE.after(self.state, SessionStep.RESTORED)
        self.dropped_at = now
        self.expires_at = now + self.grace_s

    def forked(self, age_s: float | None) -> None:
        """The session was restored from the store as it is now, and its room from a state of this age."""
        reached = [
            Reached(
                channel.number, channel.generation, None if channel.overflowed else channel.last_seq, channel.applied
            )
            for channel in self.channels()
        ]
        requests = max(self.last_request, self.requests_announced)
        self.lineage.fork(Fork(self.lineage.name, self.channels_opened, requests, reached, age_s))
        if self.rewound:
            self.lineage.leave_out(self.rewound, self.rewound_s)

    def has_expired(self, now: float) -> bool:
        """Whether the grace has passed. A return in between clears or moves the deadline."""
        return self.expires_at is not None and now >= self.expires_at

    def finish(self, event: SessionStep, reason: Reason) -> None:
        self.state = SESSION_TABLE.after(self.state, event)
        self.connection = None
        self.expires_at = None
        self.end_reason = reason

    # Channels

    def open_channel(self, purpose: Purpose = "seat") -> Channel:
        """A new channel; its number is never used again in this session."""
        self.channels_opened += 1
        channel = Channel(self.channels_opened, self.limits, purpose)
        self.restore_channel(channel)
        return channel

    def restore_channel(self, channel: Channel) -> None:
        """The session has this open channel; there is no other with its purpose."""
        if channel.purpose == "seat":
            self.channel = channel
        else:
            self.beside = (*self.beside, channel)

    def channel_for(self, purpose: Purpose) -> Channel | None:
        """The open channel with this purpose."""
        if purpose == "seat":
            return self.channel
        return next((channel for channel in self.beside if channel.purpose == purpose), None)

    def open_own_channel(self) -> Channel:
        """The session's own channel, which lasts as long as the session."""
        if self.own_channel is None:
            self.own_channel = self.open_channel("session")
            self._show_own_channel()
        return self.own_channel

    def restore_own_channel(self, channel: Channel) -> None:
        """The session has its own channel back from the store."""
        self.own_channel = channel
        self._show_own_channel()

    def speaks_with(self, features: tuple[str, ...]) -> None:
        """A client with these features has the session from now on."""
        self.features = features
        self._show_own_channel()

    def _show_own_channel(self) -> None:
        """A client that does not know the channel must not be told of it; the messages wait for one that does."""
        if self.own_channel is not None:
            others = tuple(channel for channel in self.beside if channel is not self.own_channel)
            self.beside = (*others, self.own_channel) if self.hears else others

    def seat_on(self, channel: Channel) -> "Seat | None":
        """The seat or the spectator's place behind an open channel; None for a channel that has none."""
        if channel is self.channel:
            return self.seat
        return self.place if channel.purpose == "spectator" and channel in self.beside else None

    def was_opened(self, number: int) -> bool:
        """Whether there is or was a channel with this number."""
        return 1 <= number <= self.channels_opened

    def close_channel(self, purpose: Purpose = "seat") -> Channel | None:
        """What a channel was for is over: the channel stays until its last message is acknowledged."""
        channel = self.channel_for(purpose)
        if channel is None:
            return None
        if purpose == "seat":
            self.channel = None
        else:
            self.beside = tuple(each for each in self.beside if each is not channel)
        if channel.number in self.rewound:
            # The client has other numbers and is not told: it must not take these messages for those it missed.
            channel.give_up()
        self.closing = (*self.closing, channel)
        while len(self.closing) > self.limits.closing_channels_max:
            self.channel_over(self.closing[0])
        return channel

    def channel_over(self, channel: Channel) -> None:
        """The last message of a closing channel was acknowledged, or nobody waits for it."""
        if channel in self.closing:
            self._past += Usage(channel.accepted, channel.last_seq)
            self.closing = tuple(each for each in self.closing if each is not channel)

    def resync(self, channel: Channel) -> None:
        """Begin the channel's outward stream anew: its messages could not be kept."""
        self._past += Usage(messages_out=channel.last_seq)
        channel.resync()

    def channels(self) -> Iterator[Channel]:
        """The channels with messages to send: those that are closing, oldest first, then the open ones."""
        yield from self.closing
        yield from self.beside
        if self.channel is not None:
            yield self.channel

    def channel_numbered(self, number: int) -> Channel | None:
        """The channel with this number, or None if it is over."""
        if self.channel is not None and self.channel.number == number:
            return self.channel
        return next((channel for channel in self.channels() if channel.number == number), None)

    @property
    def usage(self) -> Usage:
        """What was exchanged with the client on this server."""
        usage = self._past
        for channel in self.channels():
            usage += Usage(channel.accepted, channel.last_seq)
        if self.connection is not None:
            usage += Usage(bytes_in=self.connection.bytes_received, bytes_out=self.connection.bytes_sent)
        return usage

    # Requests

    def reply_to(self, request_id: int) -> Reply | None:
        return next((reply for reply in self.replies if reply.id == request_id), None)

    def replied(self, reply: Reply) -> None:
        """Keep a reply, in case its request is repeated; the oldest ones are forgotten."""
        replies = (*self.replies, reply)
        self.replies = replies[max(0, len(replies) - self.limits.replies_kept_max) :]

    def __repr__(self) -> str:
        return f"<Session {self.id} of {self.player_id} {self.status} epoch {self.epoch}>"


class SeatState(TableEnum):
    """The states of a seat. Reserved, taken and held ones count against `max_players`."""

    RESERVED = "reserved"
    TAKEN = "taken"
    HELD = "held"
    FREED = "freed"
    EXPIRED = "expired"


class SeatStep(TableEnum):
    """The events of a seat."""

    TAKEN = "taken"
    DROPPED = "dropped"
    RETURNED = "returned"
    FREED = "freed"
    EXPIRED = "expired"


SEAT_TABLE = Table(
    "seat",
    SeatState.RESERVED,
    {
        SeatState.RESERVED: {
            SeatStep.TAKEN: SeatState.TAKEN,
            SeatStep.FREED: SeatState.FREED,
            SeatStep.EXPIRED: SeatState.EXPIRED,
        },
        SeatState.TAKEN: {SeatStep.DROPPED: SeatState.HELD, SeatStep.FREED: SeatState.FREED},
        SeatState.HELD: {SeatStep.RETURNED: SeatState.TAKEN, SeatStep.FREED: SeatState.FREED},
        SeatState.FREED: {},
        SeatState.EXPIRED: {},
    },
)


# Instead of a set while a player owns nothing: an empty set takes 216 bytes.
_NOTHING: frozenset[str] = frozenset()


class SeatDelivery(Protocol):
    """The way into a room for the messages of its players, or of its spectators."""

    def deliver(self, seat: "Seat", frame: Data) -> None:
        """Give the room the next message."""

    def refuse(self, seat: "Seat", frame: Data) -> None:
        """The next message exceeds the client's rate: answer that, in its place in the order."""

    def deliver_latest(self, seat: "Seat", frame: Latest) -> None:
        """Give the room an unreliable message, if it is free to take one."""


class RoomHandle(Protocol):
    """A room as sessions and connections see it: which one it is, and what can be done with a seat of it.

    It is the runner of the room; for the places of spectators, that which looks after them.
    """

    @property
    def id(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def is_saved(self) -> bool:
        """Whether the room outlives this process."""

    @property
    def grace_s(self) -> float:
        """How long it keeps a seat for a player who dropped."""

    @property
    def delivery(self) -> SeatDelivery:
        """Where messages go."""

    def keep(self, session: Session) -> None:
        """Save the session together with the room, if that is saved."""

    def has_read(self, seat: "Seat") -> None:
        """The client has acknowledged something: messages of its own may have waited for that."""

    def dropped(self, seat: "Seat") -> None:
        """The session has lost its connection."""

    def returned(self, seat: "Seat", is_resynced: bool) -> None:
        """The session has a connection again; with True, its stream begins anew."""

    def switches(self, seat: "Seat", switch: Literal["expected", "came", "missed"]) -> None:
        """The session's connection changes to another node."""

    def leave(self, seat: "Seat") -> None:
        """Free the seat once the messages before are applied."""

    def free(self, seat: "Seat", reason: Reason, message: str = "") -> None:
        """Free the seat now; the text is what the player is told."""

    def later(self, act: Callable[..., Any], *args: Any) -> None:
        """Call something when the room's present turn has succeeded; now if it cannot be undone."""


class Seat:
    """One seat of a room: the engine's half of a player. The same object for as long as the seat is theirs."""

    __slots__ = (
        *("agent", "is_joining", "is_switching", "member", "number", "options", "outlet", "owned", "player_id", "room"),
        *("session", "shown_name", "state", "was_reserved"),
    )

    purpose: ClassVar[Purpose] = "seat"
    outlet: Outlet
    """Set when the seat is taken."""

    def __init__(
        self, session: Session, data: PlayerData | None, room: RoomHandle, number: int = 0, *, agent: str = ""
    ) -> None:
        """Without data it is a spectator's (`SpectatorSeat`)."""
        self.agent = agent
        """The name of the agent that the room itself has opened here; empty for everybody else."""
        self.session = session
        self.player_id: PlayerId = session.player_id
        self.room = room
        self.state = SEAT_TABLE.start
        self.number = number
        """The number of the seat in its room; 0 until the room assigns one."""
        self.options: Any = None
        """What the player joined with, as the room declares it."""
        self.shown_name = ""
        """What the player is called in the room; empty while nobody in it has chosen a name."""
        self.is_joining = False
        """Whether the seat is taken and `on_join` waits for its turn."""
        self.is_switching = False
        """Whether the seat is held only while its connection changes to another node: the room hears of no drop."""
        self.was_reserved = False
        """Whether a player who joins came with a reservation."""
        self.owned: AbstractSet[str] = _NOTHING
        self.member: Player[Any] | Spectator = Player(self, data) if data is not None else Spectator(self)
        """What the game sees of it."""

    @property
    def player(self) -> "Player[Any]":
        assert isinstance(self.member, Player)
        return self.member

    @property
    def spectator(self) -> "Spectator":
        assert isinstance(self.member, Spectator)
        return self.member

    @property
    def name(self) -> str:
        """The name that the player has in the room; empty if they have none."""
        name = self.shown_name or self.session.name
        return name if name != self.player_id else ""

    @property
    def is_connected(self) -> bool:
        """Whether the player is connected, as far as the room has heard."""
        return self.state is SeatState.TAKEN or (self.state is SeatState.HELD and self.is_switching)

    def happened(self, event: SeatStep) -> None:
        self.state = SEAT_TABLE.after(self.state, event)

    def part(self) -> None:
        """The seat is freed, and the room has said all about it: a player whom the game keeps has a copy of it.

        Seat and player know each other; such a cycle would stay until garbage is collected.
        """
        former = copy(self)
        del former.member
        self.member._holdfast_seat = former  # noqa: SLF001 - as in `seat_of`

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.player_id} {self.state.value}>"


class SpectatorSeat(Seat):
    """A spectator's place: like a seat, but it counts in nothing that seats count in."""

    __slots__ = ()

    purpose: ClassVar[Purpose] = "spectator"


class Member:
    """What `Player` and `Spectator` have in common."""

    def __init__(self, seat: Seat) -> None:
        """Called by the server."""
        # The only attribute that is not the game's.
        self._holdfast_seat = seat
        self.id: PlayerId = seat.player_id

    @property
    def name(self) -> str:
        """What to call the player: their display name, told apart from those of others here, or else their id."""
        seat = self._holdfast_seat
        return seat.shown_name or seat.session.name or seat.player_id

    @property
    def session(self) -> Session:
        """The player's session."""
        return self._holdfast_seat.session

    @property
    def connected(self) -> bool:
        """Whether the player is connected: False from `on_drop` to `on_rejoin`, and after a crash until `on_rejoin`."""
        return self._holdfast_seat.is_connected

    @property
    def roles(self) -> frozenset[str]:
        """The player's roles: proven at sign-in, granted and revoked by operators since."""
        return self._holdfast_seat.session.roles

    @property
    def latency_ms(self) -> float:
        """The smoothed round-trip time."""
        return self._holdfast_seat.session.latency.smoothed_ms

    def send(self, message: Message) -> None:
        """Send reliably: exactly once, in order, also if the player drops and returns."""
        check_message(message)
        self._holdfast_seat.outlet.send(message)

    def send_latest(self, message: Message, key: str = "") -> None:
        """Send unreliably: never repeated; a newer message with the same type and key replaces it."""
        check_message(message)
        self._holdfast_seat.outlet.send_latest(message, key)

    def kick(self, reason: str = "") -> None:
        """Remove the player from the room; `reason` is the sentence they are told."""
        seat = self._holdfast_seat
        seat.room.later(seat.room.free, seat, Reason.KICKED, reason)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self._holdfast_seat.state.value}>"


class Player(Member, Generic[D]):
    """A player in a room. The same object for as long as the seat is theirs; your own attributes on it are yours."""

    def __init__(self, seat: Seat, data: D) -> None:
        """Called by the server."""
        super().__init__(seat)
        self.data = data
        """What the player keeps across a drop."""

    @property
    def options(self) -> Any:
        """What the player joined with: of the type that the room declares in `join_options`; None if it has none."""
        return self._holdfast_seat.options

    @property
    def is_agent(self) -> bool:
        """Whether code plays, in the server's process: see `Room.open_agent`."""
        return is_agent(self.id)

    @property
    def owned(self) -> AbstractSet[str]:
        """The ids of the objects that the player owns now; ask again after `Room.own`."""
        return self._holdfast_seat.owned


class Spectator(Member):
    """A player who watches a room without a seat. The same object until they go; attributes that you add are yours."""


def seat_of(member: Member) -> Seat:
    """The engine's half of a player or spectator."""
    return member._holdfast_seat  # noqa: SLF001 - the one way from the game's half to the engine's
