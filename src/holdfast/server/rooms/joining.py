"""Who may take a seat: the rules, a reservation, the game's approval."""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.core.errors import AlreadySeated, Failed, NotFound, Refused, Throttled
from holdfast.core.listed_room import check_open, check_role
from holdfast.core.room import Room, player_data_type
from holdfast.core.room_context import RoomContext
from holdfast.core.session import RoomHandle, Seat, SeatState, SeatStep, Session, SessionState
from holdfast.server.rooms.reservations import Reservations


class Interrupted(Exception):
    """The session dropped while it was joining; nothing has changed."""


class Joining:
    """Admits newcomers to one room."""

    def __init__(
        self,
        room: Room[Any],
        context: RoomContext,
        reservations: Reservations,
        *,
        admit_s: float,
        changed: Callable[[], None],
        failed: Callable[[Exception, str, str], None],
    ) -> None:
        """`changed` is called when a seat is taken by a newcomer, or given back by one who was not approved."""
        self._room = room
        self._context = context
        self._reservations = reservations
        self._admit_s = admit_s
        self._changed = changed
        self._failed = failed

    def check(self, session: Session) -> None:
        """Refuse a session that cannot be given a seat now."""
        if session.state is not SessionState.CONNECTED:
            raise Interrupted
        self.check_role(session)

    def check_role(self, session: Session) -> None:
        """Refuse a player without the role that a seat here needs."""
        check_role(self._room.join_role, session.roles, f"a seat in a {self._room.kind}")

    async def admitted(self, session: Session, handle: RoomHandle) -> Seat:
        """A seat for a newcomer whom the game has approved."""
        context, reservations = self._context, self._reservations
        # Those who wait come first.
        reservations.offer_seats()
        check_open(self._room, session.player_id)
        seat = Seat(session, player_data_type(type(self._room))(), handle)
        seat.was_reserved = context.seats.use(seat.player_id)
        context.seats.add(seat)
        self._changed()
        try:
            await self._approved(seat)
        except BaseException:
            if seat.was_reserved:
                # The reservation stands: the player may try again while it lasts.
                reservations.put_back(seat.player_id)
            self.release(seat)
            reservations.check_kept(seat.player_id)
            raise
        reservations.seated(seat.player_id)
        return seat

    async def _approved(self, seat: Seat) -> None:
        """Wait for the game's approval; what may have changed meanwhile is looked at again."""
        if type(self._room).admit is not Room.admit:
            await self._admit(seat)
        if seat.session.state is not SessionState.CONNECTED:
            raise Interrupted
        if seat.session.seat is not None:
            raise AlreadySeated("this session took another seat meanwhile")
        if seat.state is not SeatState.RESERVED:
            raise NotFound("the room closed")

    async def _admit(self, seat: Seat) -> None:
        try:
            answer = self._room.admit(seat.player)
            if asyncio.iscoroutine(answer):
                async with asyncio.timeout(self._admit_s):
                    await answer
        except Refused:
            raise
        except TimeoutError:
            raise Throttled("the room took too long to decide; try again") from None
        except Exception as error:  # noqa: BLE001 - the game's code
            self._failed(error, "admit", seat.player_id)
            raise Failed("admit failed") from None

    def release(self, seat: Seat) -> None:
        """Give back the seat of a newcomer who was not admitted."""
        if seat.state is SeatState.RESERVED:
            seat.happened(SeatStep.FREED)
            self._context.seats.remove(seat)
            self._changed()
