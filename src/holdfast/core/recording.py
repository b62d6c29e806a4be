"""A recording of a room: its turns in blocks, the oldest of which are discarded, and how they are read.

A block begins with the whole state before its first turn, the keyframe; each turn has what it changed. So the state at
the end of any turn is its block's keyframe and the patches up to there.
"""

import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from holdfast.core.codec import DECODE_ERRORS
from holdfast.schemas.recording import BlockRecord, RecordingHead, StoredBlock, TurnRecord
from holdfast.state import Changed, NotANode, OutOfSync, apply

TURNS_PER_KEYFRAME = 100
# What is read of a state is never more than a small multiple of its keyframe.
_BLOCK_BYTES_MIN = 64 * 1024
_KEYFRAMES_PER_BLOCK = 2
# A large block is deflated quickly rather than well, for everybody on the node waits: it takes a third of the time, and
# a twentieth more space.
_QUICK_BYTES = 64 * 1024
_WELL, _QUICKLY = 6, 1
# A ring is discarded block by block: there are at least this many in its seconds.
_BLOCKS_PER_RING = 6
# What deflated data may grow to; a block of ours is far smaller.
_INFLATED_BYTES_MAX = 256 * 1024 * 1024
_PATHS_MAX = 200
_NO_CHANGE = Raw(b"\xc0")

_encode = msgspec.msgpack.Encoder().encode
_decode_block = msgspec.msgpack.Decoder(BlockRecord).decode
_decode = msgspec.msgpack.Decoder().decode


class NotARecording(ValueError):
    """Bytes that are no recording, or a damaged one, and why."""


@dataclass(frozen=True, slots=True)
class RecordingSize:
    """How much of a recording is kept."""

    bytes_max: int
    turns_max: int
    seconds: float = inf


class Recording:
    """What is kept of one room that is being recorded."""

    def __init__(self, head: RecordingHead, size: RecordingSize) -> None:
        self.head = head
        self.stopped = ""
        """Why it ended before the room did."""
        self.last = 0
        """The number of the newest turn."""
        self._size = size
        self._blocks: deque[StoredBlock] = deque()
        self._stored_bytes = self._stored_turns = 0
        self._keyframe = b""
        self._turns: list[bytes] = []
        self._open_bytes = 0
        self._open_at = self._last_at = 0.0

    @property
    def size_bytes(self) -> int:
        """The memory that it takes."""
        return self._stored_bytes + self._open_bytes

    @property
    def first(self) -> int:
        """The number of the oldest turn that is kept."""
        return self._blocks[0].first if self._blocks else self.last - len(self._turns) + 1

    @property
    def wants_keyframe(self) -> bool:
        """Whether the next turn begins a block."""
        return not self._keyframe

    def begin_block(self, keyframe: bytes) -> None:
        """The next turn follows this state: the node that sets it, encoded."""
        self.close_block()
        self._keyframe = keyframe
        self._open_bytes = len(keyframe)

    def append(self, turn: TurnRecord) -> None:
        """Keep the newest turn; its number follows the last one's."""
        if not self._turns:
            self._open_at = turn.at
        encoded = _encode(turn)
        self._turns.append(encoded)
        self._open_bytes += len(encoded)
        self.last, self._last_at = turn.number, turn.at
        is_long = self._last_at - self._open_at >= self._size.seconds / _BLOCKS_PER_RING
        full = len(self._keyframe) * (_KEYFRAMES_PER_BLOCK + 1) + _BLOCK_BYTES_MIN
        if len(self._turns) >= TURNS_PER_KEYFRAME or self._open_bytes >= full or is_long:
            self.close_block()

    def close_block(self) -> None:
        """Deflate the open block, and discard what is too much."""
        if self._turns:
            block = self._closed()
            self._blocks.append(block)
            self._stored_bytes += len(block.data)
            self._stored_turns += block.count
        self._keyframe, self._turns, self._open_bytes = b"", [], 0
        size = self._size
        while len(self._blocks) > 1 and (
            self._stored_bytes > size.bytes_max
            or self._stored_turns > size.turns_max
            or self._blocks[0].until < self._last_at - size.seconds
        ):
            self.discard_oldest()

    def discard_oldest(self) -> bool:
        """Discard the oldest block; False if the newest is the only one."""
        if len(self._blocks) <= 1:
            return False
        gone = self._blocks.popleft()
        self._stored_bytes -= len(gone.data)
        self._stored_turns -= gone.count
        return True

    def blocks(self) -> list[StoredBlock]:
        """All that is kept, up to the newest turn."""
        return [*self._blocks, *([self._closed()] if self._turns else [])]

    def reader(self) -> "RecordingReader":
        return RecordingReader(self.head, self.blocks(), self.stopped)

    def _closed(self) -> StoredBlock:
        # As an encoded `BlockRecord`, of parts that are encoded already.
        plain = _encode((Raw(self._keyframe), [Raw(turn) for turn in self._turns]))
        count, level = len(self._turns), _WELL if len(plain) <= _QUICK_BYTES else _QUICKLY
        return StoredBlock(self.last - count + 1, count, self._last_at, len(plain), zlib.compress(plain, level))


