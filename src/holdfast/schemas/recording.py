"""A recording of a room as data: its turns, each with its cause and what it changed, and what operators see of them.

The records are arrays: new fields come last. Values of the game's are MessagePack inside (`bytes`).
"""

from typing import Any, Literal

from msgspec import Raw, Struct

CauseKind = Literal["message", "ask", "latest", "hook", "timer", "tick", "result", "engine"]
"""message, ask and latest: a player's, reliable or not. result: of `spawn`. engine: the server's own."""

RecordingFormat = Literal["holdfast-recording"]
RECORDING_FORMAT: RecordingFormat = "holdfast-recording"
RECORDING_VERSION = 1


class CauseRecord(Struct, array_like=True, frozen=True):
    """Why a turn was taken."""

    kind: CauseKind
    name: str = ""
    """Of the message, the hook or the method."""
    player: str = ""
    """Whose message it was, or whom the hook is about."""
    body: bytes = b""
    """MessagePack: the message's body, or the arguments of a call as a list; empty if there is nothing to say."""


class SentRecord(Struct, array_like=True, frozen=True):
    """A message that a turn sent."""

    name: str
    players: list[str]
    """Everybody whom it was sent to, spectators too."""
    size: int
    body: bytes = b""
    """MessagePack; empty if it is longer than `recorded_body_bytes_max`."""
    is_latest: bool = False
    """Whether it was sent unreliably."""


class TurnRecord(Struct, array_like=True, frozen=True):
    """One turn of a room."""

    number: int
    at: float
    """The time of the room's clock when it began."""
    took_s: float
    cause: CauseRecord
    patch: Raw
    """The node that leads from the state before the turn to the one after it; null if nothing has changed."""
    error_code: str = ""
    """Of a turn that was refused or failed."""
    error: str = ""
    sent: list[SentRecord] = []


class BlockRecord(Struct, array_like=True, frozen=True):
    """Some turns in a row, and the state before the first of them."""

    keyframe: Raw
    turns: list[TurnRecord]


class RecordingHead(Struct, array_like=True, frozen=True):
    """What a recording is of."""

    room: str
    kind: str
    clock: float
    """The room's clock when the recording began."""
    wall_clock: float
    """The time of day then, in seconds since 1970."""
    version: str
    """Of Holdfast."""
    created_at: float = 0.0
    """When the room was created."""


class StoredBlock(Struct, array_like=True, frozen=True):
    """A block as it is kept: a `BlockRecord` as MessagePack, deflated."""

    first: int
    """The number of its first turn."""
    count: int
    until: float
    """When its last turn began."""
    size: int
    """Before it was deflated."""
    data: bytes


class RecordingFile(Struct, array_like=True, frozen=True):
    """The contents of a file."""

    format: RecordingFormat
    version: int
    head: RecordingHead
    blocks: list[StoredBlock]
    stopped: str = ""
    """Why the recording ended before the room did."""


class RecordingInfo(Struct, frozen=True):
    """What is kept of a room's recording."""

    room: str
    kind: str
    first: int
    """The number of the oldest turn that is kept; earlier ones were discarded."""
    last: int
    """0 if there is none yet."""
    began_at: float
    """In seconds since 1970, like all times here."""
    bytes: int
    """What it takes of the node's memory."""
    is_live: bool
    """Whether the room still runs."""
    stopped: str = ""
    """Why the recording ended before the room did."""


class SentInfo(Struct, frozen=True):
    """A message that a turn sent."""

    name: str
    players: list[str]
    bytes: int
    body: Any = None
    """None if it was too long to be kept."""
    is_latest: bool = False


class TurnInfo(Struct, frozen=True):
    """One turn of a room."""

    number: int
    at: float
    """In seconds since 1970."""
    took_ms: float
    kind: str
    """message, ask, latest, hook, timer, tick, result or engine."""
    name: str
    player: str
    body: Any
    changed: list[str]
    """The paths of what has changed, as in `players.ada.score`."""
    sent: list[SentInfo] = []
    error_code: str = ""
    error: str = ""


class TurnPage(Struct, frozen=True):
    """Some turns in a row."""

    turns: list[TurnInfo]
    first: int
    """Of the whole recording."""
    last: int


class TurnState(Struct, frozen=True):
    """A turn, and the room's state at its end."""

    turn: TurnInfo
    state: dict[str, Any]
    """Of players only what they see themselves, if a player is named."""


class ForkRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """From which turn a new room begins."""

    turn: int


class Difference(Struct, frozen=True):
    """A value that is another one when a turn is taken again."""

    path: str
    recorded: Any
    """None if it was not there."""
    now: Any


class RerunInfo(Struct, frozen=True):
    """What came of taking the turns of a recording again."""

    first: int
    """The number of the first turn that was taken again."""
    last: int
    """The number of the last one: the first that differs, or the recording's last."""
    repeated: int
    """How many turns were compared. The engine's own, such as those that tell players of something, are not counted."""
    skipped: list[int] = []
    """The numbers of turns that could not be repeated: the room went on from what was recorded of them."""
    turn: TurnInfo | None = None
    """The first turn that differs; None if none does."""
    problem: str = ""
    """How it differs, if by more than values."""
    differences: list[Difference] = []
