"""Stored data: one record for each durable room, and one for each session in one.

A room's record is its own lock: it only ever replaces the record it was made from, it contains the hash of that one,
and its `epoch` grows with every node that takes the room over. Records are arrays of fields that are only ever
appended; incompatible changes get a new version and a migration here. The fields follow the version and a checksum, in
every version: a disk may flip a bit, and a wrong state is worse than none.

Seats, objects, timers, groups and spectators are lists in a room's record. Recently changed entries are in the record
itself; the others are beside it, each under its own key, so that a commit writes only what has changed. An entry in the
record replaces the one with its number beside it.
"""

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar
from zlib import crc32

import msgspec
from msgspec import Raw

from holdfast.core.channel import Channel
from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.codecs import CODECS
from holdfast.core.limits import Limits, RoleLimits
from holdfast.core.session import PlayerId, Seat, Session, SessionId, is_agent, known_features
from holdfast.schemas.ban import BanRecord
from holdfast.schemas.frames import Purpose, Reply, RequestProblem
from holdfast.schemas.player import PlayerSchema, SeatRecord, SpectatorInfo
from holdfast.schemas.projection import project
from holdfast.schemas.role import RoleRecord
from holdfast.schemas.room import EffectRecord, GroupRecord, ObjectsRecord, RoomRecord, TimerRecord
from holdfast.schemas.session import ChannelRecord, SendRecord, SessionRecord, SessionSchema, StandingRecord

VERSION = 2
# The version in one byte, and the checksum of the fields, which begins with it.
_HEAD = struct.Struct(">BI")

SERVER = 0
"""Instead of a seat's number: the owner of an object is the server."""

Migration = Callable[[list[Any]], list[Any]]


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


MIGRATIONS: dict[type, dict[int, Migration]] = {
    RoomRecord: {1: _with_numbers},
    # Version 2 changed rooms only.
    **{kind: {1: list} for kind in (SessionRecord, SendRecord, EffectRecord, BanRecord, RoleRecord, StandingRecord)},
}
"""For each type of record, from a version to the next: fields in, fields out."""


class Unreadable(Exception):
    """A record that this version cannot read. It is set aside: kept as it is, and not restored."""


class Unmatched(Unreadable):
    """A record that does not fit what was read with it: another server may have written one of the two meanwhile."""


E = TypeVar("E", SeatRecord, ObjectsRecord, TimerRecord, GroupRecord)
R = TypeVar("R", RoomRecord, SessionRecord, SendRecord, EffectRecord, BanRecord, RoleRecord, StandingRecord)

_encode = msgspec.msgpack.Encoder().encode
_decode_fields = msgspec.msgpack.Decoder(list[Any]).decode
_ENTRY_DECODERS: dict[type, Callable[[Any], Any]] = {
    kind: msgspec.msgpack.Decoder(kind).decode for kind in (SeatRecord, ObjectsRecord, TimerRecord, GroupRecord)
}


def room_key(room_id: str) -> str:
    """The key of a room's record; the keys of its parts begin with this and a slash."""
    return f"room/{room_id}"


def session_key(session_id: str) -> str:
    """The key of a session's record."""
    return f"session/{session_id}"


def sends_key(session_id: str) -> str:
    """The messages to a session that are not in its record yet have keys below this one."""
    return f"send/{session_id}"


def encode(
    record: RoomRecord | SessionRecord | SendRecord | EffectRecord | BanRecord | RoleRecord | StandingRecord,
) -> bytes:
    """A record as it is stored: its header, then its fields."""
    fields = _encode(record)
    return _HEAD.pack(VERSION, crc32(fields, VERSION)) + fields


encode_listed: Callable[[SeatRecord | ObjectsRecord | TimerRecord | GroupRecord], bytes] = _encode
"""An entry of one of a room's lists, as in the record or beside it."""


