"""The rules of a room, with a host that only writes down what it is asked for."""

import pytest

from holdfast.core.listed_room import open_seats
from holdfast.core.reasons import Reason
from holdfast.core.room import context_of
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

    (asked,) = desk.timers
    assert (timer.due_at, timer.method) == (5.0, "explode")
    assert asked == (5.0, room.explode, ("bridge",))


def test_after_refuses_what_is_no_method_of_this_room() -> None:
    room, desk = an_arena()
    other, _ = an_arena()
    ada = a_player()

    for foreign in (other.explode, ada.kick, Arena.explode, lambda: None, print):
        with pytest.raises(TypeError, match="method of this room"):
            room.after(5.0, foreign)

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
