"""What a suspected node has, read while nobody knows yet whether it is dead: then only the claims are left.

Its rows say which rooms those are, and this node reads the ones that it is to take. If one has changed since, its claim
is refused; what was not listed is found by the look at the whole store that follows.
"""

import asyncio
from collections.abc import Callable, Mapping

from holdfast.server.cluster.node import ClusterNode
from holdfast.server.cluster.saved_rooms import SavedRoomReader, SavedRooms

# A suspect that is dead only after longer than this was perhaps not dead when it was read.
_KEPT_S = 4.0


class SuspectRooms:
    """Reads ahead."""

    def __init__(self, node: ClusterNode, reader: SavedRoomReader) -> None:
        self._node = node
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._reading: dict[str, tuple[asyncio.Task[SavedRooms], float]] = {}
        """By the life of the suspect, with the time at which it began."""
        self.listed: Callable[[str], Mapping[str, str] | None] = lambda _: None
        """The durable rooms of a node and their kinds; None if not all that it tells of them was heard."""

    def begin(self, life: str) -> None:
        """A node is suspected."""
        rooms = self._own_share(life)
        if rooms and life not in self._reading:
            reading = self._loop.create_task(self._reader.read(rooms))
            # If it fails and the node lives, nobody asks for the result.
            reading.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._reading[life] = (reading, self._loop.time())

    def forget(self, life: str) -> None:
        """It lives."""
        reading, _ = self._reading.pop(life, (None, 0.0))
        if reading is not None:
            reading.cancel()

    def stop(self) -> None:
        for life in list(self._reading):
            self.forget(life)

    async def read(self, life: str) -> SavedRooms | None:
        """What this node is to take of a dead one; None if that cannot be said."""
        reading, began_at = self._reading.pop(life, (None, 0.0))
        found = SavedRooms()
        if reading is not None and self._loop.time() - began_at < _KEPT_S:
            await asyncio.wait([reading])
            if not reading.cancelled() and reading.exception() is None:
                found = reading.result()
        rooms = self._own_share(life)
        if rooms is None:
            return None
        # Those that would have been for a node that is not there any more either.
        missing = [each for each in rooms if each not in found.rooms]
        if missing:
            more = await self._reader.read(missing)
            found = SavedRooms(found.rooms | more.rooms, found.sessions | more.sessions)
        return found

    def _own_share(self, life: str) -> list[str] | None:
        rooms = self.listed(life)
        if rooms is None:
            return None
        return [room_id for room_id, kind in rooms.items() if self._node.next_owner(room_id, kind) == self._node.life]
