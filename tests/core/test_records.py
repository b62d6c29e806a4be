"""Records: what was written is read again, by this version and later ones, or it is `Unreadable` and nothing else."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from holdfast.core import records
from holdfast.core.records import (
    Unreadable,
    decode_ban,
    decode_effect,
    decode_room,
    decode_send,
    decode_session,
    decode_standing,
    encode,
    groups_of,
    owners_of,
    seats_of,
    timers_of,
)
from holdfast.schemas.ban import BanRecord
from holdfast.schemas.player import SeatRecord
from holdfast.schemas.room import EffectRecord, GroupRecord, ListingRecord, ObjectsRecord, RoomRecord, TimerRecord
from holdfast.schemas.session import SendRecord, SessionRecord, StandingRecord
from tests.cases import every_case
from tests.core.record_samples import (
    BAN,
    CHANNEL,
    EFFECT,
    LISTING,
    ROOM,
    SEAT,
    SEND,
    SESSION,
    STANDING,
    TIMER,
    bans,
    buckets,
    effects,
    fields_of,
    groups,
    listed,
    numbers,
    plain,
    rooms,
    sealed,
    seats,
    sends,
    sessions,
    standings,
    timers,
    written,
)

KEY = "room/r-1"
Decode = Callable[[bytes], Any]
EACH = [
    (ROOM, decode_room),
    (SESSION, decode_session),
    (SEND, decode_send),
    (EFFECT, decode_effect),
    (BAN, decode_ban),
    (STANDING, decode_standing),
]
KINDS = ["room", "session", "send", "effect", "ban", "standing"]
each_record = pytest.mark.parametrize(("record", "decode"), EACH, ids=KINDS)
each_decoder = pytest.mark.parametrize("decode", [decode for _, decode in EACH], ids=KINDS)


# Written and read


@given(record=rooms)
def test_a_room_is_read_as_it_was_written(record: RoomRecord) -> None:
    assert plain(decode_room(encode(record))) == plain(record)


@given(record=sessions)
def test_a_session_is_read_as_it_was_written(record: SessionRecord) -> None:
    assert decode_session(encode(record)) == record


@given(record=sends)
def test_messages_to_a_session_are_read_as_they_were_written(record: SendRecord) -> None:
    assert decode_send(encode(record)) == record


@given(record=effects)
def test_an_effect_is_read_as_it_was_written(record: EffectRecord) -> None:
    assert plain(decode_effect(encode(record))) == plain(record)


@given(record=bans)
def test_a_ban_is_read_as_it_was_written(record: BanRecord) -> None:
    assert decode_ban(encode(record)) == record


@given(record=standings)
def test_a_player_s_access_is_read_as_it_was_written(record: StandingRecord) -> None:
    assert decode_standing(encode(record)) == record


@given(seat=seats, bucket=buckets, timer=timers, group=groups)
def test_the_entries_of_a_room_s_lists_are_read_as_they_were_written(
    seat: SeatRecord, bucket: ObjectsRecord, timer: TimerRecord, group: GroupRecord
) -> None:
    room = msgspec.structs.replace(
        ROOM, seats=[listed(seat)], objects=[listed(bucket)], timers=[listed(timer)], groups=[listed(group)]
    )

    assert [plain(each) for each in seats_of(room, KEY, {})] == [plain(seat)]
    assert owners_of(room, KEY, {}) == bucket.owners
    assert timers_of(room, KEY, {}) == [timer]
    assert groups_of(room, KEY, {}) == [group]


def test_a_room_of_before_groups_has_none() -> None:
    fields = fields_of(ROOM)
    older = written(records.VERSION, fields[: ROOM.__struct_fields__.index("groups")])

    assert groups_of(decode_room(older), KEY, {}) == []


@each_record
def test_a_record_is_the_same_bytes_every_time(record: Any, decode: Decode) -> None:
    # The ledger looks for its own words in the store when a commit gave no answer.
    assert encode(decode(encode(record))) == encode(record)


@each_record
def test_a_field_that_a_later_server_appended_is_passed_over(record: Any, decode: Decode) -> None:
    stored = written(records.VERSION, [*fields_of(record), "from the future"])

    assert plain(decode(stored)) == plain(record)


def test_a_timer_of_before_a_field_was_appended_is_one_call_without_a_name() -> None:
    older = Raw(msgspec.msgpack.encode(fields_of(TIMER)[:4]))

    (timer,) = timers_of(msgspec.structs.replace(ROOM, timers=[older]), KEY, {})

    assert timer == msgspec.structs.replace(TIMER, name="", every_s=0.0)


@pytest.mark.parametrize("fields", [4, 5, 6])
def test_a_seat_of_before_a_field_was_appended_has_its_default(fields: int) -> None:
    older = Raw(msgspec.msgpack.encode(fields_of(SEAT)[:fields]))

    (seat,) = seats_of(msgspec.structs.replace(ROOM, seats=[older]), KEY, {})

    assert seat.channel == (CHANNEL if fields >= 5 else None)
    assert seat.rewound_s == (SEAT.rewound_s if fields >= 6 else None)
    assert (seat.name, bytes(seat.options)) == ("", b"\xc0")


def test_a_session_of_before_sign_outs_were_numbered_began_before_all_of_them() -> None:
    older = written(records.VERSION, fields_of(SESSION)[: SESSION.__struct_fields__.index("sign_outs")])

    session = decode_session(older)

    assert (session.sign_outs, session.signed_in_at, session.address, session.name) == (0, 0.0, "", "")
    assert session.replies == SESSION.replies


LISTING_AT = RoomRecord.__struct_fields__.index("listing")


def test_a_room_of_before_there_were_listings_has_an_empty_one() -> None:
    older = written(records.VERSION, fields_of(ROOM)[:LISTING_AT])

    room = decode_room(older)

    assert room.listing == ListingRecord()
    assert (room.created_at, room.is_final) == (ROOM.created_at, ROOM.is_final)


@every_case("fields", range(len(ListingRecord.__struct_fields__)))
def test_a_listing_of_before_a_field_was_appended_has_its_default(fields: int) -> None:
    older = fields_of(ROOM)
    older[LISTING_AT] = older[LISTING_AT][:fields]

    listing = decode_room(written(records.VERSION, older)).listing

    names = ListingRecord.__struct_fields__
    assert [getattr(listing, name) for name in names[:fields]] == [getattr(LISTING, name) for name in names[:fields]]
    assert [getattr(listing, name) for name in names[fields:]] == [
        getattr(ListingRecord(), name) for name in names[fields:]
    ]


# Versions


def test_the_first_byte_is_the_version() -> None:
    assert encode(ROOM)[0] == encode(SESSION)[0] == records.VERSION


def test_an_older_version_is_brought_up_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now = fields_of(SESSION)
    monkeypatch.setattr(records, "VERSION", 3)
    # Say that version 1 had the roles in one text, version 2 the player behind a prefix.
    monkeypatch.setitem(records.MIGRATIONS[SessionRecord], 1, lambda old: [*old[:2], old[2].split(","), *old[3:]])
    monkeypatch.setitem(records.MIGRATIONS[SessionRecord], 2, lambda old: [old[0].removeprefix("player/"), *old[1:]])
    first = written(1, ["player/ada", now[1], "admin", *now[3:]])
    second = written(2, ["player/ada", *now[1:]])
    third = written(3, now)

    assert decode_session(first) == decode_session(second) == decode_session(third) == SESSION


def test_a_room_of_an_older_version_is_brought_up_with_its_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    names = list(RoomRecord.__struct_fields__)
    seats_at = names.index("seats")

    def named_first(old: list[Any]) -> list[Any]:
        turned = [[seat[1], seat[0], *seat[2:]] for seat in old[seats_at]]
        return [*old[:seats_at], turned, *old[seats_at + 1 :]]

    monkeypatch.setattr(records, "VERSION", 3)
    monkeypatch.setitem(records.MIGRATIONS[RoomRecord], 2, named_first)
    now = fields_of(ROOM)

    room = decode_room(written(2, named_first(now)))

    assert [plain(seat) for seat in seats_of(room, KEY, {})] == [plain(SEAT)]
    assert plain(room) == plain(ROOM)


def test_a_room_of_version_1_has_its_objects_timers_and_seats() -> None:
    names = list(RoomRecord.__struct_fields__)
    first = dict(zip(names, fields_of(ROOM), strict=True))
    first["saved_at"] = 1000.0
    first["seats"] = [["ada", "s-1", {"hp": 1}, ["sword", "bow"]], ["bob", "s-2", {}, ["axe"], fields_of(CHANNEL), 2.5]]
    first["objects"] = ["door"]
    first["timers"] = [[1060.0, "explode", [["value", 7]]], [1005.0, "ring", []]]
    for appended in names[LISTING_AT + 1 :]:
        del first[appended]

    room = decode_room(written(1, list(first.values())))
    older = decode_room(written(1, list(first.values())[:-1]))

    ada, bob = seats_of(room, KEY, {})
    assert (ada.player, ada.session, ada.number, ada.channel) == ("ada", "s-1", 1, None)
    assert (bob.player, bob.session, bob.number, bob.channel, bob.rewound_s) == ("bob", "s-2", 2, CHANNEL, 2.5)
    assert owners_of(room, KEY, {}) == {"door": 0, "sword": 1, "bow": 1, "axe": 2}
    assert [(timer.method, timer.due_at - room.clock) for timer in timers_of(room, KEY, {})] == [
        ("explode", 60.0),
        ("ring", 5.0),
    ]
    assert (room.listing, older.listing) == (LISTING, ListingRecord())
    assert older.clock == room.clock


@pytest.mark.parametrize(("record", "decode"), EACH[1:], ids=KINDS[1:])
def test_the_other_records_are_in_version_1_what_they_are_now(record: Any, decode: Decode) -> None:
    assert plain(decode(written(1, fields_of(record)))) == plain(record)


@each_record
def test_an_older_version_that_nobody_can_bring_up_is_unreadable(
    record: Any, decode: Decode, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = encode(record)
    monkeypatch.setattr(records, "VERSION", 3)

    with pytest.raises(Unreadable, match="version 2, which this server cannot migrate to 3"):
        decode(stored)


@each_record
@pytest.mark.parametrize("error", [TypeError, ValueError, KeyError, IndexError])
def test_a_migration_that_fails_makes_a_record_unreadable(
    record: Any, decode: Decode, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: list[Any]) -> list[Any]:
        raise error("not what I expected")

    stored = encode(record)
    monkeypatch.setattr(records, "VERSION", 3)
    for migrations in records.MIGRATIONS.values():
        monkeypatch.setitem(migrations, 2, fail)

    with pytest.raises(Unreadable):
        decode(stored)


@each_record
def test_a_newer_version_asks_for_a_newer_server(record: Any, decode: Decode) -> None:
    fields = fields_of(record)

    for version in (records.VERSION + 1, 255):
        with pytest.raises(Unreadable, match=f"has version {version}.*run a newer server"):
            decode(written(version, fields))


# What is no record


@each_decoder
@pytest.mark.parametrize("length", range(6))
def test_nothing_or_nearly_nothing_is_unreadable(decode: Decode, length: int) -> None:
    with pytest.raises(Unreadable):
        decode(bytes([records.VERSION, 0, 0, 0, 0, 0])[:length])


@each_record
def test_a_record_that_is_cut_short_anywhere_is_unreadable(record: Any, decode: Decode) -> None:
    stored = encode(record)

    for length in range(len(stored)):
        with pytest.raises(Unreadable):
            decode(stored[:length])


@each_record
def test_a_record_with_something_behind_it_is_unreadable(record: Any, decode: Decode) -> None:
    with pytest.raises(Unreadable):
        decode(encode(record) + b"\0")


@each_record
def test_a_record_with_any_one_bit_turned_is_unreadable(record: Any, decode: Decode) -> None:
    stored = encode(record)

    for place in range(len(stored)):
        for bit in range(8):
            damaged = bytearray(stored)
            damaged[place] ^= 1 << bit
            with pytest.raises(Unreadable):
                decode(bytes(damaged))


@each_decoder
@given(stored=st.binary(max_size=300))
def test_random_bytes_are_unreadable(decode: Decode, stored: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(stored)


@each_decoder
@given(version=st.integers(0, records.VERSION), fields=st.binary(max_size=300))
def test_random_fields_under_a_good_checksum_are_read_or_unreadable(
    decode: Decode, version: int, fields: bytes
) -> None:
    # Nobody writes that: it shows that reading raises nothing else, whatever it meets.
    with suppress(Unreadable):
        decode(sealed(version, fields))


@each_record
def test_a_wrong_turn_under_a_good_checksum_is_read_or_unreadable(record: Any, decode: Decode) -> None:
    fields = encode(record)[5:]

    for place in range(len(fields)):
        for octet in (0x00, 0x7F, 0x91, 0xA5, 0xC1, 0xC6, 0xD9, 0xDD, 0xDF, 0xFF):
            turned = fields[:place] + bytes([octet]) + fields[place + 1 :]
            with suppress(Unreadable):
                assert type(decode(sealed(records.VERSION, turned))) is type(record)


def test_fields_that_are_nested_without_end_are_unreadable() -> None:
    deep = b"\x91" * 100_000 + b"\xc0"
    fields = b"\x93\xa3pay\xa1r" + deep

    with pytest.raises(Unreadable):
        decode_effect(sealed(records.VERSION, fields))
    with pytest.raises(Unreadable, match="an entry of its lists"):
        seats_of(msgspec.structs.replace(ROOM, seats=[Raw(b"\x94\xa3ada\xa1s" + deep + b"\x01")]), KEY, {})


@given(stored=st.binary(max_size=100))
def test_random_bytes_for_a_seat_are_unreadable(stored: bytes) -> None:
    with pytest.raises(Unreadable, match="an entry of its lists"):
        seats_of(msgspec.structs.replace(ROOM, seats=[Raw(stored)]), KEY, {})


# What lies beside a record


@given(first=st.lists(numbers, unique=True, max_size=6), second=st.lists(numbers, unique=True, max_size=6))
def test_an_entry_in_the_record_takes_the_place_of_the_one_beside_it(first: list[int], second: list[int]) -> None:
    def seat(number: int, session: str) -> Raw:
        return listed(msgspec.structs.replace(SEAT, number=number, session=session))

    room = msgspec.structs.replace(ROOM, seats=[seat(number, "in the record") for number in first])
    beside = {f"{KEY}/@seats/{number}": bytes(seat(number, "beside it")) for number in second}
    beside |= {f"{KEY}/chunks/0": b"", f"{KEY}/state": b"", f"{KEY}x/@seats/1": b""}

    found = seats_of(room, KEY, beside)

    assert [each.number for each in found] == sorted({*first, *second})
    assert {each.number for each in found if each.session == "in the record"} == set(first)
