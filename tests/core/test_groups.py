"""Groups of players inside a room: who is in them, who hears what is said to them, and how many there may be."""

from collections.abc import Mapping
from typing import Any

import pytest

from holdfast import Group, Limits, Message, Throttled
from holdfast.core.room import context_of
from holdfast.core.session import SeatStep, seat_of
from tests.core.room_samples import Arena, an_arena, reserved, seated
from tests.core.samples import Mailbox, a_player


class Said(Message):
    text: str


def three() -> tuple[Arena, list[Any], list[tuple[str, Message]]]:
    """A room with ada, bob and cyd, and what they hear."""
    room, _ = an_arena()
    log: list[tuple[str, Message]] = []
    players = [seated(room, player_id) for player_id in ("ada", "bob", "cyd")]
    for player in players:
        seat_of(player).outlet = Mailbox(player.id, log)
    return room, players, log


def test_a_group_has_the_players_that_were_added_in_the_order_in_which_they_joined_the_room() -> None:
    room, (ada, bob, cyd), _ = three()
    red = room.group("red")

    red.add(cyd)
    red.add(ada)
    red.add(cyd)

    assert list(red) == [ada, cyd]
    assert len(red) == 2
    assert ada in red
    assert bob not in red
    assert "ada" not in red


def test_a_group_is_the_same_wherever_it_is_asked_for() -> None:
    room, (ada, *_), _ = three()
    other, _ = an_arena()
    early = room.group("red")

    room.group("red").add(ada)

    assert list(early) == [ada]
    assert early == room.group("red")
    assert len({early, room.group("red"), room.group("blue"), other.group("red")}) == 3
    assert repr(early) == "<Group 'red' of ['ada']>"


def test_a_player_who_is_removed_is_in_the_group_no_more() -> None:
    room, (ada, bob, cyd), _ = three()
    red, blue = room.group("red"), room.group("blue")
    for player in (ada, bob):
        red.add(player)
        blue.add(player)

    red.remove(ada)
    red.remove(ada)
    red.remove(cyd)
    room.group("green").remove(cyd)

    assert list(red) == [bob]
    assert list(blue) == [ada, bob]


def test_the_groups_of_a_room_are_those_with_players() -> None:
    room, (ada, bob, _), _ = three()
    assert len(room.groups) == 0
    assert room.groups.get("red") is None

    room.group("red").add(ada)
    room.group("blue").add(bob)
    room.group("green")

    assert isinstance(room.groups, Mapping)
    assert list(room.groups) == ["red", "blue"]
    assert list(room.groups["red"]) == [ada]
    with pytest.raises(KeyError):
        room.groups["green"]
    assert not hasattr(room.groups, "__setitem__")
    for group in room.groups.values():
        group.remove(ada)
    assert list(room.groups) == ["blue"]


def test_what_is_said_to_a_group_reaches_its_players_and_nobody_else() -> None:
    room, (ada, bob, _), log = three()
    red = room.group("red")
    red.add(bob)
    red.add(ada)
    seat_of(bob).happened(SeatStep.DROPPED)

    red.send(Said("hi"))
    room.group("blue").send(Said("nobody"))

    assert sorted(log) == [("ada", Said("hi")), ("bob", Said("hi"))]


def test_a_group_is_spoken_to_unreliably_too() -> None:
    room, (_, bob, _), log = three()
    room.group("red").add(bob)

    room.group("red").send_latest(Said("here"), "place")

    box = seat_of(bob).outlet
    assert isinstance(box, Mailbox)
    assert box.latest == [(Said("here"), "place")]
    assert log == []


def test_a_broadcast_may_be_to_a_group_or_leave_one_out() -> None:
    room, (ada, bob, cyd), log = three()
    for player in (ada, bob):
        room.group("red").add(player)

    room.broadcast(Said("red"), [ada], to=room.group("red"))
    room.broadcast(Said("not red"), exclude=room.group("red"))
    room.broadcast(Said("all"), exclude=room.group("blue"))

    assert log == [
        ("bob", Said("red")),
        ("cyd", Said("not red")),
        *((player.id, Said("all")) for player in (ada, bob, cyd)),
    ]


def test_only_messages_are_sent_to_a_group() -> None:
    room, (ada, *_), _ = three()
    room.group("red").add(ada)

    with pytest.raises(TypeError, match="send a Message"):
        room.group("red").send("hi")  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize("wrong", ["ada", None, 7])
def test_a_group_has_players_and_nothing_else(wrong: Any) -> None:
    room, _ = an_arena()

    for change in (room.group("red").add, room.group("red").remove):
        with pytest.raises(TypeError, match="a group has players of its room"):
            change(wrong)

    assert len(room.groups) == 0


def test_a_group_has_players_of_its_own_room_who_are_there() -> None:
    room, (ada, *_), _ = three()
    room.max_players = 4
    gone, waiting, elsewhere = ada, reserved(room, "dan"), a_player("eve")
    seat_of(gone).happened(SeatStep.FREED)
    context_of(room).seats.remove(seat_of(gone))

    for player in (gone, waiting, elsewhere):
        with pytest.raises(ValueError, match=f"{player.id} is not in this room"):
            room.group("red").add(player)

    assert len(room.groups) == 0


@pytest.mark.parametrize("wrong", [5, None, b"red"])
def test_a_group_is_named_by_text(wrong: Any) -> None:
    room, _ = an_arena()

    with pytest.raises(TypeError, match="groups are named by text"):
        room.group(wrong)


@pytest.mark.parametrize(("name", "size"), [("", 0), ("ü" * 129, 258)])
def test_a_name_has_a_limited_length(name: str, size: int) -> None:
    room, (ada, *_), _ = three()

    with pytest.raises(ValueError, match=f"has 1 to 256 bytes .* this one has {size}"):
        room.group(name).add(ada)

    room.group("ü" * 128).add(ada)
    assert list(room.groups) == ["ü" * 128]


def test_a_room_has_no_more_groups_than_its_limit() -> None:
    room, (ada, bob, _), _ = three()
    context_of(room).limits = Limits(groups_max=2)
    room.group("red").add(ada)
    room.group("blue").add(ada)

    with pytest.raises(Throttled, match=r"has 2 groups.*Limits\.groups_max"):
        room.group("green").add(ada)
    room.group("red").add(bob)
    room.group("blue").remove(ada)
    room.group("green").add(ada)

    assert list(room.groups) == ["red", "green"]


def test_the_groups_of_a_room_have_no_more_members_than_their_limit() -> None:
    room, (ada, bob, cyd), _ = three()
    context_of(room).limits = Limits(group_members_max=3)
    for player in (ada, bob):
        room.group("red").add(player)
    room.group("blue").add(ada)

    with pytest.raises(Throttled, match=r"Limits\.group_members_max"):
        room.group("red").add(cyd)
    # A member already.
    room.group("red").add(bob)
    context_of(room).grouping.leave(seat_of(ada))  # type: ignore[union-attr]  # it has groups
    room.group("red").add(cyd)
    room.group("blue").add(cyd)

    assert {name: list(group) for name, group in room.groups.items()} == {"red": [bob, cyd], "blue": [cyd]}


def test_a_room_without_groups_keeps_nothing_for_them() -> None:
    room, (ada, *_), _ = three()

    room.group("red").remove(ada)
    room.group("red").send(Said("nobody"))
    list(room.groups)

    assert context_of(room).grouping is None


def test_a_group_is_exported() -> None:
    assert Group.__module__ == "holdfast.core.groups"
