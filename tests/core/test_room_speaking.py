"""What a room says to its players."""

from typing import Any

import pytest

from holdfast.core.messages import Message
from holdfast.core.reasons import Reason
from holdfast.core.room import context_of
from holdfast.core.session import Player, SeatStep, seat_of
from tests.core.room_samples import an_arena, reserved, seated
from tests.core.samples import ARoom, Mailbox, a_player


class Said(Message):
    text: str


def test_a_broadcast_reaches_every_player_in_the_order_they_came() -> None:
    room, _ = an_arena()
    log: list[tuple[str, Message]] = []
    for player_id in ("bob", "ada", "cyd"):
        seat_of(seated(room, player_id)).outlet = Mailbox(player_id, log)

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
    seat_of(held).outlet, seat_of(waiting).outlet = Mailbox("ada", log), Mailbox("bob", log)
    seat_of(held).happened(SeatStep.DROPPED)

    room.broadcast(Said("hi"))

    assert log == [("ada", Said("hi"))]


def test_a_broadcast_leaves_out_whom_it_is_told_to() -> None:
    room, _ = an_arena()
    log: list[tuple[str, Message]] = []
    for player_id in ("ada", "bob", "cyd"):
        seat_of(seated(room, player_id)).outlet = Mailbox(player_id, log)
    ada, _, cyd = room.players

    room.broadcast(Said("hi"), exclude=[ada])
    room.broadcast(Said("ho"), exclude=(player for player in (ada, cyd)))

    assert log == [("bob", Said("hi")), ("cyd", Said("hi")), ("bob", Said("ho"))]


@pytest.mark.parametrize("argument", ["exclude", "to"])
def test_a_broadcast_takes_players_and_not_their_ids(argument: str) -> None:
    room, players, log = four_players()

    for wrong, hint in [("ada", "self.player"), (["ada"], "self.player"), (players[0], f"{argument}=")]:
        with pytest.raises(TypeError, match=hint):
            room.broadcast(Said("a secret"), **{argument: wrong})
    with pytest.raises(TypeError, match="one role"):
        room.broadcast(Said("a secret"), role=["gm"])
    with pytest.raises(TypeError, match=r"one of self\.spectators"):
        room.promote("ada")

    assert log == []


def four_players() -> tuple[Any, list[Player[Any]], list[tuple[str, Message]]]:
    """A room with ada and dan, who are game masters, and bob and cyd, who are not; and what they hear."""
    room, _ = an_arena()
    room.max_players = 4
    log: list[tuple[str, Message]] = []
    for player_id in ("ada", "bob", "cyd", "dan"):
        seat = seat_of(seated(room, player_id))
        seat.outlet = Mailbox(player_id, log)
        seat.session.roles = frozenset({"gm"} if player_id in {"ada", "dan"} else {"vip"})
    return room, list(room.players), log


def boxes_of(room: Any) -> dict[str, Mailbox]:
    boxes: dict[str, Any] = {player.id: seat_of(player).outlet for player in room.players}
    return boxes


def test_a_broadcast_reaches_the_named_players_once_each() -> None:
    room, (ada, _, cyd, _), log = four_players()

    room.broadcast(Said("hi"), to=[cyd, ada, cyd])
    room.broadcast(Said("ho"), to=(player for player in (ada,)))
    room.broadcast(Said("nobody"), to=[])

    assert log == [("cyd", Said("hi")), ("ada", Said("hi")), ("ada", Said("ho"))]


def test_a_broadcast_reaches_those_for_whom_the_predicate_is_true() -> None:
    room, _, log = four_players()

    room.broadcast(Said("hi"), where=lambda player: player.id > "bob")
    room.broadcast(Said("nobody"), where=lambda player: None)

    assert log == [("cyd", Said("hi")), ("dan", Said("hi"))]


def test_a_broadcast_reaches_those_with_the_role() -> None:
    room, _, log = four_players()

    room.broadcast(Said("hi"), role="gm")
    room.broadcast(Said("nobody"), role="g")

    assert log == [("ada", Said("hi")), ("dan", Said("hi"))]


