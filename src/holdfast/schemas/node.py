"""A node as data: its health, its numbers, its settings, its kinds of rooms and its events."""

from typing import Any

from msgspec import Struct


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


class MemberInfo(Struct, frozen=True, omit_defaults=True):
    """A node of a cluster, as the node that answers sees it; without a cluster, the only one."""

    name: str
    life: str
    """This run of its process; a restart is another life."""
    state: str
    """alive, suspect (it is silent: others ask whether it lives), dead, or left (it has ended in order)."""
    is_self: bool = False
    """Whether it is the node that answers."""
    version: str = ""
    """Of Holdfast."""
    region: str = ""
    started_at: float = 0.0
    heard_s: float = 0.0
    """How long ago it was last heard."""
    is_draining: bool = False
    """It takes nothing new, and hands over what can go on elsewhere."""
    is_drained: bool = False
    """It has handed over everything that can go on elsewhere: it may be stopped."""
    load: float = 0.0
    """How busy it is, from 0 to 1."""
    rooms: int = 0
    rooms_max: int = 0
    sessions: int = 0
    """Connected, or held."""
    connections: int = 0
    """To clients, also those that it relays to other nodes."""
    kinds: list[str] = []
    """The kinds of rooms that it can host."""
    loop_age_s: float = 0.0
    """How long its event loop was blocked when it was last heard."""
    reasons: list[str] = []
    """Why it is not ready or not healthy."""
    address: str = ""
    """Where clients reach this node and no other, if they can (`--advertise`)."""


class NodeList(Struct, frozen=True):
    """The nodes of a cluster, also those that died or ended within the last minute."""

    nodes: list[MemberInfo]
    cluster: str = ""
    """Where the nodes meet; empty if this server is not a node of a cluster."""


class RoomPlace(Struct, frozen=True):
    """Where a room is now."""

    room: str
    node: str


class NodeBroadcastInfo(Struct, frozen=True):
    """How many sessions a message was sent to."""

    sessions: int
    missing: list[str] = []
    """The nodes that did not say so in time: their sessions may have got it."""


class SpreadInfo(Struct, frozen=True):
    """The distribution of values since the start. The difference of two readings covers the time between them."""

    bounds: list[float]
    """The upper bounds of the buckets, in seconds."""
    counts: list[int]
    """How many values were at most as large as each bound; the last number counts all of them."""
    sum: float


class LimitHit(Struct, frozen=True):
    """A limit that was reached, and the action taken."""

    limit: str
    action: str
    times: int


class NodeNumbers(Struct, frozen=True):
    """The most important numbers of one node of a cluster."""

    at: float
    """When the node counted: up to a second ago."""
    name: str
    life: str
    is_ready: bool
    is_healthy: bool
    reasons: list[str]
    """Why it is not ready or not healthy."""
    players: int
    sessions: dict[str, int]
    """By status."""
    rooms: int
    totals: dict[str, int]
    """messages_applied, frames_received, frames_sent, drops, resumed, resynced and reset."""


class OverviewInfo(Struct, frozen=True):
    """An overview of a node, or of all nodes of a cluster together. Totals and distributions only grow while a node
    runs."""

    at: float
    node: NodeInfo
    """The node that answers."""
    players: int
    """Different players with a session; on several nodes they count on each."""
    sessions: dict[str, int]
    """By status."""
    rooms: dict[str, int]
    """By kind."""
    totals: dict[str, int]
    """All counters, by name: messages_applied, frames_sent, resumed, …"""
    drops: dict[str, int]
    """By reason."""
    spreads: dict[str, SpreadInfo]
    """round_trip, commit, turn and loop_lag, in seconds."""
    limits: list[LimitHit]
    nodes: list[NodeNumbers] = []
    """The nodes whose numbers are in this; in a cluster."""
    missing: list[str] = []
    """The nodes that did not answer in time."""


class LimitInfo(Struct, frozen=True):
    """The value of a limit, and its default."""

    name: str
    value: float | str
    default: float | str


class SettingsInfo(Struct, frozen=True):
    """The settings of a node, without secrets."""

    version: str
    started_at: float
    urls: dict[str, str]
    """Where clients connect, by transport."""
    origins: list[str]
    """The sites whose pages may connect; empty: all."""
    auth: list[str]
    """The ways to sign in."""
    store: str
    """The store: memory, sqlite, or empty."""
    grace_s: float
    too_many_sessions: str
    limits: list[LimitInfo]


class MessageKind(Struct, frozen=True):
    """A message that a room handles."""

    type: str
    role: str
    """The role that a sender needs; empty: none."""
    schema: dict[str, Any]
    """Its body, as JSON Schema."""


class KindInfo(Struct, frozen=True):
    """A kind of rooms: its settings, and the messages that players may send."""

    kind: str
    settings: dict[str, Any]
    messages: list[MessageKind]
    options: dict[str, Any] | None = None
    """The JSON Schema of what a player joins with; null if the room asks for nothing."""


class KindList(Struct, frozen=True):
    """The kinds of rooms that can be created."""

    kinds: list[KindInfo]


class PacketTarget(Struct, frozen=True, omit_defaults=True):
    """A target of the packet log: a session, or an address or a range of them."""

    target: str
    kind: str
    """session or address."""
    ends_in_s: float
    """When it ends."""


class EventInfo(Struct, frozen=True, omit_defaults=True):
    """An event of a node. Its ids grow by one; a reader continues after the last one it has seen."""

    id: int
    type: str
    at: float
    body: dict[str, Any]
    node: str = ""
    """The node of the cluster on which it happened."""
    position: str = ""
    """In a cluster, what a reader of all nodes continues after: the ids of all."""
