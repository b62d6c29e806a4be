"""What a room says to its players."""

from holdfast.core.messages import Message
from holdfast.core.reasons import Reason
from holdfast.core.session import Seat, SeatStep, seat_of
from tests.core.room_samples import an_arena, reserved, seated
from tests.core.samples import Mailbox, a_handle, a_player


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


def test_a_broadcast_shares_what_was_encoded_and_the_next_one_starts_anew() -> None:
    room, _ = an_arena()
    boxes = [Mailbox(player_id) for player_id in ("ada", "bob")]
    for box in boxes:
        seat_of(seated(room, box.owner)).outlet = box

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


def test_a_player_is_spoken_to_through_the_context() -> None:
    room, _ = an_arena()
    ada = seated(room, "ada")
    box = seat_of(ada).outlet = Mailbox("ada")

    ada.send(Said("hi"))
    ada.send_latest(Said("here"), "position")

    assert box.log == [("ada", Said("hi"))]
    assert box.latest == [(Said("here"), "position")]


def test_a_kick_is_asked_of_the_rooms_runner() -> None:
    freed: list[tuple[Seat, Reason, str]] = []
    ada = a_player("ada", room=a_handle(free=lambda *told: freed.append(told)))

    ada.kick("no cheating")

    assert freed == [(seat_of(ada), Reason.KICKED, "no cheating")]
