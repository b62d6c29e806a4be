"""What an operator sees of a running node beside the directory: its numbers, its settings, its kinds of rooms, and what
is inside a room."""

from typing import Any

from msgspec import Struct

from holdfast.schemas.infos import NodeInfo


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


class PlayerState(Struct, frozen=True):
    """What a room knows of one of its players."""

    id: str
    seat: str
    data: Any
    owned: list[str]


class RoomState(Struct, frozen=True):
    """What is inside a room now; values that are no data are shown as text."""

    room: str
    state: Any
    """What would be saved of it: its `snapshot()`."""
    attributes: dict[str, Any]
    """What the game keeps on the room itself."""
    players: list[PlayerState]


class BroadcastInfo(Struct, frozen=True):
    """How many players a message was sent to."""

    players: int
