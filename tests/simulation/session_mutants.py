"""Planted bugs of sessions, seats, tokens and turns."""
# ruff: noqa: SLF001 - a planted bug reaches inside

from collections.abc import Iterator
from typing import Any

from holdfast.core import listed_room
from holdfast.core.errors import RoomFull
from holdfast.core.room import Room
from holdfast.core.room_context import RoomContext
from holdfast.core.session import Seat, SeatState, Session
from holdfast.core.tokens import ResumeTokens, Verdict
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.rooms import entry, reservations
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.rooms.turns import Turns
from holdfast.server.sessions import SessionLifecycle
from tests.simulation.planting import mutant, patched


@mutant
def an_old_connection_is_not_fenced() -> Iterator[None]:
    def supersede(lifecycle: SessionLifecycle, old: Any, session: Session) -> None:
        if isinstance(old, LiveConnection):
            lifecycle._detached(session)

    with patched(SessionLifecycle, supersede=supersede):
        yield


@mutant
def the_grace_goes_on_after_a_return() -> Iterator[None]:
    def attach(session: Session, *arguments: Any) -> Any:
        deadline = session.expires_at
        old = right(session, *arguments)
        session.expires_at = deadline
        return old

    right = Session.attach
    with patched(Session, attach=attach):
        yield


@mutant
def a_held_seat_is_given_to_another_player() -> Iterator[None]:
    def check_full(room: Room[Any], context: RoomContext, seats: int) -> None:
        try:
            right(room, context, seats)
        except RoomFull:
            if not any(seat.state is SeatState.HELD for seat in context.seats):
                raise

    right = listed_room.check_full
    open_seats = {"open_seats": lambda _: 1}
    with (
        patched(listed_room, check_full=check_full, **open_seats),
        patched(reservations, **open_seats),
        patched(entry, **open_seats),
    ):
        yield


@mutant
def a_group_forgets_who_drops() -> Iterator[None]:
    def _hold(runner: RoomRunner, seat: Seat) -> None:
        if runner.context.grouping is not None:
            runner.context.grouping.leave(seat)
        right(runner, seat)

    right = RoomRunner._hold
    with patched(RoomRunner, _hold=_hold):
        yield


@mutant
def a_soft_room_forgets_who_drops() -> Iterator[None]:
    def dropped(runner: RoomRunner, player: Any) -> None:
        disconnect, runner.room.disconnect = runner.room.disconnect, "hard"
        right(runner, player)
        runner.room.disconnect = disconnect

    right = RoomRunner.dropped
    with patched(RoomRunner, dropped=dropped):
        yield


@mutant
def a_retired_token_is_accepted() -> Iterator[None]:
    def present(tokens: ResumeTokens, token: str) -> Verdict:
        verdict = right(tokens, token)
        return Verdict.GOOD if verdict is Verdict.REUSED else verdict

    right = ResumeTokens.present
    with patched(ResumeTokens, present=present):
        yield


@mutant
def a_token_is_never_used_up() -> Iterator[None]:
    def nothing(*_: Any) -> None: ...

    with patched(ResumeTokens, confirm=nothing):
        yield


@mutant
def turns_overlap() -> Iterator[None]:
    def take(turns: Turns, *arguments: Any) -> None:
        turns.is_busy = turns._is_stopped
        right(turns, *arguments)

    right = Turns.take
    with patched(Turns, take=take):
        yield
