"""The records of the store before they are restored; an unreadable one is found here, before anything happens."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from holdfast.core.join_options import checked_options, needs_options
from holdfast.core.messages import PlayerData
from holdfast.core.records import (
    Unmatched,
    Unreadable,
    decode_room,
    decode_session,
    groups_of,
    owners_of,
    parts_sum,
    seats_of,
    spectators_of,
    timers_of,
)
from holdfast.core.room import Room, player_data_type
from holdfast.core.saved_types import empty_parts, parts_fields, parts_of, saved_type
from holdfast.schemas.player import NO_OPTIONS, SeatRecord
from holdfast.schemas.room import GroupRecord, RoomRecord, TimerRecord
from holdfast.schemas.session import SessionRecord
from holdfast.stores.port import Entry


class PendingRecords:
    """Rooms with their parts, and sessions, by id; found by player once they are indexed."""

    def __init__(self) -> None:
        self.rooms: dict[str, list[Entry]] = {}
        self.sessions: dict[str, Entry] = {}
        self.sends: dict[str, list[Entry]] = {}
        """Messages to sessions that are not in their records yet, by session."""
        self._rooms_of: dict[str, list[str]] = {}
        """The rooms in which a player has a seat or a reservation."""
        self._sessions_of: dict[str, list[str]] = {}

    def __bool__(self) -> bool:
        return bool(self.rooms or self.sessions)

    def index_room(self, room_id: str, record: RoomRecord, seats: list[SeatRecord]) -> None:
        reserved = (kept.player for kept in record.listing.reservations)
        for player_id in {*(seat.player for seat in seats), *reserved}:
            self._rooms_of.setdefault(player_id, []).append(room_id)

    def index_session(self, session_id: str, entry: Entry) -> None:
        try:
            player_id = decode_session(entry.value).player
        except Unreadable:
            return
        self._sessions_of.setdefault(player_id, []).append(session_id)

    def add_sends(self, entries: list[Entry]) -> None:
        # Revisions grow: each session gets its messages in the order in which they were saved.
        for entry in sorted(entries, key=lambda entry: entry.revision):
            self.sends.setdefault(entry.key.split("/")[1], []).append(entry)

    def take_rooms_of(self, player_id: str) -> list[str]:
        """The indexed rooms of a player; the next call does not find them."""
        return self._rooms_of.pop(player_id, [])

    def take_sessions_of(self, player_id: str) -> list[str]:
        """The indexed sessions of a player; the next call does not find them."""
        return self._sessions_of.pop(player_id, [])

    def clear_index(self) -> None:
        self._rooms_of.clear()
        self._sessions_of.clear()


def room_id_of(entry: Entry) -> str:
    """The room that a record, a part of one or an effect belongs to."""
    return entry.key.split("/")[1]


def read_seats(entries: list[Entry]) -> tuple[RoomRecord | None, list[SeatRecord]]:
    """The record of a room (None: unreadable), and its seats as far as they can be read."""
    record = None
    try:
        record = decode_room(entries[0].value)
        return record, seats_of(record, entries[0].key, {entry.key: entry.value for entry in entries[1:]})
    except Unreadable:
        return record, []


def read_sessions(entries: list[Entry]) -> list[str]:
    """The sessions with a seat in a room, or that watch it, as far as they can be read."""
    record, seats = read_seats(entries)
    try:
        beside = {entry.key: entry.value for entry in entries[1:]}
        watching = spectators_of(record, entries[0].key, beside) if record is not None else []
    except Unreadable:
        watching = []
    return [seat.session for seat in (*seats, *watching) if seat.session]


def read_session(entry: Entry | None) -> SessionRecord | None:
    """The record of a session, if there is one and it can be read."""
    try:
        return decode_session(entry.value) if entry is not None else None
    except Unreadable:
        return None


def room_of(entry: Entry) -> str:
    """The room in which a session has its seat, or else the one that it watches; "" if neither can be read."""
    record = read_session(entry)
    return record.room or record.spectating if record is not None else ""


class SavedRoom(Struct):
    """Everything that a room needs to continue."""

    room_type: type[Room[Any]]
    record: RoomRecord
    seats: list[SeatRecord]
    data: list[PlayerData]
    """Of each seat."""
    options: list[Any]
    """What the player of each seat joined with."""
    owners: dict[str, int]
    """Of objects, by the numbers of their seats."""
    timers: list[TimerRecord]
    groups: list[GroupRecord]
    state: Any
    properties: dict[str, Any]
    spectators: list[SeatRecord]


def read_room(entries: list[Entry], type_of: Callable[[str], type[Room[Any]] | None]) -> SavedRoom:
    """Decode a room from its record and the record's parts, or raise `Unreadable`."""
    record = decode_room(entries[0].value)
    room_type = type_of(record.kind)
    if room_type is None:
        raise Unreadable(f"it is of kind {record.kind!r}, which this server does not have")
    if room_type.durability == "memory":
        raise Unreadable(f'{room_type.__name__}.durability is "memory" now')
    parts = {entry.key: entry.value for entry in entries[1:]}
    if parts_sum(parts) != record.parts:
        raise Unmatched("its parts do not match its record: some are missing or damaged")
    key = entries[0].key
    seats = seats_of(record, key, parts)
    return SavedRoom(
        room_type=room_type,
        record=record,
        seats=seats,
        data=[_read(seat.data, player_data_type(room_type), "a player's data") for seat in seats],
        options=[_read_options(seat, room_type) for seat in seats],
        owners=owners_of(record, key, parts),
        timers=timers_of(record, key, parts),
        groups=groups_of(record, key, parts),
        state=_read_state(room_type, key, record, parts),
        properties=_read(record.properties, dict[str, Any], "its properties"),
        spectators=spectators_of(record, key, parts),
    )


def _read_options(seat: SeatRecord, room_type: type[Room[Any]]) -> Any:
    wanted = room_type.join_options
    if wanted is not None and bytes(seat.options) != bytes(NO_OPTIONS):
        return _read(seat.options, wanted, "a player's options")
    # The room has begun to take options since, or takes none any more.
    return None if needs_options(room_type) else checked_options(room_type, None, 0)


def _read_state(room_type: type[Room[Any]], key: str, record: RoomRecord, parts: dict[str, bytes]) -> Any:
    stored = Raw(parts[f"{key}/state"]) if record.has_state_beside else record.state
    state = _read(stored, saved_type(room_type), "its state")
    for field, mapping in parts_of(state).items():
        value_type = parts_fields(type(state))[field]
        entries: dict[str, Any] = {}
        for each, value in parts.items():
            if each.startswith(f"{key}/{field}/"):
                name, encoded = _read(Raw(value), tuple[str, Raw], f"part {each}")
                entries[name] = _read(encoded, value_type, f"part {name!r} of {field}")
        mapping.fill(entries)
    return state


def _read(stored: Raw, kind: Any, what: str) -> Any:
    try:
        return msgspec.msgpack.decode(stored, type=kind, dec_hook=empty_parts)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise Unreadable(f"{what}: {error}") from None
