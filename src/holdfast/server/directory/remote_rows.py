"""Rooms of other nodes, as these list them: hints for searches. The node that has a room alone gives its seats."""

from dataclasses import dataclass

from msgspec.structs import replace

from holdfast.core.session import PlayerId
from holdfast.schemas.room import RoomInfo
from holdfast.schemas.rows import RoomRow


@dataclass(frozen=True, slots=True, eq=False)
class RemoteRow:
    """A room of another node."""

    life: str
    """Of its node."""
    row: RoomRow
    number: int
    """Of what its node had told when the row last changed."""

    @property
    def info(self) -> RoomInfo:
        """Without the code."""
        return self.row.info

    def knows(self, player_id: PlayerId) -> bool:
        """Whether the room is one of theirs: then its code is shown, and they find it though it is private."""
        return player_id == self.row.info.creator or player_id in self.row.members

    def shown(self, *, sees_code: bool) -> RoomInfo:
        """As it is shown to somebody."""
        return replace(self.row.info, code=self.row.code) if sees_code else self.row.info


class RemoteRows:
    """What this node lists of the others; if two of them list a room, the higher epoch is right."""

    def __init__(self, rooms_max: int) -> None:
        self._rooms_max = rooms_max
        self._listed: dict[str, RemoteRow] = {}
        # Rooms that two nodes list for a moment, as while one moves: the other rows.
        self._others: dict[str, list[RemoteRow]] = {}
        self._codes: dict[str, str] = {}
        self._of_creator: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._listed)

    def get(self, room_id: str) -> RemoteRow | None:
        return self._listed.get(room_id)

    def of_code(self, code: str) -> RemoteRow | None:
        """The room with this code, as far as is known."""
        return self._listed.get(self._codes.get(code, ""))

    def count_of(self, creator: str) -> int:
        """How many rooms this player has created on other nodes."""
        return self._of_creator.get(creator, 0)

    def row_of(self, life: str, room_id: str) -> RemoteRow | None:
        """What this node lists of the room, also if another one lists it too."""
        rows = (self._listed.get(room_id), *self._others.get(room_id, ()))
        return next((row for row in rows if row is not None and row.life == life), None)

    def put(self, room: RemoteRow) -> bool:
        """A node lists a room; False if there are too many."""
        room_id = room.info.id
        self.remove(room.life, room_id)
        known = self._listed.get(room_id)
        if known is None and len(self._listed) >= self._rooms_max:
            return False
        if known is not None and (known.row.epoch, known.info.version) > (room.row.epoch, room.info.version):
            self._others.setdefault(room_id, []).append(room)
            return True
        if known is not None:
            self._unlist(known)
            self._others.setdefault(room_id, []).append(known)
        self._list(room)
        return True

    def remove(self, life: str, room_id: str) -> bool:
        """A node lists a room no more; False if it did not."""
        others = self._others.get(room_id)
        known = self._listed.get(room_id)
        if known is not None and known.life == life:
            self._unlist(known)
            if others:
                best = max(others, key=lambda each: (each.row.epoch, each.info.version))
                others.remove(best)
                self._list(best)
        elif others and any(each.life == life for each in others):
            others[:] = [each for each in others if each.life != life]
        else:
            return False
        if not others:
            self._others.pop(room_id, None)
        return True

    def _list(self, room: RemoteRow) -> None:
        info = room.info
        self._listed[info.id] = room
        if room.row.code:
            self._codes[room.row.code] = info.id
        if info.creator:
            self._of_creator[info.creator] = self._of_creator.get(info.creator, 0) + 1

    def _unlist(self, room: RemoteRow) -> None:
        info = room.info
        del self._listed[info.id]
        if self._codes.get(room.row.code) == info.id:
            del self._codes[room.row.code]
        if info.creator:
            count = self._of_creator[info.creator] - 1
            if count:
                self._of_creator[info.creator] = count
            else:
                del self._of_creator[info.creator]
