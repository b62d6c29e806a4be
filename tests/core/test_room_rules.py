"""The rules of a room, with a host that only writes down what it is asked for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.listed_room import open_seats
from holdfast.core.reasons import Reason
from holdfast.core.room import context_of
from holdfast.core.room_context import EVERY_S_MIN, next_due
from holdfast.core.session import SeatStep, seat_of
from tests.core.room_samples import Arena, an_arena, reserved, seated
from tests.core.samples import Hero, a_player

# A new room


def test_a_new_room_is_an_open_empty_lobby() -> None:
    room, _ = an_arena()

    assert (room.id, room.kind, room.phase) == ("r-1", "arena", "lobby")
    assert room.players == ()
    assert len(context_of(room).seats) == 0
    assert open_seats(room)
    assert not room.is_locked
    assert not context_of(room).is_closing
    assert (room.state, room.properties) == (None, {})


def test_two_rooms_share_nothing() -> None:
    red, blue = an_arena()[0], an_arena()[0]

    red.properties["map"] = "ice"
    red.own(None, "door")
    seated(red, "ada")

    assert blue.properties == {}
    assert len(blue.objects) == 0
    assert blue.players == ()


def test_the_same_seed_gives_a_room_the_same_random_numbers() -> None:
    assert an_arena()[0].random.random() == an_arena()[0].random.random()


# Rounds


def test_a_round_starts_once() -> None:
    room, desk = an_arena()

    room.start()
    room.start()

    assert room.phase == "playing"
    assert desk.followed == ["on_start"]


def test_a_round_that_was_not_started_does_not_end() -> None:
    room, desk = an_arena()
    ada = seated(room, "ada")
    ada.data.hp = 1

    room.end()

    assert room.phase == "lobby"
    assert ada.data.hp == 1
    assert desk.followed == []


def test_the_end_of_a_round_resets_the_present_and_frees_the_seats_of_the_absent() -> None:
    room, desk = an_arena()
    here, away = seated(room, "ada"), seated(room, "bob")
    room.start()
    here.data.hp = away.data.hp = 1
    here.data.name = away.data.name = "kept"
    seat_of(away).happened(SeatStep.DROPPED)

    room.end()

    assert room.phase == "lobby"
    assert here.data == Hero(hp=100, name="kept")
    assert away.data.hp == 1
    assert desk.freed == [("bob", Reason.ROUND_ENDED, "")]
    assert room.players == (here,)
    assert desk.followed == ["on_start", "on_end"]


def test_a_newcomer_whose_seat_is_only_reserved_lives_through_the_end_of_a_round() -> None:
    room, desk = an_arena()
    room.start()
    waiting = reserved(room, "ada")

    room.end()

    assert desk.freed == []
    assert tuple(context_of(room).seats) == (seat_of(waiting),)


def test_rounds_follow_each_other() -> None:
    room, desk = an_arena()
    ada = seated(room, "ada")

    for _ in range(3):
        room.start()
        ada.data.hp -= 30
        room.end()

    assert ada.data.hp == 100
    assert desk.followed == ["on_start", "on_end"] * 3


def test_a_reset_may_return_the_data_that_replaces_it() -> None:
    class Phoenix(Hero):
        def reset(self) -> Any:
            return Hero(hp=50, name=self.name)

    class Confused(Hero):
        def reset(self) -> Any:
            return {"hp": 50}

    room, _ = an_arena()
    phoenix, confused = seated(room, "ada"), seated(room, "bob")
    phoenix.data, confused.data = Phoenix(hp=1, name="Ada"), Confused(hp=2)
    room.start()

    with pytest.raises(ExceptionGroup) as raised:
        room.end()

    assert phoenix.data == Hero(hp=50, name="Ada")
    assert confused.data.hp == 2
    (error,) = raised.value.exceptions
    assert "return a Hero, or None if it was changed in place" in str(error)


def test_a_reset_that_raises_harms_no_other_player_and_is_not_hidden() -> None:
    class Cursed(Hero):
        def reset(self) -> None:
            raise RuntimeError("cursed")

    room, desk = an_arena()
    cursed, away, here = (seated(room, player_id) for player_id in ("ada", "bob", "cyd"))
    cursed.data = Cursed()
    seat_of(away).happened(SeatStep.DROPPED)
    here.data.hp = 1
    room.start()

    with pytest.raises(ExceptionGroup) as raised:
        room.end()

    assert [str(error) for error in raised.value.exceptions] == ["cursed"]
    assert here.data.hp == 100
    assert room.phase == "lobby"
    assert room.players == (cursed, here)
    assert desk.followed == ["on_start", "on_end"]


# Objects


def test_a_room_knows_who_owns_its_objects() -> None:
    room, _ = an_arena()
    ada = seated(room, "ada")

    room.own(ada, "sword")

    assert room.owner_of("sword") is ada
    assert ada.owned == {"sword"}
    assert room.owner_of("unicorn") is None


def test_a_disowned_object_is_forgotten_and_an_unknown_one_is_not_invented() -> None:
    room, _ = an_arena()
    ada = seated(room, "ada")
    room.own(ada, "sword")

    room.disown("sword")
    room.disown("unicorn")

    assert room.owner_of("sword") is None
    assert ada.owned == set()
    assert list(room.objects) == []


def test_without_an_heir_hook_the_server_inherits() -> None:
    room, _ = an_arena()

    assert room.heir(a_player(), "sword") is None


# Later


def test_after_hands_a_method_of_the_room_to_the_runner() -> None:
    room, desk = an_arena()

    timer = room.after(5.0, room.explode, "bridge")

    assert desk.timers == [timer]
    assert (timer.due_at, timer.method, timer.arguments) == (5.0, "explode", [("value", "bridge")])
    assert (timer.name, timer.every_s) == ("", 0.0)


def test_every_hands_a_method_and_a_period_to_the_runner() -> None:
    room, desk = an_arena()

    timer = room.every(2.5, room.explode, "bridge", name="wave")

    assert desk.timers == [timer]
    assert (timer.due_at, timer.method, timer.arguments) == (2.5, "explode", [("value", "bridge")])
    assert (timer.name, timer.every_s) == ("wave", 2.5)


@pytest.mark.parametrize("wrong", [0, -1.0, 0.0009, float("inf"), float("nan")])
def test_every_refuses_a_period_that_is_none(wrong: float) -> None:
    room, desk = an_arena()

    with pytest.raises(ValueError, match=r"0\.001 seconds or more"):
        room.every(wrong, room.explode)

    assert desk.timers == []


def test_a_named_timer_is_cancelled_by_its_name_once() -> None:
    room, desk = an_arena()
    timer = room.after(5.0, room.explode, "bridge", name="fuse")
    room.after(5.0, room.explode, "bridge")

    assert room.cancel("fuse")

    assert timer.is_cancelled
    assert len(desk.timers) == 1
    assert not room.cancel("fuse")
    assert not room.cancel("another")


def test_a_named_timer_tells_how_long_it_has_left_and_never_less_than_nothing() -> None:
    room, desk = an_arena()
    room.after(5.0, room.explode, "bridge", name="fuse")

    left = []
    for desk.now_s in (0.0, 3.5, 6.0):
        left.append(room.remaining("fuse"))

    assert left == [5.0, 1.5, 0.0]
    assert room.remaining("another") is None


@pytest.mark.parametrize(
    ("called_at", "next_at"),
    [
        (10.0, 12.5),
        # A little early: clocks are coarse.
        (9.999, 12.5),
        (12.4, 12.5),
        # Missed once, often, and for a day: one call is late, and the next one is on schedule.
        (12.5, 15.0),
        (31.0, 32.5),
        (86_410.0, 86_412.5),
    ],
)
def test_a_repeated_call_goes_on_at_the_first_time_of_its_schedule_that_is_not_over(
    called_at: float, next_at: float
) -> None:
    assert next_due(10.0, 2.5, called_at) == next_at


@given(every_s=st.floats(EVERY_S_MIN, 1e6), late_s=st.floats(0.0, 1e8))
def test_the_next_call_is_after_now_and_at_most_one_period_away_however_numbers_are_rounded(
    every_s: float, late_s: float
) -> None:
    now = 1e6 + late_s

    assert now < next_due(1e6, every_s, now) <= now + every_s * 1.001


def test_after_refuses_what_is_no_method_of_this_room() -> None:
    room, desk = an_arena()
    other, _ = an_arena()
    ada = a_player()

    for foreign in (other.explode, ada.kick, Arena.explode, lambda: None, print):
        with pytest.raises(TypeError, match="method of this room"):
            room.after(5.0, foreign)
        with pytest.raises(TypeError, match="method of this room"):
            room.every(5.0, foreign)

    assert desk.timers == []


def test_spawn_hands_outside_work_to_the_runner() -> None:
    async def fetch() -> None: ...

    room, desk = an_arena()
    work = fetch()

    room.spawn(work, room.explode)
    work.close()

    assert desk.spawned == [(work, room.explode)]


# Hooks


def test_a_room_is_healthy_and_its_other_hooks_do_nothing_until_they_are_written() -> None:
    room, desk = an_arena()
    ada = seated(room, "ada")

    assert room.on_health_check() is True
    for answer in (
        room.on_create({}),
        room.on_created(),
        room.admit(ada),
        room.on_join(ada),
        room.on_drop(ada),
        room.on_rejoin(ada),
        room.on_resync(ada),
        room.on_leave(ada, Reason.LEFT),
        room.on_start(),
        room.on_end(),
        room.on_tick(0.05),
        room.on_update(),
        room.on_destroy(),
        room.on_destroyed(),
    ):
        assert answer is None
    assert room.players == (ada,)
    assert (desk.followed, desk.freed, desk.closed) == ([], [], 0)


def test_a_room_shows_what_it_is_and_how_full() -> None:
    room, _ = an_arena()
    seated(room, "ada")

    assert repr(room) == "<Arena r-1 lobby 1/3>"
