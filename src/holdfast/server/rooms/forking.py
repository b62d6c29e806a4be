"""A room from a recorded state: its game's values are checked and read first, then a new room is filled with them."""

from collections.abc import Callable, Collection
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.errors import Invalid
from holdfast.core.grouping import Grouping
from holdfast.core.join_options import needs_options
from holdfast.core.messages import PlayerData
from holdfast.core.room import Room, player_data_type
from holdfast.core.saved_types import saved_type
from holdfast.core.session import Seat, SeatStep, Session
from holdfast.logs import get_logger
from holdfast.schemas.player import NO_OPTIONS, SeatRecord
from holdfast.server.rooms.recorded_state import EngineView, SeatView, seat_keys
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.rooms.splitmix64 import SplitMix64
from holdfast.server.rooms.timer_arguments import restored_arguments
from holdfast.state import read_parts

log = get_logger("holdfast.server")

_NO_DATA = NO_OPTIONS
_read_arguments = msgspec.msgpack.Decoder(list[tuple[str, Any]]).decode


class RecordedSeat(Struct, frozen=True):
    """A seat, with its player's data and options as the game has them."""

    key: str
    view: SeatView
    data: PlayerData
    options: Any


class RecordedRoom(Struct, frozen=True):
    """A recorded state, read as the types of a game."""

    room_type: type[Room[Any]]
    clock: float
    """The time of its room's clock."""
    state: Any
    seats: list[RecordedSeat]
    engine: EngineView


def read_recorded(room_type: type[Room[Any]], recorded: dict[str, Any], clock: float) -> RecordedRoom:
    """A recorded state as the types of this game; `Invalid` if it does not fit them."""
    data, players = player_data_type(room_type), recorded["players"]
    seats = read_value(recorded["seats"], dict[str, SeatView], "its seats")
    return RecordedRoom(
        room_type=room_type,
        clock=clock,
        state=read_state(room_type, recorded["state"]),
        seats=[
            RecordedSeat(
                key,
                view,
                read_value(players[key], data, f"the data of {view.player}"),
                _read_options(room_type, view),
            )
            for key, view in sorted(seats.items(), key=lambda each: each[1].number)
        ],
        engine=read_value(recorded["room"], EngineView, "the room"),
    )


def read_state(room_type: type[Room[Any]], recorded: Any) -> Any:
    """The game's state; None if it was not set up yet."""
    return None if recorded is None else read_value(recorded, saved_type(room_type), "its state")


def read_value(recorded: Any, kind: Any, what: str) -> Any:
    """Recorded plain data as this type, or `Invalid`."""
    try:
        return msgspec.convert(recorded, kind, str_keys=True, dec_hook=read_parts)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise Invalid(f"this recording was made by a game with other types: {what}: {error}") from None


def _read_options(room_type: type[Room[Any]], view: SeatView) -> Any:
    if room_type.join_options is None or (view.options is None and not needs_options(room_type)):
        return None
    return read_value(view.options, room_type.join_options, f"the options of {view.player}")


# Filling a room


def fill_room(runner: RoomRunner, recorded: RecordedRoom, session_of: Callable[[SeatView], Session]) -> None:
    """Put a recorded state into a new room that has taken no turn yet; the seats are held for their players."""
    room, context, engine = runner.room, runner.context, recorded.engine
    if recorded.state is not None:
        room.restore(recorded.state)
    context.phase = "playing" if engine.phase == "playing" else "lobby"
    context.is_locked = engine.is_locked
    room.max_players = engine.max_players
    context.set_properties(engine.properties)
    if engine.random and isinstance(context.random, SplitMix64):
        context.random.setstate((int(engine.random, 16),))
    runner.was_joined = bool(recorded.seats)
    seats: dict[str, Seat] = {}
    for each in recorded.seats:
        view = each.view
        session = session_of(view)
        saved = SeatRecord(view.player, "", _NO_DATA, view.number, name=view.name, agent=view.agent)
        runner.restore_seat(session, each.data, each.options, saved)
        assert session.seat is not None
        seats[each.key] = session.seat
    for object_id, owner in engine.owners.items():
        if not owner or owner in seats:
            context.objects.give(seats[owner].player if owner else None, object_id)
    _fill_groups(runner, engine, seats)
    host = seats.get(engine.host)
    context.host = host.player if host is not None else None
    context.successor = engine.successor


def _fill_groups(runner: RoomRunner, engine: EngineView, seats: dict[str, Seat]) -> None:
    if not engine.groups:
        return
    grouping = runner.context.grouping = Grouping(runner.limits)
    for name, members in engine.groups.items():
        for key in members:
            if key in seats:
                grouping.restore(name, seats[key])


def set_timers(runner: RoomRunner, recorded: RecordedRoom) -> None:
    """Set the recorded timers, which ring after the time that was left; one that cannot be set is dropped."""
    for _, timer in sorted(recorded.engine.timers.items(), key=lambda each: int(each[0])):
        method = getattr(runner.room, timer.method, None)
        try:
            if not callable(method):
                raise TypeError(f"{type(runner.room).__name__} has no method {timer.method!r} any more")
            arguments = _read_arguments(timer.arguments)
            if any(tag == "text" for tag, _ in arguments):
                raise TypeError("one of its arguments could not be recorded")
            values = restored_arguments(runner.room, method, arguments)
        except (msgspec.ValidationError, TypeError, ValueError, LookupError) as error:
            log.error("a timer is dropped", room=runner.room.id, method=timer.method, error=error)  # noqa: TRY400
            continue
        runner.timers.restore(max(0.0, timer.due_at - recorded.clock), method, values, timer.name, timer.every_s)


def take_seats(runner: RoomRunner, held: Collection[str] = ()) -> None:
    """The players are there, but for those on these seats: nobody has to come back."""
    for seat, key in seat_keys(runner.seats.occupied).items():
        if key not in held and seat.player.session.seat is seat and not seat.player.connected:
            seat.happened(SeatStep.RETURNED)
