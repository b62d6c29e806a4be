"""Planted bugs of agents: their seats, their rooms, and what they read."""
# ruff: noqa: SLF001 - a planted bug reaches inside

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.core.room_context import Seats
from holdfast.core.session import Seat, Session
from holdfast.schemas.player import SeatRecord
from holdfast.server.rooms.agents import ResyncedInbox, RoomAgents
from holdfast.server.rooms.runner import RoomRunner
from tests.simulation.planting import durable_mutant, mutant, patched


@mutant
def an_agent_keeps_its_room() -> Iterator[None]:
    def add(seats: Seats, seat: Seat) -> None:
        right(seats, seat)
        seats.agents = 0

    right = Seats.add
    with patched(Seats, add=add):
        yield


@mutant
def an_agent_that_missed_something_is_not_shown_the_state() -> Iterator[None]:
    def _waits(inbox: ResyncedInbox) -> None:
        inbox._has_missed = False
        inbox.unmute()

    with patched(ResyncedInbox, _waits=_waits):
        yield


@mutant
def the_session_of_an_agent_outlives_its_seat() -> Iterator[None]:
    def left(agents: RoomAgents, seat: Seat, *_: Any) -> None:
        life = agents._lives.pop(seat, None)
        if life is not None and life.task is not None:
            life.task.cancel()

    with patched(RoomAgents, left=left):
        yield


@durable_mutant
def the_seat_of_an_agent_comes_back_as_a_player_s() -> Iterator[None]:
    def restore_seat(runner: RoomRunner, session: Session, data: Any, options: Any, saved: SeatRecord) -> None:
        right(runner, session, data, options, replace(saved, agent=""))

    right = RoomRunner.restore_seat
    with patched(RoomRunner, restore_seat=restore_seat):
        yield
