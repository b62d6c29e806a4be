"""Sessions as data: `SessionSchema` has everything, `SessionInfo` what is shown, `SessionRecord` what is saved."""

from collections.abc import Collection
from typing import Any

from msgspec import Struct, structs

from holdfast.schemas.frames import Position, Resume


class SessionInfo(Struct, frozen=True, omit_defaults=True):
    """One session of a player. Tokens are never shown."""

    id: str
    player: str
    status: str
    """preconnect, connected, disconnected or ended."""
    name: str = ""
    """The player's display name, if they have one."""
    room: str = ""
    transport: str = ""
    latency_ms: float = 0.0
    age_s: float = 0.0
    idle_s: float = 0.0
    drops: int = 0
    resumes: int = 0
    expires_in_s: float = 0.0
    """For a disconnected session: when its grace ends."""
    flags: list[str] = []
    """encryption, compression: of its present or last connection. awaiting_response: a ping is unanswered."""
    account: str = ""
    """The name of the account that the player signed in with; empty for guests, tickets and tokens."""
    roles: list[str] = []
    address: str = ""
    """Of its present or last connection."""
    connection: str = ""
    """The id of its connection; empty while it has none."""
    connection_state: str = ""
    """connected, or in_game with a seat; empty without a connection."""
    connected_s: float = 0.0
    """How long it has had this connection."""
    codec: str = ""
    """The encoding of its frames, as in holdfast.v1.msgpack; empty for an agent."""
    signed_in_at: float = 0.0
    """In seconds since 1970; 0 if it is unknown."""
    messages_in: int = 0
    """Reliable messages from the client; those of agents are not counted."""
    messages_out: int = 0
    """Reliable messages to the client, answers and notices of the server included."""
    bytes_in: int = 0
    """Bytes of payloads from the client on this server, without the overhead of TLS, WebSocket and TCP."""
    bytes_out: int = 0
    """The same to the client."""
    limits: dict[str, float] = {}
    """Limits that differ from the server's, because of a role or for this session."""
    is_agent: bool = False
    spectating: str = ""
    """The room that it watches as a spectator."""
    node: str = ""
    """The node of a cluster that has it."""


class SessionPage(Struct, frozen=True, omit_defaults=True):
    """One page of the sessions, by id; the cursor fetches the next page, and is empty on the last."""

    sessions: list[SessionInfo]
    cursor: str = ""
    missing: list[str] = []
    """The nodes of the cluster that did not answer: their sessions are not listed."""


class TimelineEntry(Struct, frozen=True, omit_defaults=True):
    """An event of a session, and what it means."""

    at: float
    type: str
    text: str
    body: dict[str, Any]
    node: str = ""
    """The node of a cluster on which it happened."""


class TimelineInfo(Struct, frozen=True, omit_defaults=True):
    """What happened to a session, oldest first, and a summary in plain words."""

    session: str
    player: str
    status: str
    """connected, disconnected or ended; released if it is in the store or on another server."""
    explanation: str
    """A few sentences. Times in it are UTC."""
    entries: list[TimelineEntry]
    advice: str = ""
    """What can be done about it."""
    reason: str = ""
    """Why it ended or dropped last; empty if it did neither."""
    forgotten: int = 0
    """The number of earlier entries that are no longer kept."""
    name: str = ""
    """The player's display name, if they have one."""
    node: str = ""
    """The node of a cluster that has the session."""
    missing: list[str] = []
    """The nodes that did not answer: what happened there is not shown."""


class Reached(Struct, array_like=True, frozen=True, gc=False):
    """The position of a channel when its history forked."""

    number: int
    generation: int
    last_seq: int | None
    """None if its stream had overflowed: it restarts in any case."""
    applied: int


