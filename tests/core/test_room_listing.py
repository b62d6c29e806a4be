"""A room's entry: properties that can be shown and searched, codes to be read out, passwords that are not kept."""

import copy
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from holdfast.core.codecs import CODECS
from holdfast.core.errors import Invalid
from holdfast.core.room_listing import (
    CODE_LENGTH,
    CODE_LETTERS,
    PropertyDict,
    RoomListing,
    RoomStatus,
    RoomStep,
    check_properties,
    join_code,
    spelled,
)
from holdfast.core.tables import IllegalTransition
from holdfast.schemas.room import PasswordHash
from tests.cases import every_case

BYTES_MAX = 2048


# Properties


class Watched:
    """Properties, and how often they said that they were changed."""

    def __init__(self, **values: Any) -> None:
        self.changes = 0
        self.properties = PropertyDict(values, self._changed)

    def _changed(self) -> None:
        self.changes += 1


def test_properties_are_what_they_were_made_of_and_that_is_no_change() -> None:
    watched = Watched(map="sea", level=3)

    assert watched.properties == {"map": "sea", "level": 3}
    assert watched.changes == 0


CHANGES = {
    "assign": lambda p: p.__setitem__("map", "cave"),
    "delete": lambda p: p.__delitem__("map"),
    "update": lambda p: p.update({"a": 1, "b": 2}, c=3),
    "or": lambda p: p.__ior__({"a": 1}),
    "setdefault": lambda p: p.setdefault("new", 1),
    "pop": lambda p: p.pop("map"),
    "popitem": lambda p: p.popitem(),
    "clear": lambda p: p.clear(),
}


@every_case("how", CHANGES)
def test_every_change_is_told_once_and_after_it_was_made(how: str) -> None:
    seen: list[dict[str, Any]] = []
    properties = PropertyDict({"map": "sea", "level": 3}, lambda: seen.append(dict(properties)))
    plain = {"map": "sea", "level": 3}

    CHANGES[how](properties)
    CHANGES[how](plain)

    assert seen == [plain]


def test_a_change_that_fails_is_not_told() -> None:
    watched = Watched(map="sea")

    for attempt in (lambda: watched.properties.pop("absent"), lambda: watched.properties.__delitem__("absent")):
        with pytest.raises(KeyError):
            attempt()

    assert watched.changes == 0


def test_to_look_for_what_is_not_there_is_no_change() -> None:
    watched = Watched(map="sea")

    assert watched.properties.pop("absent", None) is None
    assert watched.properties.setdefault("map", "cave") == "sea"
    assert watched.changes == 0


def test_or_with_an_equals_sign_goes_on_with_the_same_properties() -> None:
    watched = Watched(map="sea")
    properties = watched.properties

    properties |= {"level": 1}

    assert properties is watched.properties
    assert properties == {"map": "sea", "level": 1}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, dict.copy, dict], ids=["copy", "deep", "method", "dict"])
def test_a_copy_is_a_plain_dict_that_changes_nothing(copied: Any) -> None:
    watched = Watched(tags=["a"])

    other = copied(watched.properties)
    other["map"] = "cave"

    assert type(other) is dict
    assert watched.changes == 0
    assert watched.properties == {"tags": ["a"]}


# What can be a property


@every_case(
    "value",
    ["", "sea", 0, -5, 2**63 - 1, -(2**63), 0.5, True, False, [], ["a", 1, 0.5, True], ("a", "b"), "ünï 🎲"],
)
def test_text_numbers_booleans_and_lists_of_them_are_properties(value: Any) -> None:
    check_properties({"x": value}, BYTES_MAX)


@every_case(
    "value",
    [
        None,
        b"bytes",
        {"a": 1},
        {1, 2},
        object(),
        [None],
        [["nested"]],
        [{"a": 1}],
        2**64,
        -(2**63) - 1,
        2**70,
        float("nan"),
        float("inf"),
        [1.0, float("-inf")],
        "\ud800",
        ["\udfff"],
    ],
    ids=lambda value: type(value).__name__ + ascii(value)[:24].partition(" object at")[0],
)
def test_nothing_else_is(value: Any) -> None:
    with pytest.raises(Invalid, match=r"^properties: "):
        check_properties({"x": value}, BYTES_MAX)


