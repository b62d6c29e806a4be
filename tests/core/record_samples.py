"""Records for tests: one of each kind, strategies for any, and how they compare."""

from typing import Any
from zlib import crc32

import msgspec
from hypothesis import strategies as st
from msgspec import Raw, Struct

from holdfast.core.records import PARTS_NONE, encode_listed
from holdfast.schemas.ban import BanRecord
from holdfast.schemas.player import SeatRecord
from holdfast.schemas.room import (
    CreationKey,
    EffectRecord,
    GroupRecord,
    ListingRecord,
    ObjectsRecord,
    PasswordHash,
    ReservationRecord,
    RoomRecord,
    TimerRecord,
)
from holdfast.schemas.session import ChannelRecord, Fork, Reached, SendRecord, SessionRecord, StandingRecord


def listed(entry: SeatRecord | ObjectsRecord | TimerRecord | GroupRecord) -> Raw:
    """An entry as a room's record has it."""
    return Raw(encode_listed(entry))


# Anything that can be said in MessagePack, as a game's own data is.
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
raws = values.map(lambda value: Raw(msgspec.msgpack.encode(value)))
numbers = st.integers(0, 2**53 - 1)
times = st.floats(0.0, 1e12)
hashes = st.binary(min_size=32, max_size=32)
messages = st.tuples(st.text(), st.binary(max_size=40))
channels = st.builds(
    ChannelRecord,
    number=numbers,
    generation=numbers,
    applied=numbers,
    last_seq=numbers,
    kept=st.lists(messages, max_size=3),
    is_finished=st.booleans(),
    is_overflowed=st.booleans(),
)
seats = st.builds(
    SeatRecord,
    player=st.text(),
    session=st.text(),
    data=raws,
    number=numbers,
    channel=st.none() | channels,
    rewound_s=st.none() | times,
    name=st.text(),
)
buckets = st.builds(ObjectsRecord, number=numbers, owners=st.dictionaries(st.text(), numbers, max_size=3))
timers = st.builds(
    TimerRecord,
    number=numbers,
    due_at=times,
    method=st.text(),
    arguments=st.lists(st.tuples(st.text(), values), max_size=3),
    name=st.text(),
    every_s=times,
)
groups = st.builds(GroupRecord, number=numbers, name=st.text(), seats=st.lists(numbers, max_size=3))
listings = st.builds(
    ListingRecord,
    name=st.text(),
    visibility=st.sampled_from(["public", "private"]),
    password=st.none() | st.builds(PasswordHash, salt=st.binary(max_size=16), digest=hashes),
    creator=st.text(),
    code=st.text(),
    creation_key=st.none() | st.builds(CreationKey, creator=st.text(), key=st.text(), request=hashes),
    join_policy=st.sampled_from(["accept_all", "deny_all"]),
    version=numbers,
    host=st.text(),
    successor=st.text(),
    reservations=st.lists(
        st.builds(
            ReservationRecord,
            player=st.text(),
            until=times,
            by=st.text(),
            is_placed=st.booleans(),
            options=st.none() | st.binary(max_size=8),
        ),
        max_size=3,
    ),
)
rooms = st.builds(
    RoomRecord,
    kind=st.text(),
    node=st.text(),
    epoch=numbers,
    index=numbers,
    previous=hashes,
    saved_at=times,
    phase=st.sampled_from(["lobby", "playing"]),
    is_locked=st.booleans(),
    max_players=numbers,
    was_joined=st.booleans(),
    properties=raws,
    random=st.integers(0, 2**64 - 1),
    state=raws,
    has_state_beside=st.booleans(),
    seats=st.lists(seats.map(listed), max_size=3),
    objects=st.lists(buckets.map(listed), max_size=3),
    timers=st.lists(timers.map(listed), max_size=2),
    parts=hashes,
    created_at=times,
    is_final=st.booleans(),
    listing=listings,
    clock=times,
    groups=st.lists(groups.map(listed), max_size=2),
)
replies = st.tuples(numbers, st.none() | st.binary(max_size=40), st.none() | st.tuples(st.text(), st.text()))
sessions = st.builds(
    SessionRecord,
    player=st.text(),
    codec=st.text(),
    proven_roles=st.lists(st.text(), max_size=3),
    epoch=numbers,
    room=st.text(),
    channels_opened=numbers,
    closing=st.lists(channels, max_size=2),
    token=hashes,
    next_token=hashes | st.just(b""),
    retired_tokens=st.lists(hashes, max_size=3),
    last_request=numbers,
    requests_announced=numbers,
    replies=st.lists(replies, max_size=3),
    sign_outs=numbers,
    signed_in_at=times,
    address=st.text(),
    account=st.text(),
    name=st.text(),
    inbox=st.none() | channels,
    features=st.lists(st.text(), max_size=2),
)
sends = st.builds(
    SendRecord, session=st.text(), messages=st.lists(st.tuples(st.text(), st.binary(max_size=40)), max_size=3)
)
bans = st.builds(BanRecord, subject=st.text(), why=st.text(), until=times, since=times)
standings = st.builds(StandingRecord, player=st.text(), sign_out=numbers, not_before=times)
effects = st.builds(EffectRecord, name=st.text(), room=st.text(), payload=raws)

