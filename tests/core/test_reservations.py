"""Seats that are kept, the line before a full room, and what both mean for a room's seats."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.core.errors import Duplicate, NotFound, RoomFull, RoomLocked
from holdfast.core.reservations import Line, Reservation, Reservations
from holdfast.core.session import PlayerId
from tests.core.room_samples import an_arena, reserved, seated

ADA, BOB, CLEO = PlayerId("ada"), PlayerId("bob"), PlayerId("cleo")


# Kept seats


def test_a_seat_is_kept_for_longer_when_asked_again_and_never_for_less() -> None:
    reservations = Reservations()

    reservations.keep(ADA, 60.0, "zoe")
    reservations.keep(ADA, 90.0, "eve")
    reservations.keep(ADA, 10.0, "eve")

    assert reservations.get(ADA) == Reservation(90.0, "zoe"), "it stays the wish of who asked first"
    assert len(reservations) == reservations.waiting == 1


def test_reservations_are_over_in_the_order_of_their_times() -> None:
    reservations = Reservations()
    reservations.keep(ADA, 60.0)
    reservations.keep(BOB, 30.0)

    assert Reservations().next_at is None
    assert reservations.next_at == 30.0
    assert reservations.expired(29.9) == []
    assert reservations.expired(30.0) == [BOB]
    assert reservations.expired(60.0) == [ADA, BOB]


def test_what_is_dropped_is_told_once() -> None:
    reservations = Reservations()
    reservations.keep(ADA, 60.0, "zoe")

    assert reservations.drop(ADA) == Reservation(60.0, "zoe")
    assert reservations.drop(ADA) is None
    assert reservations.get(ADA) is None
    assert ADA not in reservations


def test_one_that_is_in_use_is_remembered_but_neither_waits_nor_expires() -> None:
    reservations = Reservations()
    reservations.keep(ADA, 60.0)
    reservations.keep(BOB, 90.0)

    assert reservations.use(ADA)
    assert not reservations.use(ADA), "it is in use already"
    assert not reservations.use(CLEO), "there is none"

    assert dict(reservations) == {ADA: Reservation(60.0, ""), BOB: Reservation(90.0, "")}
    assert ADA in reservations
    assert not reservations.is_waiting(ADA)
    assert (len(reservations), reservations.waiting) == (2, 1)
    assert reservations.expired(100.0) == [BOB]
    assert reservations.next_at == 90.0


def test_one_that_was_put_back_waits_for_as_long_as_it_would_have() -> None:
    reservations = Reservations()
    reservations.keep(ADA, 60.0)
    reservations.use(ADA)

    reservations.put_back(ADA)
    reservations.put_back(BOB)

    assert reservations.waiting == 1
    assert reservations.expired(60.0) == [ADA]


def test_one_that_was_dropped_in_use_leaves_nothing_behind() -> None:
    reservations = Reservations()
    reservations.keep(ADA, 60.0)
    reservations.use(ADA)
    reservations.drop(ADA)

    reservations.keep(ADA, 70.0)

    assert reservations.is_waiting(ADA)
    assert reservations.waiting == 1


def test_reservations_may_be_dropped_while_one_looks_at_them() -> None:
    reservations = Reservations()
    for player_id in (ADA, BOB, CLEO):
        reservations.keep(player_id, 60.0)

    for player_id, _ in reservations:
        reservations.drop(player_id)

    assert len(reservations) == 0


_PLAYERS = st.sampled_from([ADA, BOB, CLEO])


class Keeping(RuleBasedStateMachine):
    """Reservations beside a model of them: until when, and whether it is in use."""

    def __init__(self) -> None:
        super().__init__()
        self.reservations = Reservations()
        self.model: dict[PlayerId, tuple[float, bool]] = {}

    @rule(player_id=_PLAYERS, until=st.floats(0, 100))
    def keep(self, player_id: PlayerId, until: float) -> None:
        known, in_use = self.model.get(player_id, (until, False))
        self.model[player_id] = (max(until, known), in_use)
        self.reservations.keep(player_id, until)

    @rule(player_id=_PLAYERS)
    def use(self, player_id: PlayerId) -> None:
        until, in_use = self.model.get(player_id, (0.0, True))
        assert self.reservations.use(player_id) == (not in_use)
        if not in_use:
            self.model[player_id] = (until, True)

    @rule(player_id=_PLAYERS)
    def put_back(self, player_id: PlayerId) -> None:
        if player_id in self.model:
            self.model[player_id] = (self.model[player_id][0], False)
        self.reservations.put_back(player_id)

    @rule(player_id=_PLAYERS)
    def drop(self, player_id: PlayerId) -> None:
        assert (self.reservations.drop(player_id) is not None) == (self.model.pop(player_id, None) is not None)

    @invariant()
    def agrees(self) -> None:
        waiting = {player_id: until for player_id, (until, in_use) in self.model.items() if not in_use}
        assert {player_id: kept.until for player_id, kept in self.reservations} == {
            player_id: until for player_id, (until, _) in self.model.items()
        }
        assert self.reservations.waiting == len(waiting)
        assert self.reservations.next_at == min(waiting.values(), default=None)
        assert self.reservations.expired(50.0) == [each for each in self.model if waiting.get(each, 51.0) <= 50.0]
        assert all(self.reservations.is_waiting(each) == (each in waiting) for each in (ADA, BOB, CLEO))


TestKeeping = Keeping.TestCase
TestKeeping.settings = settings(max_examples=50, stateful_step_count=20)


# The line


def test_a_line_keeps_its_order_and_everybodys_place() -> None:
    line = Line()
    for player_id in (ADA, BOB, CLEO, ADA):
        line.add(player_id)

    assert list(line) == [ADA, BOB, CLEO]
    assert [line.position(each) for each in (ADA, BOB, CLEO, PlayerId("dan"))] == [1, 2, 3, 0]
    assert BOB in line
    assert line.leave(ADA)
    assert not line.leave(ADA)
    assert [line.position(each) for each in (ADA, BOB, CLEO)] == [0, 1, 2]
    line.add(ADA)
    assert list(line) == [BOB, CLEO, ADA]
    assert len(line) == 3


def test_one_may_leave_a_line_while_one_looks_at_it() -> None:
    line = Line()
    for player_id in (ADA, BOB):
        line.add(player_id)

    for player_id in line:
        line.leave(player_id)

    assert len(line) == 0


# What they mean for a room of three seats


def test_a_reservation_takes_a_seat_from_everybody_but_its_player() -> None:
    room, _ = an_arena()
    seated(room, "zoe")
    room.reservations.keep(ADA, 60.0)
    room.reservations.keep(BOB, 60.0)

    assert (room.seats_used, room.open_seats) == (3, 0)
    with pytest.raises(RoomFull):
        room.check_open(CLEO)
    with pytest.raises(RoomFull):
        room.check_space(1)
    room.check_open(ADA)


def test_a_reservation_that_is_in_use_and_its_seat_count_once() -> None:
    room, _ = an_arena()
    room.reservations.keep(ADA, 60.0)
    room.reservations.use(ADA)
    room.add_seat(reserved(an_arena()[0], "ada"))

    assert (room.seats_used, room.open_seats) == (1, 2)
    with pytest.raises(Duplicate):
        room.check_open(ADA)


def test_where_doubles_are_allowed_a_reservation_is_good_for_one_of_them() -> None:
    room, _ = an_arena()
    room.duplicate = "allow"
    room.max_players = 1
    room.reservations.keep(ADA, 60.0)
    room.check_open(ADA)
    room.reservations.use(ADA)
    room.add_seat(reserved(an_arena()[0], "ada"))

    with pytest.raises(RoomFull):
        room.check_open(ADA)


@pytest.mark.parametrize("how", ["lock", "deny_all"])
def test_a_room_that_takes_nobody_new_takes_who_has_a_reservation(how: str) -> None:
    room, _ = an_arena()
    room.reservations.keep(ADA, 60.0)
    if how == "lock":
        room.lock()
    else:
        room.listing.join_policy = "deny_all"

    room.check_open(ADA)

    assert room.open_seats == 0
    with pytest.raises(RoomLocked):
        room.check_open(BOB)
    with pytest.raises(RoomLocked):
        room.check_space(1)


def test_a_room_that_closes_takes_nobody_at_all() -> None:
    room, _ = an_arena()
    room.reservations.keep(ADA, 60.0)
    room.close()

    assert room.open_seats == 0
    with pytest.raises(NotFound):
        room.check_open(ADA)
    with pytest.raises(NotFound):
        room.check_space(0)


def test_a_room_with_fewer_seats_than_are_in_use_has_none_open() -> None:
    room, _ = an_arena()
    room.reservations.keep(ADA, 60.0)
    room.reservations.keep(BOB, 60.0)

    room.max_players = 1

    assert room.open_seats == 0
    room.check_open(BOB)
