"""The records of the store that are not restored yet: rooms, sessions, and the players whose they are."""

from holdfast.core.records import Unreadable, decode_room, decode_session, seats_of
from holdfast.schemas.player import SeatRecord
from holdfast.schemas.room import RoomRecord
from holdfast.stores.port import Entry


class PendingRecords:
    """Rooms with their parts, and sessions, by id; found by player once they are indexed."""

    def __init__(self) -> None:
        self.rooms: dict[str, list[Entry]] = {}
        self.sessions: dict[str, Entry] = {}
        self._rooms_of: dict[str, list[str]] = {}
        """Where players have a seat, or one that is reserved."""
        self._sessions_of: dict[str, list[str]] = {}
        """The sessions of players, with a seat or without."""

    def __bool__(self) -> bool:
        return bool(self.rooms or self.sessions)

    def index_room(self, room_id: str, record: RoomRecord, entries: list[Entry]) -> None:
        """Find a room by the players who have a seat in it, or one that is reserved."""
        try:
            players = {seat.player for seat in _seats(record, entries)}
        except Unreadable:
            return
        for player_id in players | {kept.player for kept in record.listing.reservations}:
            self._rooms_of.setdefault(player_id, []).append(room_id)

    def index_session(self, session_id: str, entry: Entry) -> None:
        """Find a session by its player."""
        try:
            player_id = decode_session(entry.value).player
        except Unreadable:
            return
        self._sessions_of.setdefault(player_id, []).append(session_id)

    def take_rooms_of(self, player_id: str) -> list[str]:
        """The indexed rooms of a player; the next call does not find them."""
        return self._rooms_of.pop(player_id, [])

    def take_sessions_of(self, player_id: str) -> list[str]:
        """The indexed sessions of a player; the next call does not find them."""
        return self._sessions_of.pop(player_id, [])

    def clear_index(self) -> None:
        """Everything is restored."""
        self._rooms_of.clear()
        self._sessions_of.clear()


def room_id_of(entry: Entry) -> str:
    """The room that a record, a part of one or an effect belongs to."""
    return entry.key.split("/")[1]


def room_record(entries: list[Entry]) -> RoomRecord | None:
    """The record of a room; None if it cannot be read."""
    try:
        return decode_room(entries[0].value)
    except Unreadable:
        return None


def seated_sessions(entries: list[Entry]) -> list[str]:
    """The sessions that have a seat in a room."""
    try:
        seats = _seats(decode_room(entries[0].value), entries) if entries else []
    except Unreadable:
        return []
    return [seat.session for seat in seats if seat.session]


def _seats(record: RoomRecord, entries: list[Entry]) -> list[SeatRecord]:
    return seats_of(record, entries[0].key, {entry.key: entry.value for entry in entries[1:]})