class Replayed(NamedTuple):
    """A turn that was read."""

    turn: TurnRecord
    state: dict[str, Any]
    """The room's at the end of the turn; the next turn changes it."""
    changed: list[str]
    """Where the turn has changed it, as in `players.ada.score`; so many places."""


class RecordingReader:
    """Reads a recording: turns by number, and the state at the end of each."""

    def __init__(self, head: RecordingHead, blocks: Iterable[StoredBlock], stopped: str = "") -> None:
        self.head = head
        self.stopped = stopped
        self.blocks = list(blocks)
        self._read: tuple[int, BlockRecord] | None = None

    @property
    def first(self) -> int:
        """The number of the oldest turn; 1 if there is none."""
        return self.blocks[0].first if self.blocks else 1

    @property
    def last(self) -> int:
        """The number of the newest turn; 0 if there is none."""
        return self.blocks[-1].first + self.blocks[-1].count - 1 if self.blocks else 0

    def __len__(self) -> int:
        return sum(block.count for block in self.blocks)

    def __contains__(self, number: int) -> bool:
        return bool(self.blocks) and self.first <= number <= self.last

    def turns(self, first: int | None = None, last: int | None = None) -> Iterator[TurnRecord]:
        """The turns with these numbers, or all."""
        low, high = first or self.first, self.last if last is None else last
        for place, block in enumerate(self.blocks):
            if block.first <= high and block.first + block.count > low:
                yield from (turn for turn in self._block(place).turns if low <= turn.number <= high)

    def turn(self, number: int) -> TurnRecord:
        """One turn; `KeyError` if it is not kept."""
        for turn in self.turns(number, number):
            return turn
        raise KeyError(number)

    def state_at(self, number: int) -> dict[str, Any]:
        """The state at the end of a turn, as plain data. The turn before the first one has a state too."""
        return next(iter(self.states(number, number)))[1]

    def states(self, first: int, last: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """The states at the end of these turns: one object, which is changed from turn to turn."""
        if self.blocks and first < self.first <= last + 1:
            state: dict[str, Any] = {}
            self._apply(state, self._block(0).keyframe, [])
            yield self.first - 1, state
        for each in self.replay(max(first, self.first), last):
            yield each.turn.number, each.state

    def replay(self, first: int, last: int) -> Iterator["Replayed"]:
        """These turns, each with the state at its end, and with where it has changed that."""
        for place, block in enumerate(self.blocks):
            if block.first > last or block.first + block.count <= first:
                continue
            state: dict[str, Any] = {}
            read = self._block(place)
            self._apply(state, read.keyframe, [])
            for turn in read.turns:
                if turn.number > last:
                    return
                changed: list[Changed] = []
                self._apply(state, turn.patch, changed)
                if turn.number >= first:
                    yield Replayed(turn, state, [".".join(map(str, each.path)) for each in changed[:_PATHS_MAX]])

    def _apply(self, state: dict[str, Any], patch: Raw, changed: list[Changed]) -> None:
        try:
            node = _decode(patch)
            if node is not None:
                apply(state, node, changed)
        except (NotANode, OutOfSync, *DECODE_ERRORS) as error:
            raise NotARecording(f"a turn cannot be applied: {error}") from None

    def _block(self, place: int) -> BlockRecord:
        if self._read is None or self._read[0] != place:
            self._read = place, _inflated(self.blocks[place])
        return self._read[1]


def _inflated(block: StoredBlock) -> BlockRecord:
    try:
        if not 0 < block.size <= _INFLATED_BYTES_MAX:
            raise NotARecording(f"the turns from {block.first} on cannot have {block.size} bytes")
        # One byte more than there should be: then the checksum is read, too.
        plain = zlib.decompressobj().decompress(block.data, block.size + 1)
        if len(plain) != block.size:
            raise NotARecording(f"the turns from {block.first} on are not as long as the recording says")
        read = _decode_block(plain)
    except NotARecording:
        raise
    except (zlib.error, *DECODE_ERRORS) as error:
        raise NotARecording(f"the turns from {block.first} on are damaged: {error}") from None
    if [turn.number for turn in read.turns] != list(range(block.first, block.first + block.count)):
        raise NotARecording(f"the turns from {block.first} on are not those that the recording says")
    return read


def turn_record(turn: TurnRecord, patch: bytes | None) -> TurnRecord:
    """The same turn with what it has changed."""
    return msgspec.structs.replace(turn, patch=_NO_CHANGE if patch is None else Raw(patch))
