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


class SpreadInfo(Struct, frozen=True):
    """How values are spread since the start. The difference of two looks is what happened in between."""

    bounds: list[float]
    """The upper ends of the buckets, in seconds."""
    counts: list[int]
    """How many values were at most as large as each bound; the last number is of all of them."""
    sum: float


class LimitHit(Struct, frozen=True):
    """A limit that was reached, and what was done about it."""

    limit: str
    action: str
    times: int


class OverviewInfo(Struct, frozen=True):
    """A node at a glance. Totals and spreads only grow while it lives."""

    at: float
    node: NodeInfo
    players: int
    """Different players with a session."""
    sessions: dict[str, int]
    """By status."""
    rooms: dict[str, int]
    """By kind."""
    totals: dict[str, int]
    """Everything that is counted, by name: messages_applied, frames_sent, resumed, …"""
    drops: dict[str, int]
    """By reason."""
    spreads: dict[str, SpreadInfo]
    """round_trip, commit, turn and loop_lag, in seconds."""
    limits: list[LimitHit]


class LimitInfo(Struct, frozen=True):
    """A limit as it is in force."""

    name: str
    value: float | str
    default: float | str


class SettingsInfo(Struct, frozen=True):
    """How a node was set up. No secrets are among this."""

    version: str
    started_at: float
    urls: dict[str, str]
    """Where clients connect, by transport."""
    origins: list[str]
    """The sites whose pages may connect; empty: all."""
    auth: list[str]
    """The ways to sign in."""
    store: str
    """What outlives the node: memory, sqlite, or empty."""
    grace_s: float
    too_many_sessions: str
    limits: list[LimitInfo]


class MessageKind(Struct, frozen=True):
    """A message that a room understands."""

    type: str
    role: str
    """Who may send it: players with this role; empty: everybody."""
    schema: dict[str, Any]
    """Its body, as JSON Schema."""


class KindInfo(Struct, frozen=True):
    """A kind of rooms: its settings, and what players may say in it."""

    kind: str
    settings: dict[str, Any]
    messages: list[MessageKind]


class KindList(Struct, frozen=True):
    """The kinds of rooms that there can be."""

    kinds: list[KindInfo]


class PacketTarget(Struct, frozen=True, omit_defaults=True):
    """Whose packets are logged: a session, or an address or a range of them."""

    target: str
    kind: str
    """session or address."""
    ends_in_s: float
    """When that ends by itself."""


class EventInfo(Struct, frozen=True, omit_defaults=True):
    """Something that happened on a node. Ids grow by one; a reader goes on after the last that it has seen."""

    id: int
    type: str
    at: float
    body: dict[str, Any]
