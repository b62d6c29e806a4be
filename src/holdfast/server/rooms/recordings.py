"""The recordings of one node: of the rooms that run, and of some that have ended. They are in memory only."""

from holdfast.core.errors import NotFound
from holdfast.core.limits import Limits
from holdfast.core.recording import Recording


class Recordings:
    """Keeps recordings within the node's limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._live: dict[str, Recording] = {}
        # In the order in which their rooms ended.
        self._ended: dict[str, Recording] = {}

    def __len__(self) -> int:
        return len(self._live) + len(self._ended)

    @property
    def size_bytes(self) -> int:
        """The memory that all of them take."""
        return sum(each.size_bytes for each in (*self._live.values(), *self._ended.values()))

    def get(self, room_id: str) -> Recording:
        """The recording of a room, running or not; `NotFound` if there is none."""
        found = self._live.get(room_id) or self._ended.get(room_id)
        if found is None:
            raise NotFound(
                f"there is no recording of room {room_id!r}: rooms with record_s or record are recorded, and the "
                "recordings of the last ones that ended are kept"
            )
        return found

    def is_live(self, room_id: str) -> bool:
        return room_id in self._live

    def begin(self, recording: Recording) -> None:
        """A room is being recorded."""
        self._ended.pop(recording.head.room, None)
        self._live[recording.head.room] = recording

    def end(self, room_id: str) -> None:
        """A room has ended, or is not this node's any more."""
        recording = self._live.pop(room_id, None)
        if recording is None or not recording.last:
            return
        recording.close_block()
        self._ended[room_id] = recording
        while len(self._ended) > self._limits.recordings_kept_max:
            self._forget_oldest()

    def grew(self, recording: Recording) -> None:
        """A recording has another block: discard what is too much."""
        # The sum goes over all rooms that are recorded; a block is closed seldom.
        excess = self.size_bytes - self._limits.recordings_bytes_max
        while excess > 0 and self._ended:
            excess -= self._forget_oldest()
        while excess > 0:
            before = recording.size_bytes
            if not recording.discard_oldest():
                return
            excess -= before - recording.size_bytes

    def _forget_oldest(self) -> int:
        return self._ended.pop(next(iter(self._ended))).size_bytes
