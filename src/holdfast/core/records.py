"""Stored data: one record for each durable room, and one for each session in one.

A room's record is its own lock: it only ever replaces the record it was made from, it contains the hash of that one,
and its `epoch` grows with every node that takes the room over. Records are arrays of fields that are only ever
appended; incompatible changes get a new version and a migration here. The fields follow the version and a checksum, in
every version: a disk may flip a bit, and a wrong state is worse than none.

Seats, objects and timers are lists in a room's record. Recently changed entries are in the record itself; the others
are beside it, each under its own key, so that a commit writes only what has changed. An entry in the record replaces
the one with its number beside it.
"""

import hashlib
import struct
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar
from zlib import crc32

import msgspec
from msgspec import Raw

from holdfast.core.codec import DECODE_ERRORS
from holdfast.schemas.ban import BanRecord
from holdfast.schemas.player import SeatRecord
from holdfast.schemas.room import (
    EffectRecord,
    ObjectsRecord,
    RoomRecord,
    TimerRecord,
)
from holdfast.schemas.session import SessionRecord, StandingRecord

VERSION = 2
# The version in one byte, and the checksum of the fields, which begins with it.
_HEAD = struct.Struct(">BI")

SERVER = 0
"""Instead of a seat's number: the owner of an object is the server."""

Migration = Callable[[list[Any]], list[Any]]


def _as_it_was(fields: list[Any]) -> list[Any]:
    return fields


def _with_numbers(fields: list[Any]) -> list[Any]:
    """Version 1 stored owned objects with the seats, timers by the wall clock, and everything in one piece."""
    saved_at, seats, objects, timers = fields[5], fields[14], fields[15], fields[16]
    owners = dict.fromkeys(objects, SERVER)
    for number, seat in enumerate(seats, start=1):
        owners.update(dict.fromkeys(seat[3], number))
    return [
        *fields[:14],
        [[*seat[:3], number, *seat[4:]] for number, seat in enumerate(seats, start=1)],
        [[0, owners]] if owners else [],
        [[number, *timer[:3]] for number, timer in enumerate(timers, start=1)],
        *fields[17:20],
        *(fields[20:21] or [[]]),
        saved_at,
    ]


ROOM_MIGRATIONS: dict[int, Migration] = {1: _with_numbers}
"""From this version of a room's record to the next: fields in, fields out."""
SESSION_MIGRATIONS: dict[int, Migration] = {1: _as_it_was}
EFFECT_MIGRATIONS: dict[int, Migration] = {1: _as_it_was}
BAN_MIGRATIONS: dict[int, Migration] = {1: _as_it_was}
STANDING_MIGRATIONS: dict[int, Migration] = {1: _as_it_was}


class Unreadable(Exception):
    """A record that this version cannot read. It is set aside: kept as it is, and not restored."""


E = TypeVar("E", SeatRecord, ObjectsRecord, TimerRecord)
R = TypeVar("R", RoomRecord, SessionRecord, EffectRecord, BanRecord, StandingRecord)

_encode = msgspec.msgpack.Encoder().encode
_decode_fields = msgspec.msgpack.Decoder(list[Any]).decode
_decode_room = msgspec.msgpack.Decoder(RoomRecord).decode
_decode_session = msgspec.msgpack.Decoder(SessionRecord).decode
_decode_effect = msgspec.msgpack.Decoder(EffectRecord).decode
_decode_ban = msgspec.msgpack.Decoder(BanRecord).decode
_decode_standing = msgspec.msgpack.Decoder(StandingRecord).decode
_decode_seat = msgspec.msgpack.Decoder(SeatRecord).decode
_decode_objects = msgspec.msgpack.Decoder(ObjectsRecord).decode
_decode_timer = msgspec.msgpack.Decoder(TimerRecord).decode


def room_key(room_id: str) -> str:
    """The key of a room's record; the keys of its parts begin with this and a slash."""
    return f"room/{room_id}"


def session_key(session_id: str) -> str:
    """The key of a session's record."""
    return f"session/{session_id}"


def encode(record: RoomRecord | SessionRecord | EffectRecord | BanRecord | StandingRecord) -> bytes:
    """A record as it is stored: its header, then its fields."""
    fields = _encode(record)
    return _HEAD.pack(VERSION, crc32(fields, VERSION)) + fields


def encode_listed(entry: SeatRecord | ObjectsRecord | TimerRecord) -> bytes:
    """An entry of one of a room's lists, as in the record or beside it."""
    return _encode(entry)


def decode_room(stored: bytes) -> RoomRecord:
    """A room's record, migrated to this version, or `Unreadable`."""
    return _read(stored, _decode_room, ROOM_MIGRATIONS)