def _reader(kind: type[R]) -> Callable[[bytes], R]:
    """Reads a stored record, migrated to this version, or raises `Unreadable`."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def read(stored: bytes) -> R:
        if len(stored) < _HEAD.size:
            raise Unreadable(f"it is truncated to {len(stored)} bytes")
        version, checksum = _HEAD.unpack_from(stored)
        encoded = memoryview(stored)[_HEAD.size :]
        if crc32(encoded, version) != checksum:
            raise Unreadable("it is damaged: its checksum does not match")
        if version > VERSION:
            raise Unreadable(f"it has version {version}, this server reads up to {VERSION}: run a newer server")
        try:
            if version == VERSION:
                return decode(encoded)
            fields = _decode_fields(encoded)
            for step in range(version, VERSION):
                if step not in MIGRATIONS[kind]:
                    raise Unreadable(f"it has version {version}, which this server cannot migrate to {VERSION}")
                fields = MIGRATIONS[kind][step](fields)
            return decode(_encode(fields))
        # A migration raises the last two for unexpected fields.
        except (*DECODE_ERRORS, TypeError, LookupError) as error:
            raise Unreadable(str(error)) from None

    return read


decode_room = _reader(RoomRecord)
decode_session = _reader(SessionRecord)
decode_send = _reader(SendRecord)
decode_effect = _reader(EffectRecord)
decode_ban = _reader(BanRecord)
decode_role = _reader(RoleRecord)
decode_standing = _reader(StandingRecord)


ListName = Literal["@seats", "@objects", "@timers", "@groups", "@spectators"]
"""Where the entries of a list are beside a room's record: `<the room's key>/@seats/12`. No `Parts` has such a name."""


def seats_of(record: RoomRecord, key: str, beside: Mapping[str, bytes]) -> list[SeatRecord]:
    """All seats of a room in order, from its record under `key` and the entries beside it, or `Unreadable`."""
    return _entries_of(record.seats, f"{key}/@seats/", beside, SeatRecord)


def owners_of(record: RoomRecord, key: str, beside: Mapping[str, bytes]) -> dict[str, int]:
    """The objects of a room and the number of each owner's seat, or `Unreadable`."""
    buckets = _entries_of(record.objects, f"{key}/@objects/", beside, ObjectsRecord)
    return {object_id: owner for bucket in buckets for object_id, owner in bucket.owners.items()}


def timers_of(record: RoomRecord, key: str, beside: Mapping[str, bytes]) -> list[TimerRecord]:
    """The pending timers of a room in the order they were set, or `Unreadable`."""
    return _entries_of(record.timers, f"{key}/@timers/", beside, TimerRecord)


def groups_of(record: RoomRecord, key: str, beside: Mapping[str, bytes]) -> list[GroupRecord]:
    """The groups of a room in the order in which they began, or `Unreadable`."""
    return _entries_of(record.groups, f"{key}/@groups/", beside, GroupRecord)


def spectators_of(record: RoomRecord, key: str, beside: Mapping[str, bytes]) -> list[SeatRecord]:
    """The spectators of a room in order, or `Unreadable`."""
    return _entries_of(record.spectators, f"{key}/@spectators/", beside, SeatRecord)


def _entries_of(inline: list[Raw], prefix: str, beside: Mapping[str, bytes], kind: type[E]) -> list[E]:
    decode = _ENTRY_DECODERS[kind]
    try:
        entries = {entry.number: entry for entry in map(decode, inline)}
        for key, value in beside.items():
            if key.startswith(prefix):
                entry = decode(value)
                entries.setdefault(entry.number, entry)
    except DECODE_ERRORS as error:
        raise Unreadable(f"an entry of its lists is invalid: {error}") from None
    return [entries[number] for number in sorted(entries)]


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
    return parts_changed(PARTS_NONE, added=sum(part_digest(key, value) for key, value in parts.items()))


def parts_changed(parts: bytes, *, added: int = 0, removed: int = 0) -> bytes:
    """The sum after parts were added and removed: it is independent of their order, so only changes cost time."""
    return ((int.from_bytes(parts, "big") + added - removed) % _MODULUS).to_bytes(32, "big")


# Live sessions, players and channels as data, and back


def channel_record(channel: Channel) -> ChannelRecord:
    """The saved form of both streams."""
    return ChannelRecord(
        channel.number,
        channel.generation,
        channel.applied,
        channel.last_seq,
        channel.kept_messages(),
        channel.is_finished,
        channel.overflowed,
    )


def restored_channel(record: ChannelRecord, limits: Limits, purpose: Purpose = "seat") -> Channel:
    """The restored streams."""
    channel = Channel(record.number, limits, purpose)
    channel.generation = record.generation
    channel.accepted = channel.applied = channel.ack_sent = record.applied
    channel.restore_outward(record.last_seq, record.kept)
    channel.is_finished = record.is_finished
    channel.overflowed = record.is_overflowed
    return channel


def describe_session(session: Session, now: float) -> SessionSchema:
    """The session as data."""
    token, next_token, retired_tokens = session.tokens.hashes()
    connection, usage = session.connection, session.usage
    return SessionSchema(
        id=session.id,
        player=session.player_id,
        name=session.name,
        status=session.status,
        room=session.room_id,
        account=session.account,
        spectating=session.spectating,
        roles=sorted(session.roles),
        proven_roles=sorted(session.proven_roles),
        limits=_values(session.rates.special if session.rates is not None else None),
        own_limits=_values(session.own_limits),
        address=session.address,
        connection=connection.id if connection is not None else "",
        connection_state=connection.state.value if connection is not None else "",
        connected_s=round(now - connection.opened_at, 3) if connection is not None else 0.0,
        transport=connection.transport_kind if connection is not None else "",
        codec=session.codec.name if session.codec is not None else "",
        flags=[str(flag.name).lower() for flag in session.flags],
        is_agent=is_agent(session.player_id),
        latency_ms=round(session.latency_ms, 3),
        age_s=round(now - session.created_at, 3),
        idle_s=round(now - session.last_active_at, 3),
        expires_in_s=seconds_until(session.expires_at, now),
        signed_in_at=session.signed_in_at,
        sign_outs=session.sign_outs,
        epoch=session.epoch,
        drops=session.drops,
        resumes=session.resumes,
        messages_in=usage.messages_in,
        messages_out=usage.messages_out,
        bytes_in=usage.bytes_in,
        bytes_out=usage.bytes_out,
        channels_opened=session.channels_opened,
        token=token,
        next_token=next_token,
        retired_tokens=retired_tokens,
        last_request=session.last_request,
        requests_announced=session.requests_announced,
        replies=[
            (
                reply.id,
                bytes(reply.result) if reply.result is not None else None,
                (reply.problem.code, reply.problem.message) if reply.problem is not None else None,
            )
            for reply in session.replies
        ],
        lineage=session.lineage.name,
        forks=list(session.lineage.forks),
        features=list(session.features),
    )


def _values(limits: RoleLimits | None) -> dict[str, float]:
    return limits.values() if limits is not None else {}


def session_record(
    session: Session,
    room_id: str,
    closing: list[ChannelRecord],
    inbox: ChannelRecord | None = None,
    *,
    spectating: str = "",
) -> SessionRecord:
    """The saved form of a session with its seat in this room (empty: no seat), which watches that one."""
    assert session.codec is not None
    described = describe_session(session, session.last_active_at)
    return project(described, SessionRecord, room=room_id, closing=closing, inbox=inbox, spectating=spectating)


def describe_player(seat: Seat, now: float, *, is_host: bool, groups: Sequence[str] = ()) -> PlayerSchema:
    """A player in a room as data; their data as the game has it."""
    session = seat.session
    return PlayerSchema(
        player=seat.player_id,
        name=seat.name,
        state=seat.state.value,
        session=session.id,
        latency_ms=round(session.latency_ms, 3),
        expires_in_s=seconds_until(session.expires_at, now),
        is_host=is_host,
        is_agent=is_agent(seat.player_id),
        agent=seat.agent,
        number=seat.number,
        rewound_s=session.rewound_s,
        data=seat.player.data,
        options=seat.options,
        owned=sorted(seat.owned),
        groups=list(groups),
    )


def describe_spectator(place: Seat, now: float) -> SpectatorInfo:
    """A spectator as operators see them."""
    session = place.session
    return SpectatorInfo(
        player=place.player_id,
        state=place.state.value,
        session=session.id,
        latency_ms=round(session.latency_ms, 3),
        expires_in_s=seconds_until(session.expires_at, now),
        name=place.name,
    )


def seconds_until(when: float | None, now: float) -> float:
    """The time left, as it is shown; 0 if there is no such time, or it has passed."""
    return 0.0 if when is None else round(max(0.0, when - now), 3)


def restored_session(session_id: str, record: SessionRecord, *, limits: Limits, now: float, grace_s: float) -> Session:
    """The restored session, without its seat, disconnected."""
    codec = CODECS.get(record.codec)
    if codec is None:
        raise Unreadable(f"session {session_id} uses the codec {record.codec!r}, which this server does not have")
    session = Session(
        SessionId(session_id),
        PlayerId(record.player),
        limits=limits,
        now=now,
        grace_s=grace_s,
        codec=codec,
        roles=frozenset(record.proven_roles),
        name=record.name,
    )
    session.epoch = record.epoch
    session.channels_opened = record.channels_opened
    session.closing = tuple(restored_channel(each, limits) for each in record.closing)
    session.tokens.restore(record.token, record.next_token, record.retired_tokens)
    session.last_request = record.last_request
    session.requests_announced = record.requests_announced
    session.sign_outs = record.sign_outs
    session.signed_in_at = record.signed_in_at
    session.address = record.address
    session.account = record.account
    known = {name: value for name, value in record.own_limits.items() if name in RoleLimits.__dataclass_fields__}
    session.own_limits = RoleLimits(**known) if known else None  # type: ignore[arg-type]  # as they were saved
    session.restore_lineage(record.lineage, record.forks)
    session.speaks_with(known_features(record.features))
    if record.inbox is not None:
        session.restore_own_channel(restored_channel(record.inbox, limits, "session"))
    session.replies = tuple(
        Reply(
            request_id,
            Raw(result) if result is not None else None,
            RequestProblem(*problem) if problem is not None else None,
        )
        for request_id, result, problem in record.replies
    )
    return session