class Fork(Struct, array_like=True, frozen=True):
    """Where a lineage ended: what its client may know of our history."""

    lineage: str
    channels_opened: int
    requests: int
    channels: list[Reached]
    """Not those whose room returned from a checkpoint: that a client knows more of them is normal."""
    age_s: float | None = None
    """How old the room's state was at the recovery; None without a room."""

    def includes(self, resume: Resume) -> bool:
        """Whether a client with these positions knows nothing from beyond the fork."""
        if resume.requests > self.requests:
            return False
        return all(self._reaches(position) for position in resume.positions)

    def without(self, channels: Collection[int], age_s: float | None) -> "Fork":
        """The same without some channels, whose room returned from a checkpoint of this age."""
        kept = [each for each in self.channels if each.number not in channels]
        return structs.replace(self, channels=kept, age_s=age_s) if len(kept) < len(self.channels) else self

    def leaves_out(self, channel: int) -> bool:
        """Whether the room of a channel, which is still there, returned from a checkpoint when the history forked."""
        return channel <= self.channels_opened and all(each.number != channel for each in self.channels)

    def _reaches(self, position: Position) -> bool:
        if position.channel > self.channels_opened:
            return False
        reached = next((each for each in self.channels if each.number == position.channel), None)
        if reached is None:
            # It had ended before, or its room returned from a checkpoint.
            return True
        if position.acked > reached.applied:
            return False
        if position.generation != reached.generation or reached.last_seq is None:
            return position.generation <= reached.generation
        return max(position.received or 0, position.accepted) <= reached.last_seq


class ChannelRecord(Struct, array_like=True, frozen=True, gc=False):
    """Both streams of a channel: how far the client's messages were applied, and the unacknowledged ones to it."""

    number: int
    generation: int
    applied: int
    last_seq: int
    kept: list[tuple[str, bytes]]
    is_finished: bool = False
    is_overflowed: bool = False


class SendRecord(Struct, array_like=True, frozen=True):
    """Messages to a session from a turn that is saved, until they are in the session's own record."""

    session: str
    messages: list[tuple[str, bytes]]


class SessionRecord(Struct, array_like=True, frozen=True):
    """A session with a present or former seat in a durable room. Tokens are saved as hashes only."""

    player: str
    codec: str
    proven_roles: list[str]
    """Those of its authenticator: what operators granted and revoked is saved for the player."""
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
    """The number of the last sign-out before it began: a later one of its player has ended it."""
    signed_in_at: float = 0.0
    """When it began, on the wall clock; 0 if unknown."""
    address: str = ""
    """The address of its last connection; empty if unknown."""
    lineage: str = ""
    """The lineage that its client last received, and where it and older ones were forked."""
    forks: list[Fork] = []
    account: str = ""
    """The name of the account that its player signed in with."""
    name: str = ""
    """The player's display name."""
    inbox: ChannelRecord | None = None
    """The session's own channel; None if nothing was sent on it."""
    features: list[str] = []
    """What its last client could do."""
    own_limits: dict[str, float] = {}
    """Limits that were changed for this session alone."""
    spectating: str = ""
    """The durable room that it watches."""


class NameInfo(Struct, frozen=True):
    """A display name as the server has accepted it."""

    name: str


class SessionSchema(SessionInfo, frozen=True, kw_only=True):
    """Everything that is known of a session: what is shown, and what is private. It is never sent."""

    proven_roles: list[str]
    own_limits: dict[str, float]
    sign_outs: int
    epoch: int
    channels_opened: int
    token: bytes
    next_token: bytes
    retired_tokens: list[bytes]
    last_request: int
    requests_announced: int
    replies: list[tuple[int, bytes | None, tuple[str, str] | None]]
    lineage: str
    forks: list[Fork]
    features: list[str]


class StandingRecord(Struct, array_like=True, frozen=True):
    """A player's last sign-out; that of the player "" applies to everybody."""

    player: str
    sign_out: int
    """Sign-outs are numbered: sessions that began before this one have ended."""
    not_before: float
    """On the wall clock: credentials issued before are invalid."""


class NodeAddress(Struct, frozen=True):
    """A notice: the session is on a node with an address of its own, and the client is connected to another one."""

    address: str


class Stopping(Struct, frozen=True):
    """A notice: the server stops within so many seconds."""

    deadline_s: float
