"""The runner of one room: its turns, its seats, its way into the world.

A seat is freed at once; the hooks that follow from it take their turn. Whatever a game's code raises is logged with
ids, counted, and harms nothing but the turn it was raised in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from holdfast.core.errors import Failed, NotFound, NotSeated, Refused
from holdfast.core.limits import Limits
from holdfast.core.messages import PlayerData, SeatLeft
from holdfast.core.player import Outlet, Player, SeatEvent, SeatState
from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.core.room_listing import RoomStatus, RoomStep, check_request
from holdfast.core.session import PlayerId, Session
from holdfast.schemas.events import PlayerJoined, PlayerLeft, RoomStarted
from holdfast.schemas.frames import Seat, sentence
from holdfast.schemas.player import WaitInfo
from holdfast.schemas.requests import Update
from holdfast.schemas.room import PasswordHash
from holdfast.server.rooms.delivery import Delivery
from holdfast.server.rooms.effects import effect_record
from holdfast.server.rooms.entry import Entry
from holdfast.server.rooms.joining import Joining
from holdfast.server.rooms.outlet import ChannelOutlet, SilentOutlet
from holdfast.server.rooms.persistence import Persistence
from holdfast.server.rooms.reservations import Reservations
from holdfast.server.rooms.resyncs import Resyncs
from holdfast.server.rooms.saves import Saves
from holdfast.server.rooms.services import RoomServices
from holdfast.server.rooms.timers import EmptyTimer, RoomTimer, RoomTimers
from holdfast.server.rooms.turns import RoomEnded, Turns

OutletOf = Callable[[Session], Outlet]


@dataclass(frozen=True, slots=True)
class RoomListeners:
    """Who hears of rooms: whatever keeps an index of them, and follows them."""

    listed: Callable[["RoomRunner"], None]
    """What the directory shows of a room has changed."""
    seat_changed: Callable[["RoomRunner", str, SeatState], None]
    """The seat of a player, by id, is in another state."""
    seat_given_back: Callable[[str], None]
    """A newcomer to a room, by id, was not admitted."""
    gone: Callable[["RoomRunner"], None]
    """A room has ended, or is not this server's any more."""
    check_name: Callable[[Room[Any], str | None], None]
    """Refuses a new name that another room has."""
    updated: Callable[[Room[Any], Update], None]
    """A room's entry was changed as this request says."""
    seat_offered: Callable[[PlayerId, WaitInfo], None]
    """A seat is kept for a player who waits for one."""


