"""The line before a full room: who waits for a seat, and is offered one when it is their turn."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.address_quota import AddressQuota
from holdfast.core.errors import AlreadySeated, NotFound, Throttled
from holdfast.core.reservations import Line, Reservation
from holdfast.core.session import PlayerId
from holdfast.schemas.player import WaitInfo

if TYPE_CHECKING:
    from holdfast.server.node import Node
    from holdfast.server.rooms.joining import Door
    from holdfast.server.rooms.runner import RoomRunner


def check_reserved(node: "Node", by: str, seats: int) -> None:
    """Refuse a player who would have more seats reserved than one may; operators (`by` "") are free to."""
    most = node.limits.reservations_per_player_max
    if by and node.rooms.makers.count(by) + seats > most:
        raise Throttled(f"a player may have {most} seats reserved at a time")


class Waitlist:
    """The line of one room. A seat that is offered is reserved for who has waited for it."""

    def __init__(self, host: "RoomRunner", door: "Door", node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._room = host.room
        self._door = door
        self._node = node
        self._loop = loop
        self._line = Line()
        self._quota: AddressQuota[PlayerId] = AddressQuota(node.shares)
        self._is_watched = False

    def close(self) -> None:
        """Nobody waits any more."""
        self._line = Line()
        self._quota = AddressQuota(self._node.shares)

    def leave(self, player_id: PlayerId) -> bool:
        """They have a seat, or do not want one any more; False if they did not wait."""
        self._quota.give_back(player_id)
        return self._line.leave(player_id)

    def wait(self, player_id: PlayerId, address: str = "") -> WaitInfo:
        """Stand in line; at once, or when it is their turn, a seat is reserved for them."""
        if player_id not in self._room.reservations:
            self._stand_in_line(player_id, address)
            self.offer_seats()
        return self._place(player_id)

    def _place(self, player_id: PlayerId) -> WaitInfo:
        kept = self._room.reservations.get(player_id)
        if kept is not None:
            return WaitInfo(self._room.id, 0, self._door.seconds_until(kept.until))
        return WaitInfo(self._room.id, self._line.position(player_id))

    def _stand_in_line(self, player_id: PlayerId, address: str) -> None:
        room = self._room
        if room.seat_of(player_id) is not None:
            raise AlreadySeated("this player has a seat in the room")
        if room.waiting_max == 0:
            raise NotFound(f"rooms of the kind {room.kind!r} have no line to wait in")
        if room.is_closing:
            raise NotFound("the room is closing")
        self._send_away_the_gone()
        if player_id in self._line:
            return
        if len(self._line) >= room.waiting_max:
            raise Throttled(f"the line is full: {room.waiting_max} are waiting already")
        # Those who play together often have one address: as many as the room seats may wait.
        if self._quota.is_full(address, room.waiting_max, at_least=room.max_players):
            self._node.alarms.tell("address_share", "refused", player=player_id, address=address)
            raise Throttled("too many are waiting in this line from your address; try again later")
        check_reserved(self._node, player_id, 1)
        self._line.add(player_id)
        self._quota.take(player_id, address)

    def _send_away_the_gone(self) -> None:
        """Who has no session any more will not come; who has only dropped keeps their place."""
        for player_id in self._line:
            if not self._node.sessions.of_player(player_id):
                self.leave(player_id)

    def stop_waiting(self, player_id: PlayerId) -> None:
        """Step out of the line, also with a seat on offer."""
        if not self.leave(player_id):
            self._door.release([player_id])

    def opened(self) -> None:
        """What is shown of the room has changed: it may have a seat for who waits."""
        # Not now: it is in the middle of something.
        if len(self._line) and not self._is_watched and self._room.open_seats > 0:
            self._is_watched = True
            self._loop.call_soon(self._look_at_line)

    def _look_at_line(self) -> None:
        self._is_watched = False
        self.offer_seats()

    def offer_seats(self) -> None:
        """Offer what is free to those who wait, in their order."""
        room = self._room
        if not len(self._line) or room.open_seats == 0:
            return
        self._send_away_the_gone()
        until = self._node.now() + min(room.reservation_s, self._node.limits.reservation_max_s)
        for player_id in self._line:
            if room.open_seats == 0:
                return
            if room.seat_of(player_id) is None and not self._has_enough(player_id):
                self._door.keep(player_id, Reservation(until, player_id))
                self._host.once_saved(partial(self._offer, player_id))

    def _has_enough(self, player_id: PlayerId) -> bool:
        """Who has as many seats reserved as one may is passed over, and keeps their place."""
        return self._node.rooms.makers.count(player_id) >= self._node.limits.reservations_per_player_max

    def _offer(self, player_id: PlayerId) -> None:
        if self._room.reservations.is_waiting(player_id):
            self._node.notices.offer(player_id, self._place(player_id))
