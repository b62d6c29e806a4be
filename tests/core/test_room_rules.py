"""The rules of a room, with a host that only writes down what it is asked for."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Generic, TypeVar

import pytest

from holdfast.core.errors import Duplicate, NotFound, RoomFull, RoomLocked
from holdfast.core.messages import Message, PlayerData
from holdfast.core.player import Player, SeatEvent
from holdfast.core.reasons import Reason
from holdfast.core.room import CHOICES, Room
from holdfast.core.session import PlayerId
from holdfast.core.wishes import Update
from tests.core.samples import Hero, Mailbox, Seats, a_player


class Said(Message):
    text: str


class Bomb:
    """A pending `after`."""

    def __init__(self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.seconds, self.method, self.args = seconds, method, args

    def cancel(self) -> None:
        raise NotImplementedError


class Desk:
    """A `Host` that writes down what it is asked for, and frees seats at once as a host does."""

    room: Room[Any]

    def __init__(self) -> None:
        self.followed: list[str] = []
        self.freed: list[tuple[str, Reason, str]] = []
        self.timers: list[Bomb] = []
        self.spawned: list[Any] = []
        self.closed = 0
        self.listings = 0
        self.starts = 0
        self.updates: list[Update] = []

    def follow(self, hook: Callable[..., Any], *args: Any) -> None:
        self.followed.append(hook.__name__)

    def free(self, player: Player[Any], reason: Reason, message: str = "") -> None:
        self.freed.append((player.id, reason, message))
        player.happened(SeatEvent.FREED)
        self.room.remove_seat(player)

    def after(self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...]) -> Bomb:
        self.timers.append(Bomb(seconds, method, args))
        return self.timers[-1]

    def spawn(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], Any] | None) -> None:
        self.spawned.append((work, then))

    def effect(self, name: str, payload: Any) -> None:
        raise NotImplementedError

    def started(self) -> None:
        self.starts += 1

    def listed(self) -> None:
        self.listings += 1

    def update(self, wish: Update) -> None:
        self.updates.append(wish)

    def name_host(self, player: Player[Any] | None) -> None:
        self.room.host = player

    def close(self) -> None:
        self.closed += 1


class Arena(Room[Hero]):
    max_players = 3

    def explode(self, where: str) -> None: ...


R = TypeVar("R", bound=Room[Any])


def hosted(room_type: type[R]) -> tuple[R, Desk]:
    desk = Desk()
    room = room_type("r-1", desk, Random(1))
    desk.room = room
    return room, desk


def an_arena() -> tuple[Arena, Desk]:
    return hosted(Arena)


def seated(room: Room[Hero], player_id: str) -> Player[Hero]:
    """A newcomer who passed the rules and took the seat."""
    player = reserved(room, player_id)
    player.happened(SeatEvent.TAKEN)
    room.seats_changed()
    return player


def reserved(room: Room[Hero], player_id: str) -> Player[Hero]:
    room.check_open(PlayerId(player_id))
    player = a_player(player_id)
    player.outlet = Mailbox(player_id)
    room.add_seat(player)
    return player


def ids(players: tuple[Player[Hero], ...]) -> list[str]:
    return [player.id for player in players]


# The class


def test_a_room_is_called_by_its_class_name_in_snake_case() -> None:
    class CaptureTheFlag(Room[Hero]):
        pass

    assert CaptureTheFlag.kind == "capture_the_flag"


def test_a_room_may_choose_its_kind_and_its_subclass_has_its_own() -> None:
    class Chess(Room[Hero]):
        kind = "chess-960"

    class BlitzChess(Chess):
        pass

    assert Chess.kind == "chess-960"
    assert BlitzChess.kind == "blitz_chess"


def test_the_players_data_type_is_the_one_in_the_brackets() -> None:
    assert Arena.data_type is Hero
    assert isinstance(Arena.data_type(), Hero)


def test_a_room_without_brackets_has_plain_player_data() -> None:
    class Plain(Room):  # type: ignore[type-arg]  # users who do not type their game write this
        pass

    assert Plain.data_type is PlayerData


def test_a_subclass_of_a_room_keeps_its_data_type() -> None:
    class BigArena(Arena):
        max_players = 64

    assert BigArena.data_type is Hero


def test_a_base_class_of_the_game_may_leave_the_data_type_open() -> None:
    D = TypeVar("D", bound=PlayerData)

    class Villain(PlayerData):
        evil: int = 1

    class Round(Room[D], Generic[D]):
        pass

    class Heist(Round[Villain]):
        pass

    assert Heist.data_type is Villain


def test_the_brackets_of_a_mixin_say_nothing_about_the_players() -> None:
    T = TypeVar("T")

    class Scored(Generic[T]):
        pass

    class Race(Room[Hero], Scored[int]):
        pass

    assert Race.data_type is Hero


def test_every_setting_of_words_has_a_default_among_its_words() -> None:
    assert set(CHOICES) == {"durability", "disconnect", "duplicate", "orphans", "election", "other_version"}
    for setting, words in CHOICES.items():
        assert getattr(Room, setting) in words


# A new room


def test_a_new_room_is_an_open_empty_lobby() -> None:
    room, _ = an_arena()

    assert (room.id, room.kind, room.phase) == ("r-1", "arena", "lobby")
    assert room.players == room.seats == ()
    assert room.open_seats
    assert not room.is_locked
    assert not room.is_closing
    assert (room.state, room.properties) == (None, {})


def test_two_rooms_share_nothing() -> None:
    red, blue = an_arena()[0], an_arena()[0]

    red.properties["map"] = "ice"
    red.own(None, "door")
    seated(red, "ada")

    assert blue.properties == {}
    assert len(blue.objects) == 0
    assert blue.players == ()


def test_the_same_seed_gives_a_room_the_same_chance() -> None:
    assert an_arena()[0].random.random() == an_arena()[0].random.random()


# Players


def test_players_are_those_who_took_a_seat_in_the_order_they_came() -> None:
    room, _ = an_arena()
    bob = seated(room, "bob")
    reserved(room, "cyd")
    ada = seated(room, "ada")

    assert room.players == (bob, ada)
    assert ids(room.seats) == ["bob", "cyd", "ada"]


def test_a_held_player_is_still_one_of_the_players() -> None:
    room, _ = an_arena()
    ada = seated(room, "ada")

    ada.happened(SeatEvent.DROPPED)

    assert room.players == (ada,)
    assert room.player("ada") is ada
    assert not ada.connected


def test_a_reserved_seat_becomes_a_player_when_it_is_taken() -> None:
    room, _ = an_arena()
    ada = reserved(room, "ada")
    before = room.players

    ada.happened(SeatEvent.TAKEN)
    room.seats_changed()

    assert before == ()
    assert room.players == (ada,)


def test_a_removed_seat_is_no_player_any_more() -> None:
    room, _ = an_arena()
    ada, bob = seated(room, "ada"), seated(room, "bob")

    room.remove_seat(ada)

    assert room.players == (bob,)
    assert room.player("ada") is None
    assert room.seat_of(PlayerId("ada")) is None


def test_a_view_of_the_players_taken_before_a_leave_stays_as_it_was() -> None:
    room, _ = an_arena()
    ada, bob = seated(room, "ada"), seated(room, "bob")

    before = room.players
    for player in before:
        room.remove_seat(player)

    assert before == (ada, bob)
    assert room.players == ()


def test_a_player_is_found_by_id_once_seated_and_a_seat_even_before() -> None:
    room, _ = an_arena()
    ada = reserved(room, "ada")

    assert room.player("ada") is None
    assert room.seat_of(PlayerId("ada")) is ada
    assert room.seat_of(PlayerId("bob")) is None


def test_a_second_seat_of_the_same_player_is_removed_alone() -> None:
    room, _ = an_arena()
    room.duplicate = "allow"
    first, second = seated(room, "ada"), seated(room, "ada")

    room.remove_seat(first)

    assert room.players == (second,)


# Speaking


def test_a_broadcast_reaches_every_player_in_the_order_they_came() -> None:
    room, _ = an_arena()
    log: list[tuple[str, Message]] = []
    for player_id in ("bob", "ada", "cyd"):
        seated(room, player_id).outlet = Mailbox(player_id, log)

    room.broadcast(Said("hi"))
    room.broadcast(Said("ho"))

    assert log == [
        ("bob", Said("hi")),
        ("ada", Said("hi")),
        ("cyd", Said("hi")),
        ("bob", Said("ho")),
        ("ada", Said("ho")),
        ("cyd", Said("ho")),
    ]


def test_a_broadcast_reaches_the_held_and_not_the_reserved() -> None:
    room, _ = an_arena()
    log: list[tuple[str, Message]] = []
    held, waiting = seated(room, "ada"), reserved(room, "bob")
    held.outlet, waiting.outlet = Mailbox("ada", log), Mailbox("bob", log)
    held.happened(SeatEvent.DROPPED)

    room.broadcast(Said("hi"))

    assert log == [("ada", Said("hi"))]


def test_a_broadcast_leaves_out_whom_it_is_told_to() -> None:
    room, _ = an_arena()
    log: list[tuple[str, Message]] = []
    for player_id in ("ada", "bob", "cyd"):
        seated(room, player_id).outlet = Mailbox(player_id, log)
    ada, _, cyd = room.players

    room.broadcast(Said("hi"), exclude=[ada])
    room.broadcast(Said("ho"), exclude=(player for player in (ada, cyd)))

    assert log == [("bob", Said("hi")), ("cyd", Said("hi")), ("bob", Said("ho"))]


def test_a_broadcast_shares_what_was_encoded_and_the_next_one_starts_anew() -> None:
    room, _ = an_arena()
    boxes = [Mailbox(player_id) for player_id in ("ada", "bob")]
    for box in boxes:
        seated(room, box.owner).outlet = box

    room.broadcast(Said("hi"))
    room.broadcast(Said("ho"))

    (first_ada, second_ada), (first_bob, second_bob) = (box.bodies_seen for box in boxes)
    assert first_ada is first_bob
    assert second_ada is second_bob
    assert first_ada is not second_ada


def test_a_broadcast_in_an_empty_room_is_nothing() -> None:
    room, _ = an_arena()

    room.broadcast(Said("anyone?"))

    assert room.players == ()


def test_a_player_is_spoken_to_through_the_outlet() -> None:
    room, _ = an_arena()
    ada = seated(room, "ada")
    box = ada.outlet = Mailbox("ada")

    ada.send(Said("hi"))
    ada.send_latest(Said("here"), "position")

    assert box.log == [("ada", Said("hi"))]
    assert box.latest == [(Said("here"), "position")]


def test_a_kick_is_asked_of_the_seats_host() -> None:
    seats = Seats()
    ada = a_player("ada", host=seats)

    ada.kick("no cheating")

    assert seats.kicked == [(ada, "no cheating")]


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
    away.happened(SeatEvent.DROPPED)

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
    assert room.seats == (waiting,)


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
    away.happened(SeatEvent.DROPPED)
    here.data.hp = 1
    room.start()

    with pytest.raises(ExceptionGroup) as raised:
        room.end()

    assert [str(error) for error in raised.value.exceptions] == ["cursed"]
    assert here.data.hp == 100
    assert room.phase == "lobby"
    assert room.players == (cursed, here)
    assert desk.followed == ["on_start", "on_end"]


# Who may come in


def test_a_room_is_full_when_every_seat_is_reserved_taken_or_held() -> None:
    room, _ = an_arena()
    reserved(room, "ada")
    seated(room, "bob")
    seated(room, "cyd").happened(SeatEvent.DROPPED)

    assert room.seats_used == 3
    assert not room.open_seats
    with pytest.raises(RoomFull, match="3"):
        room.check_open(PlayerId("dan"))


def test_a_freed_seat_can_be_taken_again() -> None:
    room, _ = an_arena()
    players = [seated(room, player_id) for player_id in ("ada", "bob", "cyd")]

    room.remove_seat(players[1])

    assert room.open_seats
    assert seated(room, "dan") in room.players


def test_a_locked_room_takes_nobody_new_and_keeps_who_is_in() -> None:
    room, _ = an_arena()
    ada = seated(room, "ada")

    room.lock()

    assert not room.open_seats
    with pytest.raises(RoomLocked):
        room.check_open(PlayerId("bob"))
    assert room.players == (ada,)


def test_an_unlocked_room_takes_players_again() -> None:
    room, _ = an_arena()
    room.lock()

    room.unlock()

    assert room.open_seats
    room.check_open(PlayerId("ada"))


@pytest.mark.parametrize("policy", ["takeover", "reject"])
@pytest.mark.parametrize("seat", [reserved, seated])
def test_the_same_player_gets_no_second_seat_unless_allowed(
    policy: Any, seat: Callable[[Room[Hero], str], Player[Hero]]
) -> None:
    room, _ = an_arena()
    room.duplicate = policy
    seat(room, "ada")

    with pytest.raises(Duplicate):
        room.check_open(PlayerId("ada"))


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
    assert not room.open_seats
    with pytest.raises(NotFound):
        room.check_open(PlayerId("ada"))


def test_asking_whether_somebody_may_come_in_changes_nothing() -> None:
    room, _ = an_arena()

    room.check_open(PlayerId("ada"))

    assert room.seats == ()


# Objects


def test_a_room_knows_who_owns_its_objects() -> None:
    room, _ = an_arena()
    ada = seated(room, "ada")

    room.own(ada, "sword")

    assert room.owner_of("sword") is ada
    assert ada.owned == {"sword"}
    assert room.owner_of("unicorn") is None


def test_a_disowned_object_goes_back_to_the_server_and_an_unknown_one_is_not_invented() -> None:
    room, _ = an_arena()
    ada = seated(room, "ada")
    room.own(ada, "sword")

    room.disown("sword")
    room.disown("unicorn")

    assert room.owner_of("sword") is None
    assert ada.owned == set()
    assert list(room.objects) == ["sword"]


def test_without_an_heir_hook_the_server_inherits() -> None:
    room, _ = an_arena()

    assert room.heir(a_player(), "sword") is None


# Later


def test_after_hands_a_method_of_the_room_to_the_host() -> None:
    room, desk = an_arena()

    timer = room.after(5.0, room.explode, "bridge")

    (asked,) = desk.timers
    assert timer is asked
    assert (asked.seconds, asked.method, asked.args) == (5.0, room.explode, ("bridge",))


def test_after_refuses_what_is_no_method_of_this_room() -> None:
    room, desk = an_arena()
    other, _ = an_arena()
    ada = a_player()

    for foreign in (other.explode, ada.kick, Arena.explode, lambda: None, print):
        with pytest.raises(TypeError, match="method of this room"):
            room.after(5.0, foreign)

    assert desk.timers == []


def test_spawn_hands_outside_work_to_the_host() -> None:
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
