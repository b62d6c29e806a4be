"""The runner of one room: its life, its turns, its seats.

A seat is freed at once; the hooks that follow from it take their turn. Errors of the game's code are logged with ids,
counted, and affect nothing but their turn.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from holdfast.core.channel import Channel
from holdfast.core.errors import AlreadySeated, Duplicate, Failed, NotFound, NotSeated, Refused
from holdfast.core.join_options import checked_options, unpacked_options
from holdfast.core.limits import Limits
from holdfast.core.listed_room import check_open, check_role, check_seat
from holdfast.core.messages import PlayerData, RoomUpdated, SeatLeft
from holdfast.core.outlet import Outlet
from holdfast.core.reasons import Reason
from holdfast.core.room import Room, player_data_type
from holdfast.core.room_context import RoomCommands, RoomContext
from holdfast.core.room_listing import RoomStatus, RoomStep, check_request
from holdfast.core.session import (
    Player,
    Seat,
    SeatState,
    SeatStep,
    Session,
    SessionState,
    Spectator,
    seat_of,
)
from holdfast.schemas.events import RoomEnding, RoomStarted
from holdfast.schemas.frames import sentence
from holdfast.schemas.player import SeatRecord
from holdfast.schemas.requests import Update
from holdfast.schemas.room import PasswordHash
from holdfast.server.agent_sessions import Inbox
from holdfast.server.rooms import seat_events
from holdfast.server.rooms.agents import AgentSeating, Brain, RoomAgents
from holdfast.server.rooms.approval import Interrupted, approve
from holdfast.server.rooms.delivery import Delivery, Resyncs
from holdfast.server.rooms.effects import RoomEffects
from holdfast.server.rooms.entry import RoomEntry
from holdfast.server.rooms.listeners import RoomListeners
from holdfast.server.rooms.outlet import ChannelOutlet, PendingOutlet, SilentOutlet, open_channel
from holdfast.server.rooms.persistence import Persistence
from holdfast.server.rooms.recorder import kept_arguments, new_recorder
from holdfast.server.rooms.reservations import Reservations
from holdfast.server.rooms.saves import RoomSaves
from holdfast.server.rooms.services import RoomServices
from holdfast.server.rooms.shared_plan import plan_of
from holdfast.server.rooms.sharing import Sharing
from holdfast.server.rooms.spectators import Spectators
from holdfast.server.rooms.switching import Switching
from holdfast.server.rooms.timers import EmptyTimer, RoomTimers
from holdfast.server.rooms.transactions import Transactions
from holdfast.server.rooms.turn_buffer import TurnBuffer
from holdfast.server.rooms.turns import RoomGone, nothing

OutletOf = Callable[[Session], Outlet]


class RoomRunner:
    """Runs one room. `persistence` is what differs in a durable one."""

    def __init__(  # noqa: PLR0915 - its parts
        self,
        room_type: type[Room[Any]],
        room_id: str,
        *,
        random: Random,
        persistence: Persistence,
        services: RoomServices,
        listeners: "RoomListeners[RoomRunner]",
    ) -> None:
        self.id, self.kind = room_id, room_type.kind
        self.persistence = persistence
        self._services = services
        self._listeners = listeners
        self._now = services.context.clock.now
        self._publish = services.context.publish
        self.limits: Limits = services.context.limits
        self.turns = persistence.make_turns(services.turn_meter(room_type.kind))
        self.context = context = RoomContext(
            room_id, self.limits, random, listed=self.listed, make_commands=self._make_commands
        )
        self.seats = context.seats
        self.seat_changed = partial(listeners.seat_changed, self)
        self.room: Room[Any] = room_type(context)
        # One bound method for all that use it: every object of a room costs time in each garbage collection.
        failed, end, saved = self.failed, self.end, kept_arguments(room_type, persistence)
        self.delivery = Delivery(self.room, services, self.turns, failed)
        self.timers = RoomTimers(self.room, context, services, self.turns, saved=saved, failed=failed)
        self._saves = RoomSaves(
            self.room,
            services.player_saves,
            take_turn=self._take_turn,
            timeout_s=self.limits.effect_s,
            failed=failed,
        )
        self._agents: RoomAgents | None = None
        self.was_joined = False
        self.is_closing = False
        self.switching = Switching(services.context.clock.loop, self.limits.handover_s, self._came, self._missed)
        self.switches, self.keep = self.switching.happened, persistence.keep_seated
        self._empty_timer = EmptyTimer(self.room, context, services, self.turns, end=end, failed=failed)
        self.reservations = Reservations(
            self.room,
            context,
            services,
            seat_changed=self.seat_changed,
            changed=self.check_empty,
            persistence=persistence,
            offer=listeners.seat_offered,
        )
        self.entry = RoomEntry(
            self.room,
            context,
            services,
            check_name=listeners.check_name,
            updated=listeners.updated,
            take_turn=self._take_turn,
        )
        self.resyncs = Resyncs(self.room, self.turns, failed, self.entry)
        self.sharing: Sharing | None = None
        self._turn_buffer: TurnBuffer | None = None
        self._transactions: Transactions | None = None
        plan = plan_of(room_type)
        if plan is not None or self.room.transactional:
            self._turn_buffer = TurnBuffer(self.turns, context)
            self.turns.turn_over = self._turn_buffer.write
        if self._turn_buffer is not None and self.room.transactional:
            self.turns.undo = self._transactions = Transactions(
                self.room, context, self._turn_buffer, undone=self._undone, failed=failed
            )
        if self._turn_buffer is not None and plan is not None:
            self.sharing = Sharing(self.room, plan, context, services.context, self._turn_buffer, failed)
            self.turns.turn_over = self.sharing.turn_over
        self._spectators: Spectators | None = None
        self.recorder = new_recorder(self.room, context, services.context, self.timers, services.recordings)
        self.turns.recorder = self.delivery.recorder = self.recorder
        self.turns.speech = context.broadcasts
        # A recorder is told of every message as it is said.
        context.broadcasts.turns = self.turns if self.recorder is None else None

    @property
    def spectators(self) -> Spectators:
        """Made for the first of them: most rooms have none."""
        if self._spectators is None:
            self._spectators = Spectators(
                self.room,
                self.context,
                self._services,
                turns=self.turns,
                resyncs=self.resyncs,
                persistence=self.persistence,
                new_outlet=self._new_outlet,
                has_read=self.has_read,
                sharing=self.sharing,
                failed=self.failed,
                call=self.call,
            )
            self._spectators.delivery.recorder = self.recorder
        return self._spectators

    def _make_commands(self) -> RoomCommands:
        return RoomCommands(
            follow=self.follow,
            free=self.free,
            set_timer=self.timers.set,
            timer_named=self.timers.named,
            now=self._now,
            spawn=self.timers.spawn,
            effect=RoomEffects(self.context, self._services.outbox, self.persistence, self.turns.follow).want,
            started=self.started,
            close=partial(self.end, "closed"),
            update=self.update,
            name_host=self.entry.name_host,
            open_agent=self.open_agent,
            promote=self.promote,
        )

    @property
    def agents(self) -> RoomAgents:
        """The agents that the room has opened: most rooms have none."""
        if self._agents is None:
            send, ask, resync = self.delivery.deliver_native, self.delivery.ask_native, self.resyncs.begin
            seating = AgentSeating(self, self._take_seat, self._joined, send, ask, resync, self.failed)
            self._agents = RoomAgents(self.room, self.context, self._services, self.turns, seating)
        return self._agents

    # The room, as sessions and connections see it

    @property
    def is_saved(self) -> bool:
        return self.room.durability != "memory"

    @property
    def grace_s(self) -> float:
        return self.room.grace_s

    def later(self, act: Callable[..., Any], *args: Any) -> None:
        self.context.later(act, *args)

    # Life

    async def create(self, properties: dict[str, Any], config: dict[str, Any]) -> None:
        """Run the hooks of a new room; `Refused` if the game does not want it. Returns when it survives a crash."""
        self.context.set_properties(properties)
        await self.call(self.room.on_create, config)
        await self.call(self.room.on_created)
        if self.is_closing:
            raise NotFound("the room closed at once")
        self._begin()
        await self.persistence.saved()

    def opened(self) -> None:
        """The room was announced: players and agents may come."""
        if self.context.phase == "playing":
            self.started()
        if self._agents is not None:
            self._agents.opened()

    def recovered(self) -> None:
        """The room is restored with all its seats: start it."""
        self.turns.take(self.room.on_recover, (), self._hook_ended, ("on_recover",))
        self.follow(self.entry.check_host)
        self._begin()

    def _begin(self) -> None:
        self.timers.start_ticking()
        self._saves.start()
        self.check_empty()

    def end(self, reason: str, seats: Reason = Reason.ROOM_CLOSED, *, is_asked: bool = False) -> None:
        """End the room after the current turn: all players leave for the reason `seats`, then the room is gone.

        `is_asked` if `on_destroy` has just agreed to it; if not, it is called, and cannot refuse.
        """
        if self.is_closing:
            return
        was_announced = self.context.listing.status is not RoomStatus.CREATING
        self.is_closing = True
        self.context.listing.happened(RoomStep.CLOSED, reason)
        if was_announced:
            self._publish(
                RoomEnding(room=self.room.id, kind=self.room.kind, reason=reason, info=self.entry.public_info())
            )
        self.listed()
        for seat in self.seats:
            self.free(seat, seats)
        for place in self.context.spectators or ():
            self.spectators.free(place, seats)
        self.reservations.close()
        if not is_asked:
            self.turns.follow(self.room.on_destroy, (), self._hook_ended, ("on_destroy",))
        self.turns.follow(self._destroyed, (), self._hook_ended, ("the end",))

    def _destroyed(self) -> Any:
        self._stop_timers()
        self.turns.follow(self.room.on_destroyed, (), self._hook_ended, ("on_destroyed",))
        self.turns.follow(self._gone, (), self._hook_ended, ("the end",))
        return self._agents.ended() if self._agents is not None else None

    def _gone(self) -> None:
        self.context.listing.happened(RoomStep.DESTROYED)
        self.turns.stop()
        self._listeners.gone(self)
        self.persistence.ended()

    def abandon(self) -> None:
        """End the room in the middle of a turn, when there is no more time."""
        if not self.context.listing.is_over:
            self.context.listing.happened(RoomStep.BROKEN, self.context.listing.reason or "abandoned")
        self.let_go()
        self.persistence.ended()

    def let_go(self) -> None:
        """Stop running the room; another server may have it."""
        self.is_closing = True
        self._stop_timers()
        self.turns.stop()
        self._listeners.gone(self)
        self.reservations.stop()
        self.entry.stop()
        if self._agents is not None:
            self._agents.stop()

    def _stop_timers(self) -> None:
        self._saves.stop()
        self.timers.stop()
        self._empty_timer.stop()
        self.switching.stop()
        if self.sharing is not None:
            self.sharing.stop()

    # Turns

    async def call(self, hook: Callable[..., Any], *args: Any, name: str = "") -> Any:
        """Run a hook as a turn and wait for its end; its errors become refusals."""
        return await self.turns.call(hook, args, partial(self._refusal, name or hook.__name__, args))

    def _refusal(self, name: str, args: tuple[Any, ...], error: Exception) -> Exception:
        if isinstance(error, Refused):
            return error
        if isinstance(error, RoomGone):
            # In a cluster it may have moved to another node.
            return NotFound("the room has ended", room_id=self.room.id)
        self.failed(error, name, next((each.player_id for each in args if isinstance(each, Seat)), ""))
        return Failed(f"{name} failed")

    def follow(self, hook: Callable[..., Any], *args: Any) -> None:
        self.turns.follow(hook, args, self._hook_ended, (hook.__name__,))

    def _take_turn(self, hook: Callable[..., Any]) -> None:
        self.turns.take(hook, (), self._hook_ended, (hook.__name__,))

    def _undone(self) -> None:
        """A turn has failed and is undone; others may have come and gone meanwhile."""
        self.entry.undone()
        self.entry.check_host()

    # Taking a seat

    async def join(self, session: Session, outlet_of: OutletOf, options: Any = None) -> Seat:
        """Seat a session: the policy for duplicates, a reservation, the game's approval, then the seat."""
        seat = await self._join(session, outlet_of, options)
        self.follow(self.entry.check_host)
        return seat

    async def _join(self, session: Session, outlet_of: OutletOf, options: Any) -> Seat:
        place = session.place
        if place is not None and place.room.id == self.room.id:
            # With the seat the place is freed: what they have sent as a spectator is handled first.
            self.spectators.delivery.let_finish(place)
            await self.call(nothing)
        if session.seat is not None:
            # It was promoted since it asked: its own seat must not be taken over from it.
            raise AlreadySeated("this session was given a seat meanwhile")
        existing = self.seats.of(session.player_id)
        if existing is not None and existing.agent:
            raise Duplicate(f"the room has an agent {existing.agent!r} of its own")
        if session.state is not SessionState.CONNECTED:
            raise Interrupted
        self.check_role(session)
        if existing is not None and self._may_take_over(existing):
            self.delivery.let_finish(existing)
            # An earlier message of the player may have cost the seat; then this is a join like any other.
            if existing.state is not SeatState.FREED:
                return self._take_over(existing, session, outlet_of)
        seat = await self._admitted(session, options)
        self.was_joined = True
        self._take_seat(seat, session, outlet_of)
        try:
            await self.call(self._joined, seat, name="on_join")
        except Refused as refusal:
            self.free(seat, Reason.JOIN_FAILED, str(refusal))
            raise
        return seat

    def _take_seat(self, seat: Seat, session: Session, outlet_of: OutletOf) -> None:
        # `on_join` waits for its turn: if the player leaves before it, the room never hears of them.
        seat.is_joining = True
        seat.happened(SeatStep.TAKEN)
        self.seats.occupation_changed()
        self._give_seat(seat, session, outlet_of)
        self.seat_changed(seat.player_id, seat.state)
        self._publish(seat_events.joined(session, self.room))

    def open_agent(self, name: str, brain: Brain, roles: frozenset[str], options: Any) -> Player[Any]:
        """Seat an agent of the room's own."""
        # Those who wait come first.
        self.reservations.offer_seats()
        return self.agents.open(name, brain, roles, options)

    def check_role(self, session: Session) -> None:
        check_role(self.room.join_role, session.roles, f"a seat in rooms of the kind {self.room.kind!r}")

    async def _admitted(self, session: Session, options: Any) -> Seat:
        """A seat for a newcomer whom the game has approved."""
        # Those who wait come first.
        self.reservations.offer_seats()
        check_open(self.room, session.player_id)
        seat = self._new_seat(session, options)
        try:
            if type(self.room).admit is not Room.admit:
                await approve(self.room, seat.player, self.limits.admit_s, self.failed)
            # What may have changed meanwhile is checked again.
            if session.state is not SessionState.CONNECTED:
                raise Interrupted
            if session.seat is not None:
                raise AlreadySeated("this session took another seat meanwhile")
            if seat.state is not SeatState.RESERVED:
                raise NotFound("the room closed")
        except BaseException:
            self._not_admitted(seat)
            raise
        self.reservations.leave_waitlist(seat.player_id)
        return seat

    def _new_seat(self, session: Session, options: Any) -> Seat:
        """A seat for a newcomer, which counts from now on; a reserved one if there is one for them."""
        seat = Seat(session, player_data_type(type(self.room))(), self)
        if options is None and (kept := self.seats.reservations.get(seat.player_id)) is not None:
            options = unpacked_options(kept.options)
        seat.options = checked_options(type(self.room), options, self.limits.options_bytes_max)
        seat.was_reserved = self.seats.use(seat.player_id)
        self.seats.add(seat)
        if self._transactions is not None:
            self._transactions.seat_given(seat)
        self.check_empty()
        return seat

    def _not_admitted(self, seat: Seat) -> None:
        """A newcomer does not get the seat after all; their reservation stands."""
        if seat.was_reserved:
            self.reservations.put_back(seat.player_id)
        self._give_back(seat)
        self.reservations.check_kept(seat.player_id)

    def _give_back(self, seat: Seat) -> None:
        """Free the seat of a newcomer who was not admitted."""
        if seat.state is SeatState.RESERVED:
            seat.happened(SeatStep.FREED)
            self.seats.remove(seat)
            self._orphan(seat)
            self.check_empty()
            self._listeners.seat_given_back(self.room.id)
            if seat.agent:
                self.agents.left(seat, Reason.KICKED, "")

    def _joined(self, seat: Seat) -> Any:
        if not self._heard_of(seat):
            raise NotSeated("the seat was freed before on_join was called; join again")
        self.persistence.heard_of(seat.session)
        if (turn := self.context.transaction) is not None:
            # If `on_join` fails, the room has not heard of them: there is no `on_leave`.
            turn.undo(setattr, seat, "is_joining", True)
        return self.room.on_join(seat.player)

    def _heard_of(self, seat: Seat) -> bool:
        """The room hears of a player now, or never will; False if it has heard of them before."""
        if not seat.is_joining:
            return False
        seat.is_joining = False
        if seat.was_reserved:
            self.reservations.drop(seat.player_id)
        return True

    def wire_outlet(self, session: Session) -> ChannelOutlet:
        """The outlet of a client's seat; opening it announces the seat to the client."""
        self.persistence.arriving(session)
        return self._open_outlet(session)

    def _open_outlet(self, session: Session) -> ChannelOutlet:
        if session.connection is not None:
            session.connection.seated()
        return self._new_outlet(session, open_channel(session, "seat", self.room))

    def _new_outlet(self, session: Session, channel: Channel) -> ChannelOutlet:
        outlet = self.persistence.outlet_of(session, channel)
        outlet.broadcasts = self.context.broadcasts
        if self._turn_buffer is not None:
            buffer = self._turn_buffer.add(outlet)
            if self.sharing is not None:
                self.sharing.add(buffer, session)
        if self.recorder is not None:
            outlet.recorder = self.recorder.listener(session)
        return outlet

    def _give_seat(self, seat: Seat, session: Session, outlet_of: OutletOf) -> None:
        seat.session = session
        seat.outlet = outlet_of(session)
        if isinstance(seat.outlet, Inbox) and self.room.transactional:
            seat.outlet.room = self.context
        session.seat = seat
        session.renew_grace(self._services.grace_s)
        self._services.lifecycle.moved(session)
        if session.place is not None and session.place.room.id == self.room.id:
            # What it heard as a spectator until now, it hears on the seat from now on.
            self.spectators.free(session.place, Reason.SEATED)

    # Spectators

    async def spectate(self, session: Session) -> Seat:
        """Let a session watch the room."""
        if session.state is not SessionState.CONNECTED:
            raise Interrupted
        return await self.spectators.add(session)

    def promote(self, spectator: Spectator, options: Any) -> Player[Any]:
        """Give a spectator a seat, as if they had joined; the game has decided it, so `admit` is not asked."""
        place = seat_of(spectator)
        session = place.session
        if self.is_closing:
            raise NotFound("the room is closing")
        # Those whose session has ended are leaving: their place is freed in a turn of its own.
        is_gone = place.state is SeatState.FREED or session.state is SessionState.ENDED
        if is_gone or place.room is not self.spectators:
            raise NotFound(f"{spectator.id} does not watch this room any more")
        if session.seat is not None:
            raise AlreadySeated(f"{spectator.id} has a seat in room {session.seat.room.id}")
        check_seat(self.room, session.player_id)
        seat = self._new_seat(session, options)
        if (turn := self.context.transaction) is not None:
            seat.outlet = PendingOutlet(session)
            turn.undo(self._take_back, seat)
        self.context.later(self._promote, seat, place)
        return seat.player

    def _promote(self, seat: Seat, place: Seat) -> None:
        session, said = seat.session, getattr(seat, "outlet", None)
        if session.state is SessionState.ENDED or session.seat is not None or place.state is SeatState.FREED:
            # They left while the turn went on.
            self._not_admitted(seat)
        if seat.state is SeatState.FREED:
            return
        self.was_joined = True
        if session.codec is not None:
            self.persistence.promoted(session)
            self._take_seat(seat, session, self._open_outlet)
        else:
            # Their session was lost in a crash: the seat is held for the next one, which takes it over.
            self._take_seat(seat, session, self._restored_outlet)
        self.reservations.leave_waitlist(seat.player_id)
        # No request of theirs is answered with it.
        seat.outlet.send(RoomUpdated(self.entry.info(sees_code=True)))
        if isinstance(said, PendingOutlet):
            said.hand_over(seat.outlet)
        if session.connection is None:
            # Held as the place was: they hear of the seat when they are back.
            seat.happened(SeatStep.DROPPED)
            self.seat_changed(seat.player_id, seat.state)
        self.turns.follow(self._joined, (seat,), self._promoted, (seat,))
        self.follow(self.entry.check_host)

    def _take_back(self, seat: Seat) -> None:
        """The turn that gave this seat is undone."""
        if seat.state is SeatState.RESERVED:
            seat.happened(SeatStep.FREED)
            self.seats.forget(seat)
            self.check_empty()

    def _promoted(self, error: Exception | None, _: Any, seat: Seat) -> None:
        if error is not None and not isinstance(error, RoomGone) and seat.state is not SeatState.FREED:
            refusal = self._refusal("on_join", (seat,), error)
            self.free(seat, Reason.JOIN_FAILED, str(refusal))

    def restore_seat(self, session: Session, data: PlayerData, options: Any, saved: SeatRecord) -> None:
        """Hold a seat from the store, for its player to return to, or for the room to open its agent again."""
        seat = Seat(session, data, self, saved.number, agent=saved.agent)
        seat.shown_name = saved.name
        seat.options = options
        self.seats.add(seat)
        seat.happened(SeatStep.TAKEN)
        seat.happened(SeatStep.DROPPED)
        self.seats.occupation_changed()
        self.seat_changed(seat.player_id, seat.state)
        self._give_seat(seat, session, self._restored_outlet)
        session.expires_at = self._now() + session.grace_s
        self._services.lifecycle.graces.begin(session)

    def _restored_outlet(self, session: Session) -> Outlet:
        if session.channel is None:
            return SilentOutlet()
        return self._new_outlet(session, session.channel)

    # The same player from another session

    def _may_take_over(self, existing: Seat) -> bool:
        # A held seat is its player's in any case: a player who lost the session in a crash signs in again.
        if self.room.duplicate == "takeover":
            return existing.state is not SeatState.RESERVED
        return self.room.duplicate == "reject" and existing.state is SeatState.HELD

    def _take_over(self, seat: Seat, session: Session, outlet_of: OutletOf) -> Seat:
        former = seat.session
        self.resyncs.unmute(seat)
        message = "this player joined again from elsewhere"
        self._take_seat_away(seat)
        seat.outlet.finish(SeatLeft(Reason.SUPERSEDED, message))
        self._publish(seat_events.left(former, self.room, Reason.SUPERSEDED, message))
        self._services.lifecycle.end_session(former, Reason.SUPERSEDED, message)
        self._give_seat(seat, session, outlet_of)
        self._publish(seat_events.joined(session, self.room))
        if seat.state is SeatState.TAKEN:
            self._hold(seat)
        if seat.state is SeatState.FREED:
            raise NotSeated("the game freed the seat when it heard of the drop; join again")
        if session.name != former.name:
            self._named(seat, self.turns.take)
        self.returned(seat, True)
        return seat

    # Names

    def rename(self, session: Session, name: str) -> None:
        """The player has another display name."""
        seat, session.name = session.seat, name
        if seat is not None and seat in self.seats:
            self.persistence.changing(session)
            self._named(seat, self.turns.follow)

    def _named(self, seat: Seat, take: Callable[..., None]) -> None:
        """The seat's session has this name now."""
        old = seat.shown_name or seat.player_id
        self.seats.renamed(seat)
        if seat.player is self.context.host:
            # The listing names them.
            self.context.listing.version += 1
            self.listed()
        # A room that has not heard of the player knows no other name.
        if seat.player.name != old and not seat.is_joining:
            take(self.room.on_rename, (seat.player, old), self._seat_hook_ended, (seat, "on_rename"))

    # Away from the seat, and back

    def dropped(self, seat: Seat) -> None:
        """The player's connection is gone: hold the seat or free it, as the room's settings say."""
        if seat.state is not SeatState.TAKEN or self.switching.postpones(seat):
            return
        # A client that is about to come back by another way: the room need not hear of it.
        is_switching = seat.session.drop_reason is Reason.MOVED
        if self._frees_dropped and not is_switching:
            self.free(seat, Reason.DROPPED)
        else:
            self._hold(seat, is_switching=is_switching)

    @property
    def _frees_dropped(self) -> bool:
        return self.room.disconnect == "hard" or (self.context.phase == "lobby" and not self.room.keep_before_start)

    def _hold(self, seat: Seat, *, is_switching: bool = False) -> None:
        seat.happened(SeatStep.DROPPED)
        self.seat_changed(seat.player_id, seat.state)
        if is_switching:
            self.switches(seat, "expected")
        else:
            self.turns.take(self.room.on_drop, (seat.player,), self._dropped, (seat,))

    def _dropped(self, error: Exception | None, _: Any, seat: Seat) -> None:
        self._seat_hook_ended(error, None, seat, "on_drop")
        self._saves.save(seat.player)

    def returned(self, seat: Seat, is_resynced: bool) -> None:
        seat.happened(SeatStep.RETURNED)
        self.seat_changed(seat.player_id, seat.state)
        if is_resynced:
            self.resyncs.begin(seat)
        if not self.switching.returned(seat):
            self.turns.take(self.room.on_rejoin, (seat.player,), self._seat_hook_ended, (seat, "on_rejoin"))
        self.has_read(seat)

    def _came(self, seat: Seat) -> None:
        """The connection has changed to another node: the player was never away."""
        seat.happened(SeatStep.RETURNED)
        self.seat_changed(seat.player_id, seat.state)
        if self.sharing is not None:
            self.sharing.show_again(seat)
        self.has_read(seat)

    def _missed(self, seat: Seat) -> None:
        if self._frees_dropped:
            self.free(seat, Reason.DROPPED)
        else:
            self.turns.take(self.room.on_drop, (seat.player,), self._dropped, (seat,))

    def has_read(self, seat: Seat) -> None:
        """The client has acknowledged something: what waited for that continues."""
        if self.sharing is not None:
            self.sharing.has_read(seat)
        delivery = self.delivery if seat.purpose == "seat" else self.spectators.delivery
        delivery.has_read(seat)

    # Giving the seat back

    def leave(self, seat: Seat) -> None:
        """The player leaves on purpose: earlier messages are handled first."""
        self.delivery.let_finish(seat)
        self.turns.take(self.free, (seat, Reason.LEFT))

    def free(self, seat: Seat, reason: Reason, message: str = "") -> None:
        """Free the seat now; `on_leave` follows as a turn, and the stream's last message after it."""
        if seat.state is SeatState.RESERVED:
            self._give_back(seat)
        if seat.state is SeatState.FREED:
            return
        if self.sharing is not None:
            self.sharing.parting(seat)
        seat.happened(SeatStep.FREED)
        self.seats.remove(seat)
        if self.context.grouping is not None:
            self.context.grouping.leave(seat)
        self.turns.forget(seat)
        self._take_seat_away(seat)
        self.seat_changed(seat.player_id, seat.state)
        self._publish(seat_events.left(seat.session, self.room, reason, message))
        if reason is not Reason.DROPPED:
            # A player who dropped in a room that holds no seats may be back before their session ends.
            self.reservations.maker_left(seat.player_id)
        # Before the game hears of it: a player who has left is not the host, not even for the rest of this turn.
        self.entry.check_host()
        if not self._heard_of(seat):
            self.turns.follow(self._leaving, (seat, reason), self._left, (seat, reason, message))
        elif self.turns.in_turn:  # it has not said all to them, or may still be undone
            self.turns.follow(nothing, (), self._left, (seat, reason, message))
        else:
            self._left(None, None, seat, reason, message)
        if seat.agent:
            self.agents.left(seat, reason, message)

    def _take_seat_away(self, seat: Seat) -> None:
        session = seat.session
        session.seat = None
        session.renew_grace(self._services.grace_s)
        self._services.lifecycle.moved(session)
        session.close_channel()
        if session.connection is not None:
            session.connection.unseated()
        self.persistence.unseated(seat)
        if session.place is not None and not self.is_saved and session.state is not SessionState.ENDED:
            # Because of this seat it was not saved; the room that it watches may be.
            session.place.room.keep(session)

    def _leaving(self, seat: Seat, reason: Reason) -> Any:
        # Not when the seat was freed: a turn that was half done then may still speak to the player.
        self.resyncs.end(seat)
        return self.room.on_leave(seat.player, reason)

    def _left(self, error: Exception | None, _: Any, seat: Seat, reason: Reason, message: str) -> None:
        self.resyncs.end(seat)
        self._seat_hook_ended(error, None, seat, "on_leave")
        self._saves.save(seat.player)
        self._orphan(seat)
        seat.outlet.finish(SeatLeft(reason, sentence(message)))
        seat.part()
        if not seat.agent:  # an agent does not keep the room, and does not extend the time that an empty one has
            self.check_empty()

    def _orphan(self, seat: Seat) -> None:
        try:
            self.context.objects.orphan(seat.player, self.room.orphans, self.room.heir)
        except Exception as raised:  # noqa: BLE001 - `heir` is the game's code
            self.failed(raised, "heir", seat.player_id)

    def check_empty(self) -> None:
        """Begin to wait for the end of an empty room, or stop waiting."""
        if self.is_closing:
            self._empty_timer.stop()
        else:
            self._empty_timer.check(was_joined=self.was_joined)

    # What the room asks for

    def started(self) -> None:
        """A round has begun; a room that is still being created is not announced yet."""
        if self.context.listing.status is not RoomStatus.CREATING:
            self._publish(RoomStarted(room=self.room.id, kind=self.room.kind, info=self.entry.public_info()))

    def listed(self) -> None:
        """What the directory shows of the room has changed."""
        self._listeners.listed(self)
        self.reservations.seats_changed()
        self.entry.changed()

    def update(self, request: Update) -> None:
        check_request(request)
        self.context.later(self._listeners.update, self, request)

    def apply_update(self, request: Update, password: PasswordHash | None = None) -> None:
        """Change the room's entry; `password` is what is kept of the one in the request."""
        self.entry.apply(request, password)
        self.reservations.offer_seats()

    # Failures

    def _hook_ended(self, error: Exception | None, _: Any, name: str) -> None:
        # A room that was closed, or whose server stops, ends whether `on_destroy` refuses or not.
        if error is not None and not (name == "on_destroy" and isinstance(error, Refused)):
            self.failed(error, name)

    def _seat_hook_ended(self, error: Exception | None, _: Any, seat: Seat, name: str) -> None:
        # The seat is an argument for `Turns.forget`: after a seat is freed, only `on_leave` is called.
        if error is not None:
            self.failed(error, name, seat.player_id)

    def failed(self, error: Exception, where: str, player_id: str = "") -> None:
        """The game's code raised an error, which affects nothing but its turn."""
        if isinstance(error, RoomGone):
            return
        seat = self.seats.of(player_id)
        self._services.context.faults.report_game(
            error,
            where,
            kind=self.room.kind,
            room=self.room.id,
            player=player_id,
            player_name=seat.name if seat is not None else "",
        )