@pytest.mark.parametrize("name", ["", "n" * 65, 5, None, "\ud800"], ids=repr)
def test_a_property_has_a_name_of_1_to_64_characters(name: Any) -> None:
    with pytest.raises(Invalid, match=r"^properties: "):
        check_properties({name: 1}, BYTES_MAX)

    check_properties({"n" * 64: 1}, BYTES_MAX)


def test_a_room_has_64_properties_at_most() -> None:
    check_properties({f"p{number}": number for number in range(64)}, BYTES_MAX)

    with pytest.raises(Invalid, match="65 are more than the 64"):
        check_properties({f"p{number}": number for number in range(65)}, BYTES_MAX)


def test_properties_have_so_many_bytes_at_most_in_every_dialect() -> None:
    # JSON writes a quote as two characters: what fits in MessagePack need not fit in JSON.
    quotes = {"x": '"' * 60}
    sizes = {codec.name: len(codec.encode(quotes)) for codec in CODECS.values()}
    least, most = min(sizes.values()), max(sizes.values())
    assert least < most

    check_properties(quotes, most)
    with pytest.raises(Invalid, match=f"{most} bytes are more than the {most - 1}"):
        check_properties(quotes, most - 1)


# Codes


def test_a_code_has_six_letters_and_follows_from_the_numbers() -> None:
    assert join_code(range(CODE_LENGTH)) == CODE_LETTERS[:6]
    assert join_code([0] * CODE_LENGTH) == CODE_LETTERS[0] * 6
    assert set(join_code(range(256))) == set(CODE_LETTERS)


@every_case("group", ["0O", "1IL", "2Z", "5S", "6G", "8B", "UV"])
def test_of_letters_that_look_alike_a_code_has_one_at_most(group: str) -> None:
    assert len(set(group) & set(CODE_LETTERS)) <= 1


def test_a_code_makes_no_words() -> None:
    assert not set("AEIOU") & set(CODE_LETTERS)
    assert len(CODE_LETTERS) == len(set(CODE_LETTERS))
    assert CODE_LETTERS.upper() == CODE_LETTERS


@every_case("typed", ["bcd-fgh", " B C D F G H ", "bcdfgh", "BCD.FGH\n", "8CDF6H", "bcd f6h"])
def test_a_code_is_found_however_it_was_typed(typed: str) -> None:
    assert spelled(typed) == "BCDFGH"


def test_a_code_that_can_be_made_is_spelled_as_it_was_made() -> None:
    assert spelled(CODE_LETTERS) == CODE_LETTERS
    assert spelled(CODE_LETTERS.lower()) == CODE_LETTERS


def test_what_no_code_can_have_is_not_made_into_another_letter() -> None:
    assert spelled("0O1IL_?ä") == ""


# Passwords


def test_a_password_of_an_old_record_is_still_known() -> None:
    record = msgspec.msgpack.encode([b"salt", sha256(b"saltsesame").digest()])

    kept = msgspec.msgpack.decode(record, type=PasswordHash)

    assert kept.is_old


def test_a_new_password_is_read_back_and_not_shown() -> None:
    kept = PasswordHash(argon2="$argon2id$…")

    assert not kept.is_old
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(kept), type=PasswordHash) == kept
    assert repr(kept) == "PasswordHash(***)"


# Life


def test_a_room_begins_as_creating_and_ends_with_its_first_reason() -> None:
    listing = RoomListing()
    assert (listing.status, listing.reason, listing.is_over) == (RoomStatus.CREATING, "", False)

    listing.happened(RoomStep.ACTIVATED)
    listing.happened(RoomStep.CLOSED, "closed")
    assert (listing.status, listing.is_over) == (RoomStatus.ENDING, False)
    listing.happened(RoomStep.DESTROYED)

    assert (listing.status, listing.reason, listing.is_over) == (RoomStatus.ENDED, "closed", True)


def test_what_a_room_cannot_go_through_changes_nothing() -> None:
    listing = RoomListing()
    listing.happened(RoomStep.BROKEN, "abandoned")

    with pytest.raises(IllegalTransition):
        listing.happened(RoomStep.ACTIVATED, "no")

    assert (listing.status, listing.reason, listing.is_over) == (RoomStatus.FAILED, "abandoned", True)
