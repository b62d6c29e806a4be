"""A change of a room's entry is made whole, or refused and nothing is changed."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.core.listed_room import apply_update, open_seats
from holdfast.core.room import Room, context_of
from holdfast.core.session import Player
from holdfast.schemas.requests import Update
from holdfast.schemas.room import PasswordHash
from tests.cases import every_case
from tests.core.room_samples import Desk, an_arena, reserved, seated
from tests.core.samples import Hero

BYTES_MAX = 2048


KEPT = PasswordHash(argon2="of sesame")


def update(room: Room[Any], **changes: Any) -> Player[Any] | None:
    return apply_update(room, Update(room.id, **changes), BYTES_MAX, KEPT if changes.get("password") else None)


def a_room() -> tuple[Room[Hero], Desk]:
    room, desk = an_arena()
    context_of(room).set_properties({"map": "sea", "level": 3})
    return room, desk


def facts(room: Room[Any]) -> tuple[Any, ...]:
    listing = context_of(room).listing
    return (
        listing.name,
        dict(room.properties),
        room.max_players,
        listing.join_policy,
        room.is_locked,
        listing.visibility,
        listing.password,
        listing.version,
        room.host,
    )


def test_everything_can_be_changed_at_once() -> None:
    room, _ = a_room()

    update(
        room,
        name="the cave",
        set={"map": "cave", "tags": ["dark"]},
        remove=["level"],
        max_players=2,
        join_policy="deny_all",
        locked=True,
        visibility="private",
        password="sesame",
    )

    assert room.name == "the cave"
    assert room.properties == {"map": "cave", "tags": ["dark"]}
    assert (room.max_players, room.is_locked) == (2, True)
    assert (context_of(room).listing.join_policy, context_of(room).listing.visibility) == ("deny_all", "private")
    assert context_of(room).listing.password is KEPT


@every_case(
    ("change", "now"),
    [
        ({"name": "x"}, lambda room: room.name == "x"),
        ({"set": {"a": 1}}, lambda room: room.properties == {"map": "sea", "level": 3, "a": 1}),
        ({"remove": ["map"]}, lambda room: room.properties == {"level": 3}),
        ({"max_players": 1}, lambda room: room.max_players == 1),
        ({"join_policy": "deny_all"}, lambda room: context_of(room).listing.join_policy == "deny_all"),
        ({"locked": True}, lambda room: room.is_locked),
        ({"visibility": "private"}, lambda room: context_of(room).listing.visibility == "private"),
        ({"password": "sesame"}, lambda room: context_of(room).listing.password is not None),
        ({}, lambda _: True),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "then",
)
def test_what_is_not_named_stays_and_the_version_grows_by_one(
    change: dict[str, Any], now: Callable[[Room[Any]], bool]
) -> None:
    room, desk = a_room()
    before = facts(room)

    update(room, **change)

    after = facts(room)
    assert now(room)
    assert sum(old != new for old, new in zip(before, after, strict=True)) == len(change) + 1
    assert context_of(room).listing.version == before[7] + 1
    assert desk.listings == 1


def test_what_was_set_can_be_taken_back() -> None:
    room, _ = a_room()
    update(room, name="x", locked=True, join_policy="deny_all", visibility="private", password="sesame")

    update(room, name="", locked=False, join_policy="accept_all", visibility="public", password="")

    assert (room.name, room.is_locked, context_of(room).listing.password) == ("", False, None)
    assert (context_of(room).listing.join_policy, context_of(room).listing.visibility) == ("accept_all", "public")


def test_to_remove_what_is_not_there_is_no_mistake_and_what_is_set_and_removed_is_gone() -> None:
    room, _ = a_room()

    update(room, set={"a": 1}, remove=["a", "absent"])

    assert room.properties == {"map": "sea", "level": 3}


def test_a_game_that_kept_the_properties_has_the_new_ones_too() -> None:
    room, _ = a_room()
    kept = room.properties

    update(room, set={"map": "cave"})
    version = context_of(room).listing.version
    kept["level"] = 4

    assert room.properties == {"map": "cave", "level": 4}
    assert context_of(room).listing.version == version + 1


# Refusals


REFUSED: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"if_version": 0}, Conflict),
    ({"if_version": 2}, Conflict),
    ({"max_players": 0}, Invalid),
    ({"max_players": -1}, Invalid),
    ({"max_players": 4}, Invalid),
    ({"set": {"x": None}}, Invalid),
    ({"set": {"x": "y" * 3000}}, Invalid),
    ({"host": "nobody"}, NotFound),
    ({"host": "rex"}, NotFound),
]


@every_case(("change", "error"), REFUSED, ids=str)
def test_a_refused_change_changes_nothing(change: dict[str, Any], error: type[Exception]) -> None:
    room, desk = a_room()
    seated(room, "ada")
    # One whose seat is only reserved is not in the room yet.
    reserved(room, "rex")
    everything = {"name": "x", "locked": True, "join_policy": "deny_all", "visibility": "private", "password": "p"}
    before, listings = facts(room), desk.listings

    with pytest.raises(error):
        update(room, **everything, **change)

    assert facts(room) == before
    assert desk.listings == listings


def test_the_version_that_is_asked_for_must_be_the_one_there_is() -> None:
    room, _ = a_room()

    update(room, name="first", if_version=1)
    with pytest.raises(Conflict, match="version 2 now, not 1"):
        update(room, name="second", if_version=1)
    update(room, name="third", if_version=2)

    assert (room.name, context_of(room).listing.version) == ("third", 3)


def test_properties_that_a_game_has_spoiled_can_be_mended_but_not_added_to() -> None:
    room, _ = a_room()
    room.properties["bad"] = object()

    with pytest.raises(Invalid):
        update(room, set={"x": 1})
    update(room, remove=["bad"], set={"x": 1})

    assert room.properties == {"map": "sea", "level": 3, "x": 1}


def test_a_name_can_be_changed_whatever_the_game_has_done_to_its_properties() -> None:
    room, _ = a_room()
    room.properties["bad"] = object()

    update(room, name="x")

    assert room.name == "x"


# Seats and hosts


def test_fewer_seats_than_are_in_use_throw_nobody_out() -> None:
    room, _ = a_room()
    for name in ("ada", "bob", "cyd"):
        seated(room, name)

    update(room, max_players=1)

    assert [player.id for player in room.players] == ["ada", "bob", "cyd"]
    assert (room.max_players, open_seats(room), context_of(room).seats.used) == (1, 0, 3)


def test_the_player_who_is_to_be_the_host_is_handed_back_and_not_yet_the_host() -> None:
    room, _ = a_room()
    ada = seated(room, "ada")

    assert update(room, host="ada") is ada
    assert update(room, name="x") is None
    assert room.host is None
