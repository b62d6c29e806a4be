"""Who is in a room and who may come in."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from holdfast.core.errors import Duplicate, NotFound, RoomFull, RoomLocked
from holdfast.core.listed_room import check_open, open_seats
from holdfast.core.room import Room, context_of
from holdfast.core.session import Player, PlayerId, SeatStep, seat_of
from tests.core.room_samples import an_arena, ids, reserved, seated
from tests.core.samples import Hero

# Players


def test_players_are_those_who_took_a_seat_in_the_order_they_came() -> None:
    room, _ = an_arena()
    bob = seated(room, "bob")
    reserved(room, "cyd")
    ada = seated(room, "ada")

    assert room.players == (bob, ada)
    assert [seat.player_id for seat in context_of(room).seats] == ["bob", "cyd", "ada"]


def test_a_held_player_is_still_one_of_the_players() -> None:
    room, _ = an_arena()
    ada = seated(room, "ada")

    seat_of(ada).happened(SeatStep.DROPPED)

    assert room.players == (ada,)
    assert room.player("ada") is ada
    assert not ada.connected


def test_a_reserved_seat_becomes_a_player_when_it_is_taken() -> None:
    room, _ = an_arena()
    ada = reserved(room, "ada")
    before = room.players

    seat_of(ada).happened(SeatStep.TAKEN)
    context_of(room).seats.occupation_changed()

    assert before == ()
    assert room.players == (ada,)


def test_a_removed_seat_is_no_player_any_more() -> None:
    room, _ = an_arena()
    ada, bob = seated(room, "ada"), seated(room, "bob")

    context_of(room).seats.remove(seat_of(ada))

    assert room.players == (bob,)
    assert room.player("ada") is None
    assert context_of(room).seats.of(PlayerId("ada")) is None


def test_a_view_of_the_players_taken_before_a_leave_stays_as_it_was() -> None:
    room, _ = an_arena()
    ada, bob = seated(room, "ada"), seated(room, "bob")

    before = room.players
    for player in before:
        context_of(room).seats.remove(seat_of(player))

    assert before == (ada, bob)
    assert room.players == ()


def test_a_player_is_found_by_id_once_seated_and_a_seat_even_before() -> None:
    room, _ = an_arena()
    ada = reserved(room, "ada")

    assert room.player("ada") is None
    assert context_of(room).seats.of(PlayerId("ada")) is seat_of(ada)
    assert context_of(room).seats.of(PlayerId("bob")) is None


def test_a_second_seat_of_the_same_player_is_removed_alone() -> None:
    room, _ = an_arena()
    room.duplicate = "allow"
    first, second = seated(room, "ada"), seated(room, "ada")

    context_of(room).seats.remove(seat_of(first))

    assert room.players == (second,)


# Who may come in


def test_a_room_is_full_when_every_seat_is_reserved_taken_or_held() -> None:
    room, _ = an_arena()
    reserved(room, "ada")
    seated(room, "bob")
    seat_of(seated(room, "cyd")).happened(SeatStep.DROPPED)

    assert context_of(room).seats.used == 3
    assert not open_seats(room)
    with pytest.raises(RoomFull, match="3"):
        check_open(room, PlayerId("dan"))


def test_a_freed_seat_can_be_taken_again() -> None:
    room, _ = an_arena()
    players = [seated(room, player_id) for player_id in ("ada", "bob", "cyd")]

    context_of(room).seats.remove(seat_of(players[1]))

    assert open_seats(room)
    assert seated(room, "dan") in room.players


def test_a_locked_room_takes_nobody_new_and_keeps_who_is_in() -> None:
    room, _ = an_arena()
    ada = seated(room, "ada")

    room.lock()

    assert not open_seats(room)
    with pytest.raises(RoomLocked):
        check_open(room, PlayerId("bob"))
    assert room.players == (ada,)


def test_an_unlocked_room_takes_players_again() -> None:
    room, _ = an_arena()
    room.lock()

    room.unlock()

    assert open_seats(room)
    check_open(room, PlayerId("ada"))


@pytest.mark.parametrize("policy", ["takeover", "reject"])
@pytest.mark.parametrize("seat", [reserved, seated])
def test_the_same_player_gets_no_second_seat_unless_allowed(
    policy: Any, seat: Callable[[Room[Hero], str], Player[Hero]]
) -> None:
    room, _ = an_arena()
    room.duplicate = policy
    seat(room, "ada")

    with pytest.raises(Duplicate):
        check_open(room, PlayerId("ada"))


def test_a_room_that_allows_doubles_seats_the_same_player_twice() -> None:
    room, _ = an_arena()
    room.duplicate = "allow"

    seated(room, "ada")
    seated(room, "ada")

    assert ids(room.players) == ["ada", "ada"]


def test_a_closing_room_is_not_there_any_more() -> None:
    room, desk = an_arena()

    room.close()

    assert desk.closed == 1
    assert not open_seats(room)
    with pytest.raises(NotFound):
        check_open(room, PlayerId("ada"))


def test_asking_whether_somebody_may_come_in_changes_nothing() -> None:
    room, _ = an_arena()

    check_open(room, PlayerId("ada"))

    assert len(context_of(room).seats) == 0


# Large rooms


def steps_of_a_join(players: int) -> int:
    """How many lines run when somebody joins, is looked for and leaves in a room with so many players."""
    room, _ = an_arena()
    room.max_players = players + 1
    for number in range(players):
        seated(room, f"player-{number}")
    steps = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return count

    former = sys.gettrace()
    # A collection would run the callbacks of others.
    gc.disable()
    sys.settrace(count)
    try:
        ada = seated(room, "ada")
        assert room.player("ada") is ada
        context_of(room).seats.remove(seat_of(ada))
    finally:
        sys.settrace(former)
        gc.enable()
    return steps


def test_joining_a_room_of_thousands_takes_no_more_steps_than_joining_one_of_ten() -> None:
    assert steps_of_a_join(2_000) == steps_of_a_join(10)