def decode_session(stored: bytes) -> SessionRecord:
    """A session's record, migrated to this version, or `Unreadable`."""
    return _read(stored, _decode_session, SESSION_MIGRATIONS)


def decode_effect(stored: bytes) -> EffectRecord:
    """An effect's record, migrated to this version, or `Unreadable`."""
    return _read(stored, _decode_effect, EFFECT_MIGRATIONS)


def decode_ban(stored: bytes) -> BanRecord:
    """A ban's record, migrated to this version, or `Unreadable`."""
    return _read(stored, _decode_ban, BAN_MIGRATIONS)


def decode_standing(stored: bytes) -> StandingRecord:
    """A player's sign-out record, migrated to this version, or `Unreadable`."""
    return _read(stored, _decode_standing, STANDING_MIGRATIONS)


ListName = Literal["@seats", "@objects", "@timers"]
"""Where the entries of a list are beside a room's record: `<the room's key>/@seats/12`. No `Parts` has such a name."""


def seats_of(record: RoomRecord, key: str, beside: Mapping[str, bytes]) -> list[SeatRecord]:
    """All seats of a room in order, from its record under `key` and the entries beside it, or `Unreadable`."""
    return _entries_of(record.seats, f"{key}/@seats/", beside, _decode_seat)


def owners_of(record: RoomRecord, key: str, beside: Mapping[str, bytes]) -> dict[str, int]:
    """The objects of a room and the number of each owner's seat, or `Unreadable`."""
    groups = _entries_of(record.objects, f"{key}/@objects/", beside, _decode_objects)
    return {object_id: owner for group in groups for object_id, owner in group.owners.items()}


def timers_of(record: RoomRecord, key: str, beside: Mapping[str, bytes]) -> list[TimerRecord]:
    """The pending timers of a room in the order they were set, or `Unreadable`."""
    return _entries_of(record.timers, f"{key}/@timers/", beside, _decode_timer)


def _entries_of(inline: list[Raw], prefix: str, beside: Mapping[str, bytes], decode: Callable[[Any], E]) -> list[E]:
    try:
        entries = {entry.number: entry for entry in map(decode, inline)}
        for key, value in beside.items():
            if key.startswith(prefix):
                entry = decode(value)
                entries.setdefault(entry.number, entry)
    except DECODE_ERRORS as error:
        raise Unreadable(f"an entry of its lists is invalid: {error}") from None
    return [entries[number] for number in sorted(entries)]


def _read(stored: bytes, decode: Callable[[bytes | memoryview], R], migrations: dict[int, Migration]) -> R:
    version, fields = _opened(stored)
    try:
        if version == VERSION:
            return decode(fields)
        return decode(_encode(_migrated(version, _decode_fields(fields), migrations)))
    # A migration raises the last two for unexpected fields.
    except (*DECODE_ERRORS, TypeError, LookupError) as error:
        raise Unreadable(str(error)) from None


def _opened(stored: bytes) -> tuple[int, memoryview]:
    if len(stored) < _HEAD.size:
        raise Unreadable(f"it is truncated to {len(stored)} bytes")
    version, checksum = _HEAD.unpack_from(stored)
    fields = memoryview(stored)[_HEAD.size :]
    if crc32(fields, version) != checksum:
        raise Unreadable("it is damaged: its checksum does not match")
    if version > VERSION:
        raise Unreadable(f"it has version {version}, this server reads up to {VERSION}: run a newer server")
    return version, fields


def _migrated(version: int, fields: list[Any], migrations: dict[int, Migration]) -> list[Any]:
    for step in range(version, VERSION):
        if step not in migrations:
            raise Unreadable(f"it has version {version}, which this server cannot migrate to {VERSION}")
        fields = migrations[step](fields)
    return fields


def digest(stored: bytes) -> bytes:
    """The hash by which the next record refers to this one."""
    return hashlib.sha256(stored).digest()


PARTS_NONE = bytes(32)
_MODULUS = 1 << 256


def part_digest(key: str, value: bytes) -> int:
    """What one part adds to the sum in the room's record."""
    return int.from_bytes(hashlib.sha256(key.encode() + b"\0" + value).digest(), "big")


def parts_sum(parts: Mapping[str, bytes]) -> bytes:
    """The sum over everything beside a record."""
    total = PARTS_NONE
    for key, value in parts.items():
        total = parts_changed(total, added=part_digest(key, value))
    return total


def parts_changed(parts: bytes, *, added: int = 0, removed: int = 0) -> bytes:
    """The sum after parts were added and removed: it is independent of their order, so only changes cost time."""
    return ((int.from_bytes(parts, "big") + added - removed) % _MODULUS).to_bytes(32, "big")
