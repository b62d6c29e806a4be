"""Who may take a seat: the rules, a reservation, the game's approval."""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.core.errors import AlreadySeated, Failed, NotFound, Refused, Throttled
from holdfast.core.player import Player, SeatEvent, SeatHost, SeatState
from holdfast.core.roles import check_role
from holdfast.core.room import Room
from holdfast.core.session import Session, SessionState
from holdfast.server.rooms.reservations import Reservations


class Interrupted(Exception):
    """The session dropped while it was joining; nothing has changed."""


class Joining:
    """Admits newcomers to one room."""

    def __init__(
        self,
        room: Room[Any],
        reservations: Reservations,
        *,
        admit_s: float,
        changed: Callable[[], None],
        failed: Callable[[Exception, str, str], None],
    ) -> None:
        """`changed` is called when a seat is taken by a newcomer, or given back by one who was not approved."""
        self._room = room
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

    async def admitted(self, session: Session, runner: SeatHost) -> tuple[Player[Any], bool]:
        """A seat that is reserved for a newcomer whom the game has approved; and whether it was kept for them."""
        room, reservations = self._room, self._reservations
        # Those who wait come first.
        reservations.offer_seats()
        room.check_open(session.player_id)
        player = Player(session, room.data_type(), host=runner)
        was_kept = reservations.use(player.id)
        room.add_seat(player)
        self._changed()
        try:
            await self._approved(player)
        except BaseException:
            if was_kept:
                # The reservation stands: the player may try again while it lasts.
                reservations.put_back(player.id)
            self.release(player)
            reservations.check_kept(player.id)
            raise
        reservations.seated(player.id)
        return player, was_kept

    async def _approved(self, player: Player[Any]) -> None:
        """Wait for the game's approval; what may have changed meanwhile is looked at again."""
        if type(self._room).admit is not Room.admit:
            await self._admit(player)
        if player.session.state is not SessionState.CONNECTED:
            raise Interrupted
        if player.session.player is not None:
            raise AlreadySeated("this session took another seat meanwhile")
        if player.seat is not SeatState.RESERVED:
            raise NotFound("the room closed")

    async def _admit(self, player: Player[Any]) -> None:
        try:
            answer = self._room.admit(player)
            if asyncio.iscoroutine(answer):
                async with asyncio.timeout(self._admit_s):
                    await answer
        except Refused:
            raise
        except TimeoutError:
            raise Throttled("the room took too long to decide; try again") from None
        except Exception as error:  # noqa: BLE001 - the game's code
            self._failed(error, "admit", player.id)
            raise Failed("admit failed") from None

    def release(self, player: Player[Any]) -> None:
        """Give back the seat of a newcomer who was not admitted."""
        if player.seat is SeatState.RESERVED:
            player.happened(SeatEvent.FREED)
            self._room.remove_seat(player)
            self._changed()
