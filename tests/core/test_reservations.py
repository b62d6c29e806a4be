"""Reserved seats, the waitlist of a full room, and what both mean for a room's seats."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.core.errors import Duplicate, NotFound, RoomFull, RoomLocked
from holdfast.core.listed_room import check_open, check_space, open_seats
from holdfast.core.room import context_of
from holdfast.core.room_context import Reservation, Seats
from holdfast.core.session import PlayerId, seat_of
from tests.core.room_samples import an_arena, reserved, seated

ADA, BOB, CLEO = PlayerId("ada"), PlayerId("bob"), PlayerId("cleo")


def unchanged() -> None: ...


# Kept seats


def test_a_seat_is_kept_for_longer_when_asked_again_and_never_for_less() -> None:
    seats = Seats(unchanged)

    seats.reserve(ADA, Reservation(60.0, "zoe"))
    seats.reserve(ADA, Reservation(90.0, "eve"))
    seats.reserve(ADA, Reservation(10.0, "eve"))

    assert seats.reservations.get(ADA) == Reservation(90.0, "zoe"), "it stays the wish of who asked first"
    assert len(seats.reservations) == seats.reservations_open == 1


def test_reservations_are_over_in_the_order_of_their_times() -> None:
    seats = Seats(unchanged)
    seats.reserve(ADA, Reservation(60.0))
    seats.reserve(BOB, Reservation(30.0))

    assert Seats(unchanged).next_expiry is None
    assert seats.next_expiry == 30.0
    assert seats.expired(29.9) == []
    assert seats.expired(30.0) == [BOB]
    assert seats.expired(60.0) == [ADA, BOB]


def test_what_is_dropped_is_told_once() -> None:
    seats = Seats(unchanged)
    seats.reserve(ADA, Reservation(60.0, "zoe"))

    assert seats.unreserve(ADA) == Reservation(60.0, "zoe")
    assert seats.unreserve(ADA) is None
    assert seats.reservations.get(ADA) is None
    assert ADA not in seats.reservations


def test_one_that_is_in_use_is_remembered_but_neither_waits_nor_expires() -> None:
    seats = Seats(unchanged)
    seats.reserve(ADA, Reservation(60.0))
    seats.reserve(BOB, Reservation(90.0))

    assert seats.use(ADA)
    assert not seats.use(ADA), "it is in use already"
    assert not seats.use(CLEO), "there is none"

    assert seats.reservations == {ADA: Reservation(60.0, ""), BOB: Reservation(90.0, "")}
    assert ADA in seats.reservations
    assert not seats.is_awaited(ADA)
    assert (len(seats.reservations), seats.reservations_open) == (2, 1)
    assert seats.expired(100.0) == [BOB]
    assert seats.next_expiry == 90.0


def test_one_that_was_put_back_waits_for_as_long_as_it_would_have() -> None:
    seats = Seats(unchanged)
    seats.reserve(ADA, Reservation(60.0))
    seats.use(ADA)

    seats.put_back(ADA)
    seats.put_back(BOB)

    assert seats.reservations_open == 1
    assert seats.expired(60.0) == [ADA]


def test_one_that_was_dropped_in_use_leaves_nothing_behind() -> None:
    seats = Seats(unchanged)
    seats.reserve(ADA, Reservation(60.0))
    seats.use(ADA)
    seats.unreserve(ADA)

    seats.reserve(ADA, Reservation(70.0))

    assert seats.is_awaited(ADA)
    assert seats.reservations_open == 1


def test_reservations_may_be_dropped_while_one_looks_at_them() -> None:
    seats = Seats(unchanged)
    for player_id in (ADA, BOB, CLEO):
        seats.reserve(player_id, Reservation(60.0))

    for player_id in list(seats.reservations):
        seats.unreserve(player_id)

    assert seats.reservations == {}


_PLAYERS = st.sampled_from([ADA, BOB, CLEO])


class Keeping(RuleBasedStateMachine):
    """Reservations beside a model of them: until when, and whether it is in use."""

    def __init__(self) -> None:
        super().__init__()
        self.seats = Seats(unchanged)
        self.model: dict[PlayerId, tuple[float, bool]] = {}

    @rule(player_id=_PLAYERS, until=st.floats(0, 100))
    def keep(self, player_id: PlayerId, until: float) -> None:
        known, in_use = self.model.get(player_id, (until, False))
        self.model[player_id] = (max(until, known), in_use)
        self.seats.reserve(player_id, Reservation(until))

    @rule(player_id=_PLAYERS)
    def use(self, player_id: PlayerId) -> None:
        until, in_use = self.model.get(player_id, (0.0, True))
        assert self.seats.use(player_id) == (not in_use)
        if not in_use:
            self.model[player_id] = (until, True)

    @rule(player_id=_PLAYERS)
    def put_back(self, player_id: PlayerId) -> None:
        if player_id in self.model:
            self.model[player_id] = (self.model[player_id][0], False)
        self.seats.put_back(player_id)

    @rule(player_id=_PLAYERS)
    def drop(self, player_id: PlayerId) -> None:
        assert (self.seats.unreserve(player_id) is not None) == (self.model.pop(player_id, None) is not None)

    @invariant()
    def agrees(self) -> None:
        waiting = {player_id: until for player_id, (until, in_use) in self.model.items() if not in_use}
        assert {player_id: kept.until for player_id, kept in self.seats.reservations.items()} == {
            player_id: until for player_id, (until, _) in self.model.items()
        }
        assert self.seats.reservations_open == len(waiting)
        assert self.seats.next_expiry == min(waiting.values(), default=None)
        assert self.seats.expired(50.0) == [each for each in self.model if waiting.get(each, 51.0) <= 50.0]
        assert all(self.seats.is_awaited(each) == (each in waiting) for each in (ADA, BOB, CLEO))


TestKeeping = Keeping.TestCase
TestKeeping.settings = settings(max_examples=50, stateful_step_count=20)


# The waitlist


def test_a_waitlist_keeps_its_order_and_everybodys_place() -> None:
    seats = Seats(unchanged)
    for player_id in (ADA, BOB, CLEO, ADA):
        seats.waitlist[player_id] = ""

    assert [seats.position(each) for each in (ADA, BOB, CLEO, PlayerId("dan"))] == [1, 2, 3, 0]

    del seats.waitlist[ADA]

    assert [seats.position(each) for each in (ADA, BOB, CLEO)] == [0, 1, 2]


# What they mean for a room of three seats


def test_a_reservation_takes_a_seat_from_everybody_but_its_player() -> None:
    room, _ = an_arena()
    seated(room, "zoe")
    context_of(room).seats.reserve(ADA, Reservation(60.0))
    context_of(room).seats.reserve(BOB, Reservation(60.0))

    assert (context_of(room).seats.used, open_seats(room)) == (3, 0)
    with pytest.raises(RoomFull):
        check_open(room, CLEO)
    with pytest.raises(RoomFull):
        check_space(room, 1)
    check_open(room, ADA)


def test_a_reservation_that_is_in_use_and_its_seat_count_once() -> None:
    room, _ = an_arena()
    context_of(room).seats.reserve(ADA, Reservation(60.0))
    context_of(room).seats.use(ADA)
    context_of(room).seats.add(seat_of(reserved(an_arena()[0], "ada")))

    assert (context_of(room).seats.used, open_seats(room)) == (1, 2)
    with pytest.raises(Duplicate):
        check_open(room, ADA)


def test_where_doubles_are_allowed_a_reservation_is_good_for_one_of_them() -> None:
    room, _ = an_arena()
    room.duplicate = "allow"
    room.max_players = 1
    context_of(room).seats.reserve(ADA, Reservation(60.0))
    check_open(room, ADA)
    context_of(room).seats.use(ADA)
    context_of(room).seats.add(seat_of(reserved(an_arena()[0], "ada")))

    with pytest.raises(RoomFull):
        check_open(room, ADA)


@pytest.mark.parametrize("how", ["lock", "deny_all"])
def test_a_room_that_takes_nobody_new_takes_who_has_a_reservation(how: str) -> None:
    room, _ = an_arena()
    context_of(room).seats.reserve(ADA, Reservation(60.0))
    if how == "lock":
        room.lock()
    else:
        context_of(room).listing.join_policy = "deny_all"

    check_open(room, ADA)

    assert open_seats(room) == 0
    with pytest.raises(RoomLocked):
        check_open(room, BOB)
    with pytest.raises(RoomLocked):
        check_space(room, 1)


def test_a_room_that_closes_takes_nobody_at_all() -> None:
    room, _ = an_arena()
    context_of(room).seats.reserve(ADA, Reservation(60.0))
    room.close()

    assert open_seats(room) == 0
    with pytest.raises(NotFound):
        check_open(room, ADA)
    with pytest.raises(NotFound):
        check_space(room, 0)


def test_a_room_with_fewer_seats_than_are_in_use_has_none_open() -> None:
    room, _ = an_arena()
    context_of(room).seats.reserve(ADA, Reservation(60.0))
    context_of(room).seats.reserve(BOB, Reservation(60.0))

    room.max_players = 1

    assert open_seats(room) == 0
    check_open(room, BOB)