CHANNEL = ChannelRecord(1, 2, 30, 40, [("said", b"\x81\xa4text\xa2hi"), ("said", b"\xc0")], is_finished=True)
SEAT = SeatRecord(
    *("ada", "s-1", Raw(b"\x81\xa2hp\x64"), 4, CHANNEL, 2.5, "Ada (2)"), options=Raw(b"\x81\xa5level\x07")
)
OBJECTS = ObjectsRecord(9, {"sword": 4, "door": 0})
GROUP = GroupRecord(3, "red", [4, 7])
TIMER = TimerRecord(2, 5000.0, "explode", [("player", "ada"), ("value", 7)], "fuse", 2.5)
LISTING = ListingRecord(
    name="the desert",
    visibility="private",
    password=PasswordHash(b"salt", bytes(range(32))),
    creator="ada",
    code="BCDFGH",
    creation_key=CreationKey("ada", "key-1", bytes(range(32))),
    join_policy="deny_all",
    version=7,
    host="ada",
    successor="bob",
    reservations=[ReservationRecord("bob", 1.8e9, "ada", options=b"\x81\xa5level\x07")],
)
ROOM = RoomRecord(
    kind="arena",
    node="n-1",
    epoch=3,
    index=17,
    previous=bytes(range(32)),
    saved_at=1.8e9,
    phase="playing",
    is_locked=False,
    max_players=8,
    was_joined=True,
    properties=Raw(b"\x81\xa3map\xa6desert"),
    random=2**63,
    state=Raw(b"\x91\x01"),
    has_state_beside=False,
    seats=[listed(SEAT)],
    objects=[listed(OBJECTS)],
    timers=[listed(TIMER)],
    parts=PARTS_NONE,
    created_at=1.7e9,
    is_final=False,
    listing=LISTING,
    clock=4000.0,
    groups=[listed(GROUP)],
)
SESSION = SessionRecord(
    player="ada",
    codec="holdfast.v1.msgpack",
    proven_roles=["admin"],
    epoch=4,
    room="r-1",
    channels_opened=2,
    closing=[CHANNEL],
    token=bytes(32),
    next_token=b"",
    retired_tokens=[bytes(range(32))],
    last_request=2,
    requests_announced=3,
    replies=[(1, b"\xc0", None), (2, None, ("room_full", "no seat"))],
    sign_outs=5,
    signed_in_at=1.7e9,
    address="203.0.113.7",
    lineage="q83vASNF",
    forks=[Fork("", 2, 3, [Reached(2, 1, 9, 7)], 12.5)],
    account="ada",
    name="Ada",
    inbox=ChannelRecord(3, 1, 0, 7, [("holdfast.announcement", b"\x81\xa4text\xa4soon")]),
    features=["session"],
)
SEND = SendRecord("s-1", [("said", b"\x81\xa4text\xa2hi")])
BAN = BanRecord("player:ada", "be nice", 1.8e9, 1.7e9)
STANDING = StandingRecord("ada", 5, 1.7e9)
EFFECT = EffectRecord("pay", "r-1", Raw(b"\x81\xa6amount\x05"))


def plain(record: Struct) -> dict[str, Any]:
    """The fields of a record, to be compared: `Raw` does not compare."""
    return {name: _plain(value) for name, value in msgspec.structs.asdict(record).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return bytes(value) if isinstance(value, Raw) else value


def fields_of(record: Struct) -> list[Any]:
    """The fields as values all the way down, as a migration sees them."""
    fields: list[Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(record))
    return fields


def sealed(version: int, fields: bytes) -> bytes:
    """Fields behind the head that a record has."""
    return bytes([version]) + crc32(fields, version).to_bytes(4, "big") + fields


def written(version: int, fields: list[Any]) -> bytes:
    """A record as a server of that version wrote it."""
    return sealed(version, msgspec.msgpack.encode(fields))
