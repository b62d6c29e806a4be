"""A room's file, without a store: what is wrong with one is said in words."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast.core.records import PARTS_NONE, Unreadable, decode_room, digest, encode, groups_of
from holdfast.core.room_file import NotARoom, Past, from_text, room_entries, room_file, to_text
from holdfast.schemas.player import SeatRecord
from holdfast.schemas.room import CreationKey, ListingFile, ListingRecord, PasswordHash, RoomFile, RoomRecord
from tests.cases import every_case

FILE: dict[str, Any] = {
    "format": "holdfast-room",
    "version": 1,
    "id": "r1",
    "kind": "arena",
    "phase": "playing",
    "is_locked": False,
    "max_players": 8,
    "was_joined": True,
    "listing": {
        "name": "the desert",
        "visibility": "private",
        "creator": "ada",
        "code": "BCDFGH",
        "join_policy": "deny_all",
        "version": 7,
        "host": "ada",
        "successor": "bob",
        "reservations": [
            {
                "player": "bob",
                "until": "2026-11-14T12:01:00Z",
                "by": "ada",
                "is_placed": True,
                "options": {"weapon": "bow"},
            }
        ],
    },
    "properties": {"map": "desert"},
    "state": {"score": {"$map": [[1, 10]]}, "seed": {"$bytes": "AP8="}},
    "parts": {"chunks": {"0,0": [1, 2, 3]}},
    "players": [
        {
            "id": "ada",
            "data": {"hp": 100},
            "owned": ["flag"],
            "stream": None,
            "name": "Ada",
            "groups": ["red", "scouts"],
            "agent": "",
            "options": {"weapon": {"$bytes": "AP8="}},
        }
    ],
    "objects": ["ball"],
    "timers": [
        {
            "due_at": "2026-11-15T00:00:00Z",
            "method": "ring",
            "arguments": [{"player": "ada"}, {"spectator": "bob"}, {"value": 5}],
            "name": "bell",
            "every_s": 60.0,
        }
    ],
    "random": "0xdeadbeef",
    "created_at": "2026-11-14T00:00:00Z",
    "saved_at": "2026-11-14T12:00:00.500000Z",
    "epoch": 3,
    "index": 17,
    "hash": "ab" * 32,
}
KEY = "room/r1"


def entries_of(content: Any, past: Past | None = None) -> dict[str, bytes]:
    return room_entries(from_text(json.dumps(content)), KEY, past)


def file_of(entries: dict[str, bytes]) -> dict[str, Any]:
    beside = {key: value for key, value in entries.items() if key != KEY}
    found = json.loads(to_text(room_file("r1", entries[KEY], beside, KEY)))
    assert isinstance(found, dict)
    return found


def test_a_file_becomes_entries_and_these_become_the_file() -> None:
    entries = entries_of(FILE)

    again = file_of(entries)

    assert again == {**FILE, "epoch": 4, "index": 18, "hash": digest(entries[KEY]).hex()}


def test_the_record_goes_on_from_the_one_in_the_file_as_another_owner_s() -> None:
    record = decode_room(entries_of(FILE)[KEY])

    assert (record.epoch, record.index, record.previous) == (4, 18, bytes.fromhex(FILE["hash"]))


def test_the_record_goes_on_from_the_one_it_takes_the_place_of() -> None:
    record = decode_room(entries_of(FILE, Past(9, 100, b"h" * 32))[KEY])

    assert (record.epoch, record.index, record.previous) == (10, 101, b"h" * 32)


def test_seats_are_held_by_player_id_without_a_session_or_a_stream() -> None:
    [seat] = decode_room(entries_of(FILE)[KEY]).seats

    found = msgspec.msgpack.decode(seat, type=SeatRecord)

    assert (found.player, found.session, found.number, found.channel) == ("ada", "", 1, None)


def test_parts_that_do_not_belong_to_the_record_cannot_be_exported() -> None:
    entries = entries_of(FILE)
    [part] = [key for key in entries if key != KEY]
    entries[part] += b"!"

    with pytest.raises(Unreadable, match="parts are missing or damaged"):
        file_of(entries)


def test_what_is_short_stands_on_one_line_and_the_rest_is_broken_up() -> None:
    text = to_text(from_text(json.dumps({**FILE, "state": {"long": ["word"] * 30, "short": [1, 2]}})))

    assert '\n  "max_players": 8,\n' in text
    assert '\n    "short": [1, 2]\n' in text
    assert max(map(len, text.splitlines())) <= 120


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda file: file.pop(name)


def with_(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda file: file.update(changes)


def with_listing(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return with_(listing={**FILE["listing"], **changes})


@every_case(
    ("spoil", "says"),
    [
        (with_(format="other"), 'its "format" is not "holdfast-room"'),
        (with_(version=99), "it is of version 99, and this Holdfast reads up to 1: use a newer one"),
        (without("state"), "missing required field `state`"),
        (with_(colour="red"), "unknown field `colour`"),
        (with_(max_players="many"), "max_players: Expected `int`, got `str`"),
        (with_(max_players=0), "max_players: it must be 1 or more, not 0"),
        (with_(phase="over"), "phase: Invalid enum value 'over'"),
        (with_(state={"seams": {"$bytes": "?"}}), r"state\.seams: invalid '\$bytes'"),
        (with_(state=2**70), r"ints < -2\*\*63 or > 2\*\*64 - 1"),
        (with_(properties={"$int": "5"}), "properties: they must be an object"),
        (with_(random="0x1ffffffffffffffff"), "has more than 64 bits"),
        (with_(random="dice"), "invalid literal"),
        (with_(objects=["ball", "flag"]), "object 'flag' is there twice"),
        (with_(saved_at="yesterday"), "Invalid RFC3339"),
        (with_(hash="ab"), "hash: it must have 64 hex"),
        (with_(hash="zz" * 32), "hash: it must have 64 hexadecimal digits"),
        (with_(players=[{"id": "ada", "data": {}}]), r"players\[0\]: .* missing required field `owned`"),
        (with_listing(name="n" * 129), r"listing\.name: Expected `str` of length <= 128"),
        (with_listing(visibility="secret"), r"listing\.visibility: Invalid enum value 'secret'"),
        (with_listing(join_policy="some"), r"listing\.join_policy: Invalid enum value 'some'"),
        (with_listing(version=0), r"listing\.version: Expected `int` >= 1"),
        (with_listing(code="BCDF"), r"listing\.code: 'BCDF' is no code"),
        (with_listing(code="OOOOOO"), r"listing\.code: 'OOOOOO' is no code"),
        (with_listing(password="sesame"), "listing: .* unknown field `password`"),
        (with_listing(reservations=[{"player": "bob", "until": "soon"}]), "RFC3339 encoded datetime"),
        (with_listing(reservations=[{"player": "", "until": "2026-11-14T12:01:00Z"}]), "length >= 1"),
        (with_(players=[{**FILE["players"][0], "groups": [""]}]), r"players\[0\]\.groups: a group needs a name"),
        (with_(timers=[{**FILE["timers"][0], "arguments": [{}]}]), r"timers\[0\]\.arguments: an argument is"),
        (with_(timers=[{**FILE["timers"][0], "arguments": [{"player": 5}]}]), "an argument is {"),
        (with_(timers=[{**FILE["timers"][0], "arguments": [{"spectator": 5}]}]), "an argument is {"),
        (with_(timers=[FILE["timers"][0], FILE["timers"][0]]), r"timers: two have the same name, .*\['bell', 'bell'\]"),
        (with_(timers=[{**FILE["timers"][0], "every_s": -1.0}]), r"timers\[0\]\.every_s: it must be 0\.001 or more"),
        (with_(timers=[{**FILE["timers"][0], "every_s": 1e-9}]), r"timers\[0\]\.every_s: it must be 0\.001 or more"),
    ],
)
def test_a_file_that_is_no_room_is_refused_in_words(spoil: Callable[[dict[str, Any]], None], says: str) -> None:
    content = {**FILE}
    spoil(content)

    with pytest.raises(NotARoom, match=says):
        entries_of(content)


def test_a_record_with_a_state_that_is_not_to_be_had_cannot_be_exported() -> None:
    record = decode_room(entries_of({**FILE, "parts": {}})[KEY])
    beside = encode(RoomRecord(**{**_fields(record), "has_state_beside": True, "parts": PARTS_NONE}))

    with pytest.raises(Unreadable):
        room_file("r1", beside, {}, KEY)


def _fields(record: RoomRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def test_groups_are_with_their_players_in_the_order_in_which_they_began() -> None:
    players: list[Any] = [
        {"id": "ada", "data": {}, "owned": [], "stream": None, "groups": groups}
        for groups in (["blue"], [], ["scouts", "blue", "scouts"])
    ]

    entries = entries_of({**FILE, "players": players})

    groups = groups_of(decode_room(entries[KEY]), KEY, {})
    assert [(group.number, group.name, group.seats) for group in groups] == [(1, "blue", [1, 3]), (2, "scouts", [3])]
    assert [player["groups"] for player in file_of(entries)["players"]] == [["blue"], [], ["blue", "scouts"]]


def test_every_field_of_a_record_has_its_place_in_the_file_or_a_reason_to_be_left_out() -> None:
    left_out = {
        "node",  # who wrote it last
        "previous",  # the file goes on from `hash`
        "has_state_beside",  # where the store has it
        "is_final",  # a file is
        "clock",  # timers go by the wall clock in a file
        "spectators",  # they are no part of the game
    }
    elsewhere = {"seats": "players", "groups": "players"}

    fields = {elsewhere.get(name, name) for name in RoomRecord.__struct_fields__ if name not in left_out}

    assert fields <= set(RoomFile.__struct_fields__)


def test_a_timer_of_before_names_and_repeated_calls_is_one_call_without_a_name() -> None:
    older = {name: FILE["timers"][0][name] for name in ("due_at", "method", "arguments")}

    again = file_of(entries_of({**FILE, "timers": [older, older]}))

    assert again["timers"] == [{**older, "name": "", "every_s": 0.0}] * 2


def test_every_field_of_a_listing_has_its_place_in_the_file_or_a_reason_to_be_left_out() -> None:
    left_out = {
        "password",  # its hash could be guessed by who has the file
        "creation_key",  # a copy is not what was asked for with that key
    }

    assert set(ListingRecord.__struct_fields__) - left_out == set(ListingFile.__struct_fields__)


def test_neither_a_password_nor_an_idempotency_key_is_in_the_file() -> None:
    record = decode_room(entries_of({**FILE, "parts": {}})[KEY])
    password = PasswordHash(b"salt", b"sesame, hashed")
    listing = ListingRecord(name="x", password=password, creation_key=CreationKey("ada", "the-key", b"wish"))

    text = to_text(room_file("r1", encode(RoomRecord(**{**_fields(record), "listing": listing})), {}, KEY))

    assert "password" not in text
    assert "the-key" not in text
    assert json.loads(text)["listing"]["name"] == "x"


def test_a_file_from_before_there_were_listings_is_a_public_room_without_a_name() -> None:
    older = {name: value for name, value in FILE.items() if name != "listing"}

    assert decode_room(entries_of(older)[KEY]).listing == ListingRecord()
