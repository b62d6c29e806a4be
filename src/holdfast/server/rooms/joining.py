"""The door of one room: who is let in, and for whom a seat is kept."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import (
    AlreadySeated,
    Failed,
    Invalid,
    NotAllowed,
    NotFound,
    NotSeated,
    Refused,
    Throttled,
)
from holdfast.core.player import Player, SeatState
from holdfast.core.reasons import Reason
from holdfast.core.reservations import Reservation
from holdfast.core.roles import check_role
from holdfast.core.room import Room
from holdfast.core.session import PlayerId, Session, SessionState
from holdfast.schemas.player import ReservationInfo
from holdfast.server.rooms.waitlist import Waitlist, check_reserved

if TYPE_CHECKING:
    from holdfast.server.node import Node
    from holdfast.server.rooms.runner import RoomRunner
    from holdfast.server.rooms.seating_host import OutletOf


class Interrupted(Exception):
    """The session dropped while it was joining; nothing has changed."""


class Door:
    """The joins and reservations of one room, and the line before it."""

    def __init__(self, host: "RoomRunner", node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._room = host.room
        self._node = node
        self._loop = loop
        self.line = Waitlist(host, self, node, loop)
        self._expiry: asyncio.TimerHandle | None = None
        self._makers_awaited: asyncio.TimerHandle | None = None
        # On a seat, but `on_join` has to wait for its turn: if they go before it, the room never hears of them.
        # With whether they came with a reservation, which is remembered so far.
        self._joining: dict[Player[Any], bool] = {}

    def close(self) -> None:
        """The room ends: no seat is kept any more, and nobody waits for one."""
        self._close_line()
        for player_id, _ in self._room.reservations:
            self._free(player_id)

    def stop(self) -> None:
        """The room is gone from here, whatever becomes of it elsewhere."""
        self._close_line()
        for player_id, _ in self._room.reservations:
            self._drop(player_id)

    def _close_line(self) -> None:
        self.line.close()
        if self._makers_awaited is not None:
            self._makers_awaited.cancel()

    # Joining

    async def join(self, session: Session, outlet_of: "OutletOf") -> Player[Any]:
        """Seat a session: the policy for doubles, a reservation, the game's approval, then the seat."""
        room, host = self._room, self._host
        existing = room.seat_of(session.player_id)
        if session.state is not SessionState.CONNECTED:
            raise Interrupted
        self.check_role(session)
        if existing is not None and host.may_take_over(existing):
            host.let_finish(existing)
            # What was said before the takeover may have cost the seat; then this is a join like any other.
            if existing.seat is not SeatState.FREED:
                return host.take_over(existing, session, outlet_of)
        # Those who wait come first.
        self.line.offer_seats()
        room.check_open(session.player_id)
        player = Player(session, room.data_type(), host=host)
        was_kept = room.reservations.use(player.id)
        host.reserve_seat(player)
        try:
            await self._approved(player)
        except BaseException:
            if was_kept:
                # The reservation stands: the player may try again while it lasts.
                room.reservations.put_back(player.id)
                self._watch_expiry()
            host.release(player)
            self._check_kept(player.id)
            raise
        self.line.leave(player.id)
        self._joining[player] = was_kept
        host.seat(player, session, outlet_of)
        try:
            await host.call(self._join, player, name="on_join")
        except Refused as refusal:
            host.free(player, Reason.JOIN_FAILED, str(refusal))
            raise
        return player

    def check_role(self, session: Session) -> None:
        """Refuse a player without the role that a seat here needs."""
        check_role(self._room.join_role, session.roles, f"a seat in a {self._room.kind}")

    async def _approved(self, player: Player[Any]) -> None:
        """Wait for the game's approval; what may have changed meanwhile is looked at again."""
        if type(self._room).admit is not Room.admit:
            await self._admitted(player)
        if player.session.state is not SessionState.CONNECTED:
            raise Interrupted
        if player.session.player is not None:
            raise AlreadySeated("this session took another seat meanwhile")
        if player.seat is not SeatState.RESERVED:
            raise NotFound("the room closed")

    def has_joined(self, player: Player[Any]) -> bool:
        """Whether the room has heard of a player on one of its seats."""
        return player not in self._joining

    def forget(self, player: Player[Any]) -> bool:
        """The player goes; True if the room has never heard of them."""
        if player not in self._joining:
            return False
        self._heard_of(player)
        return True

    def _join(self, player: Player[Any]) -> Any:
        if player not in self._joining:
            raise NotSeated("the seat was freed before the room heard of it; join again")
        self._heard_of(player)
        return self._room.on_join(player)

    def _heard_of(self, player: Player[Any]) -> None:
        if self._joining.pop(player):
            self._drop(player.id)

    async def _admitted(self, player: Player[Any]) -> None:
        try:
            answer = self._room.admit(player)
            if asyncio.iscoroutine(answer):
                async with asyncio.timeout(self._node.limits.admit_s):
                    await answer
        except Refused:
            raise
        except TimeoutError:
            raise Throttled("the room took too long to decide; try again") from None
        except Exception as error:  # noqa: BLE001 - the game's code
            self._host.failed(error, "admit", player.id)
            raise Failed("admit failed") from None

    # Reservations

    def reserve(
        self, players: Sequence[PlayerId], ttl_s: float | None, by: str = "", *, is_placed: bool = False
    ) -> ReservationInfo:
        """Keep a seat for each of them, all or none. Who has one already keeps it: asking again extends.

        `by` is the player who asks; an operator (empty) and a placement may reserve in any room.
        """
        room, limits = self._room, self._node.limits
        if by and not is_placed:
            self._check_maker(by)
        ttl_s = self._usual_s() if ttl_s is None else ttl_s
        if ttl_s > limits.reservation_max_s:
            raise Invalid(f"ttl_s: a seat is reserved for {limits.reservation_max_s:g} s at most; got {ttl_s:g}")
        # Those who wait come first.
        self.line.offer_seats()
        party = list(dict.fromkeys(players))
        coming = [each for each in party if room.seat_of(each) is None]
        fresh = [each for each in coming if each not in room.reservations]
        check_reserved(self._node, by, len(fresh) + sum(self._makes_own(each, by) for each in coming))
        if room.is_closing or fresh:
            room.check_space(len(fresh))
        for player_id in coming:
            self.keep(player_id, Reservation(self._node.now() + ttl_s, by, is_placed))
        # Of who sits already, the seat is theirs without an end.
        ends = [kept.until for each in party if (kept := room.reservations.get(each)) is not None]
        return ReservationInfo(room.id, list(party), self.seconds_until(min(ends)) if ends else 0.0)

    def reserve_placed(self, players: Sequence[PlayerId], owner: str) -> ReservationInfo:
        """Keep a seat for each player of a placement, in the name of who asked for it."""
        return self.reserve(players, None, owner, is_placed=True)

    def reserve_own(self, player_id: PlayerId) -> None:
        """Keep a seat for a player who is about to join; it ends with their session, or with the usual time."""
        self.line.offer_seats()
        if player_id not in self._room.reservations:
            self._room.check_space(1)
        self.keep(player_id, Reservation(self._node.now() + self._usual_s(), player_id))

    def _usual_s(self) -> float:
        return min(self._room.reservation_s, self._node.limits.reservation_max_s)

    def _check_kept(self, player_id: PlayerId) -> None:
        """Free a seat whose maker went while its player was on the way in, and did not get in."""
        kept = self._room.reservations.get(player_id)
        if kept is None or not kept.needs_maker:
            return
        is_known = kept.by == player_id or self._is_in_charge(kept.by) or self._room.player(kept.by) is not None
        if not is_known or not self._node.sessions.of_player(kept.by):
            self._free_all([player_id])

    def _check_maker(self, by: str) -> None:
        """Refuse a player to whom the room is nothing: seats are kept by those who would play with the guest."""
        room = self._room
        if not self._is_in_charge(by) and room.player(by) is None:
            raise NotAllowed(
                "only a player in the room, its host and the player who made it may reserve seats: join first, then "
                "reserve for the others"
            )
        if not self._node.sessions.of_player(by):
            raise NotAllowed("a reservation ends with the session of its maker, which has ended")

    def _is_in_charge(self, player_id: str) -> bool:
        """Whether a player made the room, or is its host."""
        room = self._room
        return player_id == room.listing.creator or (room.host is not None and player_id == room.host.id)

    def release(self, players: Sequence[PlayerId], by: str | None = None) -> None:
        """Give reserved seats back: a player (`by`) their own and those they have reserved, host and creator any."""
        # Who is on the way in has the seat.
        reserved = [each for each in dict.fromkeys(players) if self._room.reservations.is_waiting(each)]
        for player_id in reserved:
            kept = self._room.reservations.get(player_id)
            if by is None or kept is None or by in {player_id, kept.by} or self._is_in_charge(by):
                continue
            raise NotAllowed(f"the seat of player {player_id} was not reserved by you")
        self._free_all(reserved)

    def maker_gone(self, player_id: str) -> None:
        """A player's session has ended, or they have left the room: nobody waits any more for whom they invited."""
        self._free_all(self._room.reservations.made_by(player_id))

    def maker_left(self, player_id: str) -> None:
        """A player has given up their seat; who made the room goes on to keep seats in it."""
        if player_id != self._room.listing.creator and self._room.seat_of(PlayerId(player_id)) is None:
            self.maker_gone(player_id)

    def restored(self, player_id: PlayerId, seconds: float, by: str, *, is_placed: bool) -> None:
        """Keep a seat as a former node has kept it: so many seconds more."""
        self.keep(player_id, Reservation(self._node.now() + seconds, by, is_placed))
        if self._makers_awaited is None and self._room.reservations.makers():
            # A maker without a seat in a durable room has lost the session with the former node, and may sign in again.
            self._makers_awaited = self._loop.call_later(self._node.grace_s, self._await_makers)

    def _await_makers(self) -> None:
        for maker in self._room.reservations.makers():
            if self._node.recovery is not None:
                self._node.recovery.restore_sessions_of(maker)
            if not self._node.sessions.of_player(maker):
                self.maker_gone(maker)

    def keeps_own(self, player_id: PlayerId) -> bool:
        """Whether a seat is kept for a player at their own request or an operator's."""
        # Others may reserve a seat for them; with that they must not decide where the player goes.
        kept = self._room.reservations.get(player_id)
        return kept is not None and kept.by in {"", player_id}

    def _makes_own(self, player_id: PlayerId, by: str) -> bool:
        """Whether a seat that somebody else has reserved is the player's own with this request."""
        return player_id in self._room.reservations and not self.keeps_own(player_id) and by in {"", player_id}

    def keep(self, player_id: PlayerId, kept: Reservation) -> None:
        """Keep a seat that is free."""
        reservations, makers = self._room.reservations, self._node.rooms.makers
        is_new = player_id not in reservations
        if self._makes_own(player_id, kept.by) and (known := reservations.drop(player_id)) is not None:
            makers.over(known.by, self._host)
            kept = kept._replace(until=max(kept.until, known.until))
        if player_id not in reservations:
            makers.reserved(kept.by, self._host)
        self.line.leave(player_id)
        reservations.keep(player_id, *kept)
        self._watch_expiry()
        if is_new:
            self._host.seat_changed(player_id, SeatState.RESERVED)

    def seconds_until(self, until: float) -> float:
        """How long that is from now, as it is told."""
        return round(max(0.0, until - self._node.now()), 3)

    def _free_all(self, players: Sequence[PlayerId]) -> None:
        for player_id in players:
            self._free(player_id)
        self.line.offer_seats()

    def _free(self, player_id: PlayerId) -> None:
        self._drop(player_id)
        self._host.seat_changed(player_id, SeatState.FREED)

    def _drop(self, player_id: PlayerId) -> None:
        kept = self._room.reservations.drop(player_id)
        if kept is not None:
            self._node.rooms.makers.over(kept.by, self._host)
            self._watch_expiry()

    def _watch_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        next_at = self._room.reservations.next_at
        self._expiry = None
        if next_at is not None:
            self._expiry = self._loop.call_later(max(0.0, next_at - self._node.now()), self._expire)
        self._host.check_empty()

    def _expire(self) -> None:
        for player_id in self._room.reservations.expired(self._node.now()):
            self._drop(player_id)
            self._host.seat_changed(player_id, SeatState.EXPIRED)
        self._watch_expiry()
        self.line.offer_seats()
