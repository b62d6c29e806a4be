"""Planted bugs of spectators."""
# ruff: noqa: SLF001 - a planted bug reaches inside

from collections.abc import Iterator
from typing import Any

from holdfast.core.room_context import RoomContext
from holdfast.core.session import Seat, SeatState, SeatStep
from holdfast.server.durability.gate import GatedOutlet
from holdfast.server.durability.room_writer import RoomWriter
from holdfast.server.durability.session_writers import SessionWriters
from holdfast.server.rooms.outlet import ChannelOutlet
from holdfast.server.rooms.spectators import Spectators
from tests.simulation.planting import durable_mutant, mutant, patched


@mutant
def a_spectator_is_resynced_and_never_shown_the_state() -> Iterator[None]:
    def returned(spectators: Spectators, place: Seat, _: bool) -> None:
        place.happened(SeatStep.RETURNED)
        spectators.delivery.has_read(place)

    with patched(Spectators, returned=returned):
        yield


@mutant
def spectators_who_are_away_miss_what_is_said() -> Iterator[None]:
    def everybody(context: RoomContext) -> tuple[Seat, ...]:
        return tuple(seat for seat in right(context) if seat.purpose == "seat" or seat.state is not SeatState.HELD)

    right = RoomContext.everybody.fget  # type: ignore[attr-defined]  # a property
    with patched(RoomContext, everybody=property(everybody)):
        yield


@durable_mutant
def spectators_hear_of_a_turn_before_it_is_saved() -> Iterator[None]:
    def _give(spectators: Spectators, place: Seat, outlet: Any) -> None:
        if isinstance(outlet, GatedOutlet):
            outlet = ChannelOutlet(outlet._session, outlet.channel, outlet._options)
        right(spectators, place, outlet)

    right = Spectators._give
    with patched(Spectators, _give=_give):
        yield


@durable_mutant
def a_place_and_its_session_are_saved_apart() -> Iterator[None]:
    def moved(writers: SessionWriters, session: Any, purpose: Any) -> None:
        if purpose == "seat":
            right(writers, session, purpose)
        else:
            writers.changed(session)

    right = SessionWriters.moved
    with patched(SessionWriters, moved=moved):
        yield


@durable_mutant
def spectators_are_not_in_the_record() -> Iterator[None]:
    with patched(RoomWriter, _cut_spectators=lambda *_: []):
        yield