class RoomRunner:
    """Runs one room. `persistence` is what differs in a durable one."""

    def __init__(
        self,
        room_type: type[Room[Any]],
        room_id: str,
        *,
        random: Random,
        persistence: Persistence,
        services: RoomServices,
        listeners: RoomListeners,
    ) -> None:
        self.persistence = persistence
        self._services = services
        self._listeners = listeners
        self._now = services.context.clock.now
        self._publish = services.context.publish
        self.limits: Limits = services.context.limits
        self.turns = Turns(
            services.context.clock.loop,
            services.turn_meter(room_type.kind),
            turn_s=services.context.limits.turn_s,
            turn_ended=persistence.turn_ended,
        )
        self.room: Room[Any] = room_type(room_id, self, random)
        delivery = Delivery(self.room, services, self.turns, self.failed)
        self.deliver = delivery.deliver
        self.refuse = delivery.refuse
        self.has_read = delivery.has_read
        self.let_finish = delivery.let_finish
        self.deliver_latest = delivery.deliver_latest
        self.deliver_native = delivery.deliver_native
        self.timers = RoomTimers(self.room, services, self.turns, self.failed)
        self.spawn = self.timers.spawn
        self._saves = Saves(self.room, services.saving, timeout_s=services.context.limits.effect_s, failed=self.failed)
        self.was_joined = False
        self.is_closing = False
        # On a seat, but `on_join` has to wait for its turn: if they go before it, the room never hears of them. With
        # whether they came with a reservation, which is remembered so far.
        self._joining: dict[Player[Any], bool] = {}
        self._empty_timer = EmptyTimer(
            self.room, services.context.clock, unjoined_s=services.context.limits.unjoined_s, end=self.end
        )
        self.reservations = Reservations(
            self.room,
            services,
            seat_changed=self.seat_changed,
            changed=self.check_empty,
            once_saved=persistence.once_saved,
            offer=listeners.seat_offered,
        )
        self.joining = Joining(
            self.room,
            self.reservations,
            admit_s=services.context.limits.admit_s,
            changed=self._newcomers_changed,
            failed=self.failed,
        )
        self.entry = Entry(
            self.room,
            services,
            check_name=listeners.check_name,
            updated=listeners.updated,
            has_joined=self.has_joined,
            listed=self.listed,
            follow=self.follow,
            take_turn=self._take_turn,
        )
        self.name_host = self.entry.name_host
        self.resyncs = Resyncs(self.room, self.turns, info=partial(self.entry.info, sees_code=True), failed=self.failed)

    # Life

    async def create(self, properties: dict[str, Any]) -> None:
        """Run the hooks of a new room; `Refused` if the game does not want it. Returns when it survives a crash."""
        self.room.set_properties(properties)
        await self.call(self.room.on_create, self.room.properties)
        await self.call(self.room.on_created)
        if self.is_closing:
            raise NotFound("the room closed at once")
        self._begin()
        await self.persistence.saved()

    def recovered(self) -> None:
        """The room is back from the store with all its seats: go on."""
        self.turns.take(self.room.on_recover, (), self._hook_ended, ("on_recover",))
        self.follow(self.entry.check_host)
        self._begin()

    def _begin(self) -> None:
        self.timers.start_ticking()
        self._saves.start()
        self.check_empty()

    def close(self) -> None:
        """The game ends the room."""
        self.end("closed")

    def end(self, reason: str, seats: Reason = Reason.ROOM_CLOSED) -> None:
        """End the room after the current turn: everybody leaves, for the reason of `seats`; then it is gone."""
        if self.is_closing:
            return
        self.is_closing = self.room.is_closing = True
        self.room.listing.happened(RoomStep.CLOSED, reason)
        self.listed()
        for seat in self.room.seats:
            self.free(seat, seats)
        self.reservations.close()
        self.turns.follow(self.room.on_destroy, (), self._hook_ended, ("on_destroy",))
        self.turns.follow(self._destroyed, (), self._hook_ended, ("the end",))

    def _destroyed(self) -> Any:
        self._stop_timers()
        self.turns.follow(self.room.on_destroyed, (), self._hook_ended, ("on_destroyed",))
        self.turns.follow(self._gone, (), self._hook_ended, ("the end",))

    def _gone(self) -> None:
        self.room.listing.happened(RoomStep.DESTROYED)
        self.turns.stop()
        self._listeners.gone(self)
        self.persistence.ended()

    def abandon(self) -> None:
        """End the room in the middle of a turn, when there is no more time."""
        if not self.room.listing.is_over:
            self.room.listing.happened(RoomStep.BROKEN, self.room.listing.reason or "abandoned")
        self.let_go()
        self.persistence.ended()

    def let_go(self) -> None:
        """Have no more to do with the room, whatever becomes of it."""
        self.is_closing = True
        self._stop_timers()
        self.turns.stop()
        self._listeners.gone(self)
        self.reservations.stop()
        self.entry.stop()

    def _stop_timers(self) -> None:
        self._saves.stop()
        self.timers.stop()
        self._empty_timer.stop()

    # Turns

    async def call(self, hook: Callable[..., Any], *args: Any, name: str = "") -> Any:
        """Run a hook as a turn and wait for its end; what it raises becomes a refusal."""
        return await self.turns.call(hook, args, partial(self._refusal, name or hook.__name__, args))

    def _refusal(self, name: str, args: tuple[Any, ...], error: Exception) -> Exception:
        if isinstance(error, Refused):
            return error
        if isinstance(error, RoomEnded):
            return NotFound("the room has ended")
        self.failed(error, name, next((each.id for each in args if isinstance(each, Player)), ""))
        return Failed(f"{name} failed")

    def follow(self, hook: Callable[..., Any], *args: Any) -> None:
        """Run a hook right after the current turn."""
        self.turns.follow(hook, args, self._hook_ended, (hook.__name__,))

    def _take_turn(self, hook: Callable[..., Any]) -> None:
        self.turns.take(hook, (), self._hook_ended, (hook.__name__,))

    # Taking a seat

    async def join(self, session: Session, outlet_of: OutletOf) -> Player[Any]:
        """Seat a session: the policy for doubles, a reservation, the game's approval, then the seat."""
        player = await self._join(session, outlet_of)
        self.follow(self.entry.check_host)
        return player

    async def _join(self, session: Session, outlet_of: OutletOf) -> Player[Any]:
        existing = self.room.seat_of(session.player_id)
        self.joining.check(session)
        if existing is not None and self._may_take_over(existing):
            self.let_finish(existing)
            # What was said before the takeover may have cost the seat; then this is a join like any other.
            if existing.seat is not SeatState.FREED:
                return self._take_over(existing, session, outlet_of)
        player, was_kept = await self.joining.admitted(session, self)
        self._joining[player] = was_kept
        player.happened(SeatEvent.TAKEN)
        self.room.seats_changed()
        self.was_joined = True
        self._give_seat(player, session, outlet_of)
        self.seat_changed(player.id, player.seat)
        self._publish_joined(session)
        try:
            await self.call(self._joined, player, name="on_join")
        except Refused as refusal:
            self.free(player, Reason.JOIN_FAILED, str(refusal))
            raise
        return player

    def _joined(self, player: Player[Any]) -> Any:
        if not self._heard_of(player):
            raise NotSeated("the seat was freed before the room heard of it; join again")
        return self.room.on_join(player)

    def _heard_of(self, player: Player[Any]) -> bool:
        """The room hears of a player for the first time, or never will; False if it has heard of them before."""
        was_kept = self._joining.pop(player, None)
        if was_kept:
            self.reservations.used(player.id)
        return was_kept is not None

    def has_joined(self, player: Player[Any]) -> bool:
        """Whether the room has heard of a player on one of its seats."""
        return player not in self._joining

    def _newcomers_changed(self) -> None:
        self.check_empty()
        self._listeners.seat_given_back(self.room.id)

    def wire_outlet(self, session: Session) -> ChannelOutlet:
        """The outlet of a seat whose player is far away; opening it announces the seat to the client."""
        self.persistence.arriving(session)
        channel = session.open_channel()
        connection = session.connection
        if connection is not None:
            connection.seated()
            connection.send(Seat("joined", channel.number, channel.generation, self.room.id, self.room.kind))
        return self.persistence.outlet_of(session, channel)

    def _give_seat(self, player: Player[Any], session: Session, outlet_of: OutletOf) -> None:
        player.session = session
        player.outlet = outlet_of(session)
        session.player = player
        session.room = self.room
        session.grace_s = self.room.grace_s

    def restore_seat(self, session: Session, data: PlayerData, number: int) -> None:
        """Hold a seat as the store has it, for its player to return to."""
        player = Player(session, data, host=self)
        player.number = number
        self.room.add_seat(player)
        player.happened(SeatEvent.TAKEN)
        player.happened(SeatEvent.DROPPED)
        self.room.seats_changed()
        self.seat_changed(player.id, player.seat)
        self._give_seat(player, session, self._restored_outlet)
        session.expires_at = self._now() + session.grace_s
        self._services.lifecycle.graces.begin(session)

    def _restored_outlet(self, session: Session) -> Outlet:
        if session.channel is None:
            return SilentOutlet()
        return self.persistence.outlet_of(session, session.channel)

    # The same player from another session

    def _may_take_over(self, existing: Player[Any]) -> bool:
        # A held seat is its player's in any case: a player who lost the session, in a crash, signs in again.
        policy = self.room.duplicate
        if policy == "takeover":
            return existing.seat is not SeatState.RESERVED
        return policy == "reject" and existing.seat is SeatState.HELD

    def _take_over(self, player: Player[Any], session: Session, outlet_of: OutletOf) -> Player[Any]:
        former = player.session
        self.resyncs.unmute(player)
        message = "this player joined again from elsewhere"
        self._take_seat_away(former)
        player.outlet.finish(SeatLeft(Reason.SUPERSEDED, message))
        self._publish_left(former, Reason.SUPERSEDED, message)
        self._services.lifecycle.end_session(former, Reason.SUPERSEDED, message)
        self._give_seat(player, session, outlet_of)
        self._publish_joined(session)
        if player.seat is SeatState.TAKEN:
            self._hold(player)
        if player.seat is SeatState.FREED:
            raise NotSeated("the game freed the seat when it heard of the drop; join again")
        self.returned(player, is_resynced=True)
        return player

    # Away from the seat, and back

    def dropped(self, player: Player[Any]) -> None:
        """The player's connection is gone: hold the seat or free it, as the room's settings say."""
        if player.seat is not SeatState.TAKEN:
            return
        room = self.room
        if room.disconnect == "hard" or (room.phase == "lobby" and not room.keep_before_start):
            self.free(player, Reason.DROPPED)
        else:
            self._hold(player)

    def _hold(self, player: Player[Any]) -> None:
        player.happened(SeatEvent.DROPPED)
        self.seat_changed(player.id, player.seat)
        self.turns.take(self.room.on_drop, (player,), self._dropped, (player,))

    def _dropped(self, error: Exception | None, _: Any, player: Player[Any]) -> None:
        self._seat_hook_ended(error, None, player, "on_drop")
        self._saves.save(player)

    def returned(self, player: Player[Any], *, is_resynced: bool) -> None:
        """The player is back on their seat."""
        player.happened(SeatEvent.RETURNED)
        self.seat_changed(player.id, player.seat)
        if is_resynced:
            self.resyncs.begin(player)
        self.turns.take(self.room.on_rejoin, (player,), self._seat_hook_ended, (player, "on_rejoin"))
        self.has_read(player)

    # Giving the seat back

    def leave(self, player: Player[Any]) -> None:
        """The player leaves on purpose: what they said before is applied before."""
        self.let_finish(player)
        self.turns.take(self.free, (player, Reason.LEFT))

    def kick(self, player: Player[Any], message: str) -> None:
        """Remove a player; they are told why."""
        self.free(player, Reason.KICKED, message)

    def free(self, player: Player[Any], reason: Reason, message: str = "") -> None:
        """The player is out, now; `on_leave` follows as a turn, and the stream's last message after it."""
        if player.seat is SeatState.RESERVED:
            self.joining.release(player)
        if player.seat is SeatState.FREED:
            return
        player.happened(SeatEvent.FREED)
        self.room.remove_seat(player)
        self.turns.forget(player)
        self.resyncs.end(player)
        self._take_seat_away(player.session)
        self.seat_changed(player.id, player.seat)
        self._publish_left(player.session, reason, message)
        if reason is not Reason.DROPPED:
            # Dropped in a room that holds no seats, they may be back before their session ends.
            self.reservations.maker_left(player.id)
        # Before the game hears of it: a player who has left is nobody's host, not even for the rest of this turn.
        self.entry.check_host()
        if self._heard_of(player):
            self._left(None, None, player, reason, message)
        else:
            self.turns.follow(self.room.on_leave, (player, reason), self._left, (player, reason, message))

    def _take_seat_away(self, session: Session) -> None:
        session.room = None
        session.player = None
        session.grace_s = self._services.grace_s
        session.close_channel()
        if session.connection is not None:
            session.connection.unseated()
        self.persistence.unseated(session)

    def _left(self, error: Exception | None, _: Any, player: Player[Any], reason: Reason, message: str) -> None:
        self._seat_hook_ended(error, None, player, "on_leave")
        self._saves.save(player)
        try:
            self.room.objects.orphan(player, self.room.orphans, self.room.heir)
        except Exception as raised:  # noqa: BLE001 - `heir` is the game's code
            self.failed(raised, "heir", player.id)
        player.outlet.finish(SeatLeft(reason, sentence(message)))
        self.check_empty()

    # What is told of seats

    def seat_changed(self, player_id: str, state: SeatState) -> None:
        """A seat is in another state."""
        self._listeners.seat_changed(self, player_id, state)

    def _publish_joined(self, session: Session) -> None:
        room = self.room
        self._publish(PlayerJoined(session=session.id, player=session.player_id, room=room.id, kind=room.kind))

    def _publish_left(self, session: Session, reason: Reason, message: str) -> None:
        told, room_id = sentence(message), self.room.id
        self._publish(
            PlayerLeft(session=session.id, player=session.player_id, room=room_id, reason=reason, message=told)
        )

    def check_empty(self) -> None:
        """Begin to wait for the end of an empty room, or stop waiting."""
        if self.is_closing:
            self._empty_timer.stop()
        else:
            self._empty_timer.check(was_joined=self.was_joined)

    # What the room asks for

    def started(self) -> None:
        """A round has begun; nobody has heard of a room that is still being made."""
        if self.room.listing.status is not RoomStatus.CREATING:
            self._publish(RoomStarted(room=self.room.id, kind=self.room.kind))

    def listed(self) -> None:
        """What the directory shows of the room has changed."""
        self._listeners.listed(self)
        self.reservations.seats_changed()
        self.entry.changed()

    def update(self, request: Update) -> None:
        """The game changes the room's entry."""
        check_request(request)
        self.follow(self.apply_update, request)

    def apply_update(self, request: Update, password: PasswordHash | None = None) -> None:
        """Change the room's entry; `password` is what is kept of the one in the request."""
        self.entry.apply(request, password)
        self.reservations.offer_seats()

    def after(self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...]) -> RoomTimer:
        """Call a method of the room later."""
        return self.timers.after(seconds, method, args, self.persistence.timer_arguments(method.__name__, args))

    def effect(self, name: str, payload: Any) -> None:
        """Carry out an effect outside, after the current turn."""
        self._services.outbox.check(name, self.room.id, self.persistence.effects_waiting)
        self.persistence.effect(effect_record(name, payload, self.room.id), self.turns.follow)

    # Failures

    def _hook_ended(self, error: Exception | None, _: Any, name: str) -> None:
        if error is not None:
            self.failed(error, name)

    def _seat_hook_ended(self, error: Exception | None, _: Any, player: Player[Any], name: str) -> None:
        # The player is here for `Turns.forget`: of a seat that is freed, nothing more is told than `on_leave`.
        if error is not None:
            self.failed(error, name, player.id)

    def failed(self, error: Exception, where: str, player_id: str = "") -> None:
        """The game's code raised: it harms nothing but its turn."""
        if not isinstance(error, RoomEnded):
            self._services.context.faults.report_game(
                error, where, kind=self.room.kind, room=self.room.id, player=player_id
            )
