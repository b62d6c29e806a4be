"""The reserved seats of one room, and its waitlist when it is full."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from holdfast.core.addresses import AddressQuota
from holdfast.core.errors import AlreadySeated, Invalid, NotAllowed, NotFound, Throttled
from holdfast.core.listed_room import check_space, open_seats
from holdfast.core.room import Room
from holdfast.core.room_context import Reservation, RoomContext
from holdfast.core.session import PlayerId, SeatState
from holdfast.schemas.player import ReservationInfo, WaitInfo
from holdfast.schemas.room import ReservationRecord
from holdfast.server.rooms.persistence import Persistence
from holdfast.server.rooms.services import RoomServices

NO_OPTIONS: Mapping[PlayerId, bytes | None] = MappingProxyType({})


class Reservations:
    """Keeps seats for players who have not come yet, and offers free ones to those who wait."""

    def __init__(
        self,
        room: Room[Any],
        context: RoomContext,
        services: RoomServices,
        *,
        seat_changed: Callable[[str, SeatState], None],
        changed: Callable[[], None],
        persistence: Persistence,
        offer: Callable[[PlayerId, WaitInfo], None],
    ) -> None:
        """`changed` is called when reservations began or ended, `offer` when a seat is kept for a player who waits."""
        self._room = room
        self._context = context
        self._seats = context.seats
        self._room_id = context.room_id
        self._clock = services.context.clock
        self._limits = services.context.limits
        self._grace_s = services.grace_s
        self._sessions = services.lifecycle.registry
        self._presence = services.presence
        self._reserved = services.reserved
        self._alarms = services.context.alarms
        self._seat_changed = seat_changed
        self._changed = changed
        self._persistence = persistence
        self._offer = offer
        self._restore_sessions_of = services.stored.restore_of_player
        self._shares = services.shares
        self._quota: AddressQuota[PlayerId] = AddressQuota(services.shares)
        self._is_offering = False
        self._expiry: asyncio.TimerHandle | None = None
        self._expires_at = 0.0
        self._makers_awaited: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """The room ends: free all reserved seats, and clear the waitlist."""
        self._close_waitlist()
        for player_id in list(self._seats.reservations):
            self._free(player_id)

    def stop(self) -> None:
        """The room is gone from this server; its seats may stay reserved elsewhere."""
        self._close_waitlist()
        for player_id in list(self._seats.reservations):
            self.drop(player_id)

    def _close_waitlist(self) -> None:
        for player_id in self._seats.waitlist:
            self._reserved.waits_no_more(player_id)
        self._seats.waitlist.clear()
        self._quota = AddressQuota(self._shares)
        if self._makers_awaited is not None:
            self._makers_awaited.cancel()

    # Reserving

    def reserve(
        self,
        players: Sequence[PlayerId],
        ttl_s: float | None,
        by: str = "",
        options: Mapping[PlayerId, bytes | None] = NO_OPTIONS,
        *,
        is_placed: bool = False,
    ) -> ReservationInfo:
        """Keep a seat for each of them, all or none. A player who has one keeps it: asking again extends it.

        `by` is the player who asks; an operator (empty) and a placement may reserve in any room. `options` is what they
        join with, if they do not say otherwise.
        """
        limits = self._limits
        if by and not is_placed:
            self._check_maker(by)
        if ttl_s is not None and ttl_s > limits.reservation_max_s:
            raise Invalid(f"ttl_s: a seat is reserved for {limits.reservation_max_s:g} s at most; got {ttl_s:g}")
        # Those who wait come first.
        self.offer_seats()
        party = list(dict.fromkeys(players))
        coming = [each for each in party if self._seats.of(each) is None]
        fresh = [each for each in coming if each not in self._seats.reservations]
        self._reserved.check(by, len(fresh) + sum(self._becomes_own(each, by) for each in coming))
        if self._context.is_closing or fresh:
            check_space(self._room, len(fresh))
        until = self._usual_end() if ttl_s is None else self._clock.now() + ttl_s
        for player_id in coming:
            self._keep(player_id, Reservation(until, by, is_placed, options.get(player_id)))
        # A player on a seat has it without an end.
        ends = [kept.until for each in party if (kept := self._seats.reservations.get(each)) is not None]
        return ReservationInfo(self._room_id, list(party), self._seconds_until(min(ends)) if ends else 0.0)

    def reserve_placed(self, options: Mapping[PlayerId, bytes | None], owner: str) -> ReservationInfo:
        """Keep a seat for each player of a placement, in the name of the player who asked for it."""
        return self.reserve(list(options), None, owner, options, is_placed=True)

    def reserve_own(self, player_id: PlayerId) -> None:
        """Keep a seat for a player who is about to join, until their session ends or the usual time is over."""
        self.offer_seats()
        if player_id not in self._seats.reservations:
            check_space(self._room, 1)
        self._keep(player_id, Reservation(self._usual_end(), player_id))

    def restored(self, player_id: PlayerId, seconds: float, record: ReservationRecord) -> None:
        """Keep a seat that was reserved when the room was saved, for so many seconds more."""
        kept = Reservation(self._clock.now() + seconds, record.by, record.is_placed, record.options)
        self._keep(player_id, kept)
        if self._makers_awaited is None and kept.needs_maker:
            # A maker without a durable seat has lost the session with the former node, and may sign in again.
            self._makers_awaited = self._clock.loop.call_later(self._grace_s, self._await_makers)

    def release(self, players: Sequence[PlayerId], by: str | None = None) -> None:
        """Give reserved seats back: a player (`by`) their own and those they have reserved, host and creator any."""
        # A player who is joining has the seat.
        reserved = [each for each in dict.fromkeys(players) if self._seats.is_awaited(each)]
        for player_id in reserved:
            kept = self._seats.reservations.get(player_id)
            if by is None or kept is None or by in {player_id, kept.by} or self._is_in_charge(by):
                continue
            raise NotAllowed(f"the seat of player {player_id} was not reserved by you")
        self._free_all(reserved)

    def keeps_own(self, player_id: PlayerId) -> bool:
        """Whether a seat is kept for a player at their own request, or at an operator's."""
        # A seat that others reserved for them must not decide where the player goes.
        kept = self._seats.reservations.get(player_id)
        return kept is not None and kept.by in {"", player_id}

    def _becomes_own(self, player_id: PlayerId, by: str) -> bool:
        """Whether this request turns a seat that somebody else reserved into the player's own."""
        return player_id in self._seats.reservations and not self.keeps_own(player_id) and by in {"", player_id}

    def _keep(self, player_id: PlayerId, kept: Reservation) -> None:
        seats = self._seats
        known = seats.reservations.get(player_id)
        is_new = known is None
        # The player, an operator and whoever reserved the seat may say what the player joins with.
        if known is not None and (kept.options is None or kept.by not in {"", player_id, known.by}):
            kept = kept._replace(options=known.options)
        if self._becomes_own(player_id, kept.by) and (known := seats.unreserve(player_id)) is not None:
            self._reserved.remove(known.by, self._room_id)
            kept = kept._replace(until=max(kept.until, known.until))
        if player_id not in seats.reservations:
            self._reserved.add(kept.by, self._room_id)
        self.leave_waitlist(player_id)
        seats.reserve(player_id, kept)
        self._expire_at(kept.until)
        self._changed()
        if is_new:
            self._seat_changed(player_id, SeatState.RESERVED)

    def _usual_end(self) -> float:
        return self._clock.now() + min(self._room.reservation_s, self._limits.reservation_max_s)

    def _seconds_until(self, until: float) -> float:
        return round(max(0.0, until - self._clock.now()), 3)

    # The player who reserved a seat

    def maker_gone(self, player_id: str) -> None:
        """A player's session has ended, or they have left the room: the seats they reserved are free."""
        self._free_all(self._seats.reserved_by(player_id) if self._reserved.count(player_id) else [])

    def maker_left(self, player_id: str) -> None:
        """A player has left their seat. The reservations of the room's creator stay."""
        if player_id != self._context.listing.creator and self._seats.of(player_id) is None:
            self.maker_gone(player_id)

    def _check_maker(self, by: str) -> None:
        """Refuse a player who is neither in the room nor in charge of it."""
        if not self._is_in_charge(by) and self._seats.occupied_by(by) is None:
            raise NotAllowed(
                "only a player in the room, its host and the player who made it may reserve seats: join first, then "
                "reserve for the others"
            )
        if not self._presence.has(by):
            raise NotAllowed("a reservation ends with the session that made it, and that session has ended")

    def _is_in_charge(self, player_id: str) -> bool:
        """Whether a player made the room, or is its host."""
        context = self._context
        return player_id == context.listing.creator or (context.host is not None and player_id == context.host.id)

    def _await_makers(self) -> None:
        for maker in self._seats.makers():
            self._restore_sessions_of(maker)
            self._presence.check(maker)

    # A player with a reservation joins

    def put_back(self, player_id: PlayerId) -> None:
        """The player was not admitted: the seat waits for them again, for as long as it would have."""
        self._seats.put_back(player_id)
        kept = self._seats.reservations.get(player_id)
        if kept is not None:
            self._expire_at(kept.until)
        self._changed()

    def check_kept(self, player_id: PlayerId) -> None:
        """Free a reserved seat if its maker left while its player was joining and was not admitted."""
        kept = self._seats.reservations.get(player_id)
        if kept is None or not kept.needs_maker:
            return
        is_known = kept.by == player_id or self._is_in_charge(kept.by) or self._seats.occupied_by(kept.by) is not None
        if not is_known or not self._presence.has(kept.by):
            self._free_all([player_id])

    # Ends

    def _free_all(self, players: Sequence[PlayerId]) -> None:
        for player_id in players:
            self._free(player_id)
        self.offer_seats()

    def _free(self, player_id: PlayerId) -> None:
        self.drop(player_id)
        self._seat_changed(player_id, SeatState.FREED)

    def drop(self, player_id: PlayerId) -> None:
        """The reservation is over; the seat may be taken."""
        kept = self._seats.unreserve(player_id)
        if kept is not None:
            self._reserved.remove(kept.by, self._room_id)
            if self._expiry is not None and self._seats.reservations_open == 0:
                self._expiry.cancel()
                self._expiry = None
            self._changed()

    def _expire_at(self, until: float) -> None:
        """Look for expired reservations at this time, or earlier if that is planned already."""
        if self._expiry is not None:
            if self._expires_at <= until:
                return
            self._expiry.cancel()
        self._expires_at = until
        self._expiry = self._clock.loop.call_later(max(0.0, until - self._clock.now()), self._expire)

    def _expire(self) -> None:
        self._expiry = None
        for player_id in self._seats.expired(self._clock.now()):
            self.drop(player_id)
            self._seat_changed(player_id, SeatState.EXPIRED)
        next_expiry = self._seats.next_expiry
        if next_expiry is not None:
            self._expire_at(next_expiry)
        self.offer_seats()

    # The waitlist

    def wait(self, player_id: PlayerId, address: str = "") -> WaitInfo:
        """Join the waitlist; at once, or when it is their turn, a seat is reserved for them."""
        if player_id not in self._seats.reservations:
            self._join_waitlist(player_id, address)
            self.offer_seats()
        return self._position(player_id)

    def stop_waiting(self, player_id: PlayerId) -> None:
        """Leave the waitlist, also with a seat on offer."""
        if not self.leave_waitlist(player_id):
            self.release([player_id])

    def seats_changed(self) -> None:
        """The room may have a seat for a player who waits: offer it soon, not in the middle of a change."""
        if self._seats.waitlist and not self._is_offering and open_seats(self._room) > 0:
            self._is_offering = True
            self._clock.loop.call_soon(self._offer_soon)

    def _offer_soon(self) -> None:
        self._is_offering = False
        self.offer_seats()

    def offer_seats(self) -> None:
        """Offer free seats to the players who wait, in their order."""
        if not self._seats.waitlist or open_seats(self._room) == 0:
            return
        self._drop_ended()
        until = self._usual_end()
        for player_id in list(self._seats.waitlist):
            if open_seats(self._room) == 0:
                return
            # A player with as many reserved seats as allowed is passed over, and keeps their place.
            if self._seats.of(player_id) is None and not self._reserved.is_full(player_id):
                self._keep(player_id, Reservation(until, player_id))
                self._persistence.once_saved(partial(self._tell_offer, player_id))

    def _tell_offer(self, player_id: PlayerId) -> None:
        if self._seats.is_awaited(player_id):
            self._offer(player_id, self._position(player_id))

    def _position(self, player_id: PlayerId) -> WaitInfo:
        kept = self._seats.reservations.get(player_id)
        if kept is not None:
            return WaitInfo(self._room_id, 0, self._seconds_until(kept.until))
        return WaitInfo(self._room_id, self._seats.position(player_id))

    def _join_waitlist(self, player_id: PlayerId, address: str) -> None:
        room = self._room
        if self._seats.of(player_id) is not None:
            raise AlreadySeated("this player has a seat in the room")
        if room.waiting_max == 0:
            raise NotFound(f"rooms of the kind {room.kind!r} have no waitlist")
        if self._context.is_closing:
            raise NotFound("the room is closing")
        self._drop_ended()
        if player_id in self._seats.waitlist:
            return
        if len(self._seats.waitlist) >= room.waiting_max:
            raise Throttled(f"the waitlist is full: {room.waiting_max} players are waiting already")
        # Players in one household share an address: as many as the room has seats may wait.
        if self._quota.is_full(address, room.waiting_max, at_least=room.max_players):
            name = self._sessions.name_of(player_id)
            self._alarms.report("address_share", "refused", player=player_id, player_name=name, address=address)
            raise Throttled("too many players from your address are on this waitlist; try again later")
        self._reserved.check(player_id, 1)
        self._line_up(player_id, address)

    def _line_up(self, player_id: PlayerId, address: str) -> None:
        self._seats.waitlist[player_id] = address
        self._reserved.waits(player_id)
        self._quota.take(player_id, address)

    def waiting_came(self, waiting: Sequence[tuple[str, str]]) -> None:
        """The room has come from another node, with these players on its waitlist: before those who were quicker."""
        quicker = list(self._seats.waitlist.items())
        for player_id, _ in quicker:
            self.leave_waitlist(player_id)
        for name, address in [*waiting, *quicker]:
            player_id = PlayerId(name)
            if player_id not in self._seats.waitlist and player_id not in self._seats.reservations:
                self._line_up(player_id, address)
                self._presence.check(player_id)
        self.seats_changed()

    def leave_waitlist(self, player_id: PlayerId) -> bool:
        """Wait no more; False if the player did not wait."""
        self._quota.give_back(player_id)
        was_waiting = player_id in self._seats.waitlist
        if was_waiting:
            del self._seats.waitlist[player_id]
            self._reserved.waits_no_more(player_id)
        return was_waiting

    def _drop_ended(self) -> None:
        """Players whose session has ended are dropped from the waitlist; those who only dropped keep their place."""
        for player_id in list(self._seats.waitlist):
            if not self._presence.has(player_id):
                self.leave_waitlist(player_id)
