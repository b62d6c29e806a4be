"""What the client's protocol tells: one class for each thing that can happen to a session."""

from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from holdfast.schemas.frames import Outcome, RequestProblem


@dataclass(frozen=True, slots=True)
class Welcomed:
    """The session is attached to this connection; its channels and requests have been brought up to date before."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Replied:
    """A request was answered."""

    id: int
    result: Any
    problem: RequestProblem | None


@dataclass(frozen=True, slots=True)
class ChannelOpened:
    """A channel began: the session has a seat."""

    channel: int
    room: str
    kind: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """The next reliable message of a channel; call `processed` when it has been dealt with."""

    session: str
    channel: int
    generation: int
    seq: int
    name: str
    body: Raw


@dataclass(frozen=True, slots=True)
class LatestArrived:
    """An unreliable message."""

    channel: int
    name: str
    body: Raw


@dataclass(frozen=True, slots=True)
class Restarted:
    """Messages of a channel could not be kept; its stream restarts with the current state."""

    channel: int
    generation: int


@dataclass(frozen=True, slots=True)
class ChannelGone:
    """There will be nothing more on this channel, and its last message did not reach us."""

    channel: int
    reason: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The server said why it closes this connection."""

    code: int
    reason: str
    message: str = ""
    retry_after_s: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Noticed:
    """A notice outside rooms: of a watch, a place in a waitlist, a placement."""

    topic: str
    key: str
    body: Any


SeatEvent = ChannelOpened | Arrived | LatestArrived | Restarted | ChannelGone
Event = Welcomed | Replied | Noticed | SeatEvent | Closed
