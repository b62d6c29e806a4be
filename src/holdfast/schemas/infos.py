"""What the directory shows, as data: rooms, seats, sessions, players and placements, as their readers get them."""

from typing import Any

from msgspec import Struct

from holdfast.schemas.frames import hidden_from_rich


class RoomInfo(Struct, frozen=True, omit_defaults=True):
    """A room as the directory shows it. Times are seconds since 1970."""

    id: str
    kind: str
    players: int
    """Seats that are reserved, taken or held."""
    max_players: int
    phase: str
    properties: dict[str, Any]
    name: str = ""
    status: str = "active"
    """creating, active, ending, ended or failed."""
    reason: str = ""
    """Why it ended or failed."""
    open_seats: int = 0
    """How many newcomers could join now; 0 while it takes nobody."""
    visibility: str = "public"
    join_policy: str = "accept_all"
    is_locked: bool = False
    has_password: bool = False
    code: str = ""
    """For who knows it already: the members, the creator and operators. Empty for others."""
    creator: str = ""
    host: str = ""
    """The player who is the host, if the room has one."""
    created_at: float = 0.0
    version: int = 0
    """Grows with every change of the entry: what `if_version` compares."""


class RoomPage(Struct, frozen=True, omit_defaults=True):
    """One page of a search; the cursor gets the next one, and is empty after the last."""

    rooms: list[RoomInfo]
    cursor: str = ""


class ReservationInfo(Struct, frozen=True, omit_defaults=True):
    """Seats that are kept for players who have not come yet."""

    room: str
    players: list[str]
    expires_in_s: float


class WaitInfo(Struct, frozen=True, omit_defaults=True):
    """A place in a room's line: 1 is next; 0 with `expires_in_s` means that a seat is reserved: join now."""

    room: str
    position: int
    expires_in_s: float = 0.0


class SeatInfo(Struct, frozen=True, omit_defaults=True):
    """One seat of a room."""

    player: str
    state: str
    """reserved, taken or held."""
    session: str = ""
    latency_ms: float = 0.0
    expires_in_s: float = 0.0
    """Of a reserved or held seat: when it is freed unless its player comes."""
    is_host: bool = False


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


class PlayerInfo(Struct, frozen=True, omit_defaults=True):
    """Somebody who is here: with a session, a seat, or a seat that is reserved for them."""

    id: str
    sessions: list[str]
    rooms: list[str]


class PlayerPage(Struct, frozen=True, omit_defaults=True):
    """One page of the players, by id; the cursor gets the next one, and is empty after the last."""

    players: list[PlayerInfo]
    cursor: str = ""


class PlacementInfo(Struct, frozen=True, omit_defaults=True):
    """A placement: pending until it is fulfilled, cancelled, timed_out or failed."""

    id: str
    queue: str
    status: str
    players: list[str]
    reason: str = ""
    node: str = ""
    room: RoomInfo | None = None
    started_at: float = 0.0
    ended_at: float = 0.0


class QueueInfo(Struct, frozen=True, omit_defaults=True):
    """A queue of placements: where it may place, and how long it tries."""

    name: str
    destinations: list[str]
    timeout_s: float
    pending: int = 0


class NodeInfo(Struct, frozen=True, omit_defaults=True):
    """One node of the fleet."""

    name: str
    region: str
    is_ready: bool
    is_healthy: bool
    rooms: int
    rooms_max: int
    sessions: int
    reasons: list[str] = []
    """Why it is not ready or not healthy."""


class PacketTarget(Struct, frozen=True, omit_defaults=True):
    """Whose packets are logged: a session, or an address or a range of them."""

    target: str
    kind: str
    """session or address."""
    ends_in_s: float
    """When that ends by itself."""


class BanInfo(Struct, frozen=True, omit_defaults=True):
    """Somebody who is not welcome: "player:ann" or "address:203.0.113.0/24". `until` of 0 is for good."""

    subject: str
    why: str = ""
    until: float = 0.0
    since: float = 0.0


class BanPage(Struct, frozen=True, omit_defaults=True):
    """One page of the bans, by subject; the cursor gets the next one, and is empty after the last."""

    bans: list[BanInfo]
    cursor: str = ""


class AccountInfo(Struct, frozen=True, omit_defaults=True):
    """An account with a name and a password."""

    name: str
    """As it is compared: letters in lower case."""
    player: str = ""
    """Who signs in with it; empty until it is first used."""
    roles: list[str] = []
    created_at: float = 0.0


class TicketInfo(Struct, frozen=True, omit_defaults=True):
    """A ticket, to be handed to its player: whoever has it signs in with it, once."""

    ticket: str
    player: str
    expires_at: float

    def __repr__(self) -> str:
        return f"TicketInfo(ticket=***, player={self.player!r}, expires_at={self.expires_at!r})"

    __rich_repr__ = hidden_from_rich


class LinkInfo(Struct, frozen=True, omit_defaults=True):
    """A guest who has an account from now on."""

    player: str
    """The same as before."""
    roles: list[str] = []
    token: str = ""
    """What the next resume will need, a secret; empty if a welcome has brought a newer one. Store it, then confirm."""

    def __repr__(self) -> str:
        return f"LinkInfo(player={self.player!r}, roles={self.roles!r}, token=***)"

    __rich_repr__ = hidden_from_rich


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


class EventInfo(Struct, frozen=True, omit_defaults=True):
    """Something that happened on a node. Ids grow by one; a reader goes on after the last that it has seen."""

    id: int
    type: str
    at: float
    body: dict[str, Any]