def test_all_conditions_of_a_broadcast_hold_together() -> None:
    room, (ada, bob, cyd, dan), log = four_players()
    asked: list[str] = []

    def is_wanted(player: Player[Any]) -> bool:
        asked.append(player.id)
        return player is not ada

    room.broadcast(Said("hi"), [cyd], to=[ada, bob, cyd, dan], where=is_wanted, role="gm")

    assert log == [("dan", Said("hi"))]
    assert asked == ["ada", "dan"]


def test_a_predicate_that_raises_reaches_nobody() -> None:
    room, _, log = four_players()

    def fails_late(player: Player[Any]) -> bool:
        return 1 / ["ada", "bob", "cyd", "dan"][::-1].index(player.id) > 0

    with pytest.raises(ZeroDivisionError):
        room.broadcast(Said("hi"), where=fails_late)
    with pytest.raises(ZeroDivisionError):
        room.broadcast_latest(Said("hi"), where=fails_late)

    assert log == []
    assert [box.latest for box in boxes_of(room).values()] == [[]] * 4


def test_a_predicate_that_is_async_reaches_nobody() -> None:
    room, _, log = four_players()

    async def is_wanted(player: Player[Any], friends: bool = False) -> bool:
        return friends

    for asynchronous in (is_wanted, lambda player: is_wanted(player, friends=False)):
        with pytest.raises(TypeError, match="plain function"):
            room.broadcast(Said("a secret"), where=asynchronous)

    assert log == []


def test_a_broadcast_to_players_who_are_not_in_the_room_reaches_the_others() -> None:
    room, (ada, bob, _, _), log = four_players()
    room.max_players = 5
    elsewhere, waiting = a_player("eve"), reserved(room, "fay")
    seat_of(elsewhere).outlet = seat_of(waiting).outlet = Mailbox("nobody", log)
    seat_of(bob).happened(SeatStep.FREED)
    context_of(room).seats.remove(seat_of(bob))

    room.broadcast(Said("hi"), to=[elsewhere, bob, waiting, ada])

    assert log == [("ada", Said("hi"))]


@pytest.mark.parametrize("wrong", ["ada", None, 7])
def test_a_broadcast_is_to_players_and_to_nothing_else(wrong: Any) -> None:
    room, (ada, *_), log = four_players()

    with pytest.raises(TypeError, match="takes players of this room"):
        room.broadcast(Said("hi"), to=[ada, wrong])

    assert log == []


def test_an_unreliable_broadcast_reaches_the_same_players_and_is_encoded_once() -> None:
    room, (ada, bob, cyd, _), log = four_players()
    boxes = boxes_of(room)

    room.broadcast_latest(Said("at 1"))
    room.broadcast_latest(Said("at 2"), "gold", [cyd], where=lambda player: player is not bob)
    room.broadcast_latest(Said("at 3"), to=[cyd, ada], role="gm")

    assert boxes["ada"].latest == [(Said("at 1"), ""), (Said("at 2"), "gold"), (Said("at 3"), "")]
    assert boxes["bob"].latest == boxes["cyd"].latest == [(Said("at 1"), "")]
    assert boxes["dan"].latest == [(Said("at 1"), ""), (Said("at 2"), "gold")]
    assert boxes["ada"].bodies_seen[0] is boxes["bob"].bodies_seen[0]
    assert log == []


def test_a_broadcast_in_an_empty_room_is_nothing() -> None:
    room, _ = an_arena()

    room.broadcast(Said("anyone?"))

    assert room.players == ()


def test_a_player_is_spoken_to_through_the_context() -> None:
    room, _ = an_arena()
    ada = seated(room, "ada")
    box = seat_of(ada).outlet = Mailbox("ada")

    ada.send(Said("hi"))
    ada.send_latest(Said("here"), "position")

    assert box.log == [("ada", Said("hi"))]
    assert box.latest == [(Said("here"), "position")]


def test_a_kick_is_asked_of_the_rooms_runner() -> None:
    room = ARoom()
    ada = a_player("ada", room=room)

    ada.kick("no cheating")

    assert room.freed == [(seat_of(ada), Reason.KICKED, "no cheating")]
