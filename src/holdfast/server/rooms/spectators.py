"""The spectators of one room: who may watch, and what becomes of their places when they drop, return and leave.

A place is a seat with another purpose: the same states, outlet, delivery and resync. It has no data and no objects, and
nothing that counts seats counts it. A place is freed at once; the hook that follows from it takes its turn.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.core.addresses import AddressQuota
from holdfast.core.channel import Channel
from holdfast.core.errors import AlreadySeated, Duplicate, NotAllowed, NotFound, NotSeated, Refused, RoomFull, Throttled
from holdfast.core.messages import SeatLeft
from holdfast.core.outlet import Outlet
from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.core.room_context import RoomContext
from holdfast.core.session import Seat, SeatState, SeatStep, Session, SessionState, SpectatorSeat
from holdfast.schemas.events import SpectatorJoined, SpectatorLeft
from holdfast.schemas.frames import sentence
from holdfast.schemas.player import SeatRecord
from holdfast.server.rooms.delivery import Failure, Resyncs, SpectatorDelivery
from holdfast.server.rooms.outlet import ChannelOutlet, SilentOutlet, open_channel
from holdfast.server.rooms.persistence import Persistence
from holdfast.server.rooms.services import RoomServices
from holdfast.server.rooms.sharing import Sharing
from holdfast.server.rooms.switching import Switch
from holdfast.server.rooms.turns import Turns, nothing


class Spectators:
    """Made for the first spectator of a room."""

    def __init__(
        self,
        room: Room[Any],
        context: RoomContext,
        services: RoomServices,
        *,
        turns: Turns,
        resyncs: Resyncs,
        persistence: Persistence,
        new_outlet: Callable[[Session, Channel], ChannelOutlet],
        has_read: Callable[[Seat], None],
        sharing: Sharing | None,
        failed: Failure,
        call: Callable[..., Awaitable[Any]],
    ) -> None:
        """`call` runs a hook as a turn and waits for its end."""
        self._room = room
        self._context = context
        self._services = services
        self._publish = services.context.publish
        self._turns = turns
        self._resyncs = resyncs
        self._persistence = persistence
        self._new_outlet = new_outlet
        self._has_read = has_read
        self._sharing = sharing
        self._failed = failed
        self._call = call
        self.places = context.places
        self._quota: AddressQuota[Seat] = AddressQuota(services.shares)
        self.delivery = SpectatorDelivery(room, services, turns, failed)

    # The room, as sessions and connections see it

    @property
    def id(self) -> str:
        return self._room.id

    @property
    def kind(self) -> str:
        return self._room.kind

    @property
    def is_saved(self) -> bool:
        return self._room.durability != "memory"

    @property
    def grace_s(self) -> float:
        return self._room.grace_s

    def keep(self, session: Session) -> None:
        self._persistence.keep_spectator(session)

    def has_read(self, place: Seat) -> None:
        self._has_read(place)

    def later(self, act: Callable[..., Any], *args: Any) -> None:
        self._context.later(act, *args)

    # Coming

    async def add(self, session: Session) -> Seat:
        """Let a session watch; `Refused` if there is no place for it, or the game says no."""
        self._check(session)
        place = SpectatorSeat(session, None, self)
        # `on_spectate` waits for its turn: if the spectator leaves before it, the room never hears of them.
        place.is_joining = True
        place.happened(SeatStep.TAKEN)
        self._persistence.spectating(session)
        channel = open_channel(session, "spectator", self._room)
        self._give(place, self._new_outlet(session, channel))
        self._publish(
            SpectatorJoined(
                session=session.id,
                player=session.player_id,
                player_name=session.name,
                room=self._room.id,
                kind=self._room.kind,
            )
        )
        try:
            await self._call(self._arrived, place, name="on_spectate")
        except Refused as refusal:
            self.free(place, Reason.JOIN_FAILED, str(refusal))
            raise
        return place

    def _check(self, session: Session) -> None:
        room = self._room
        if self._context.is_closing:
            raise NotFound("the room is closing")
        if session.seat is not None and session.seat.room.id == room.id:
            raise AlreadySeated("you have a seat in this room, and hear everything already")
        if room.max_spectators <= 0:
            raise NotAllowed(f"rooms of the kind {room.kind!r} have no places for spectators")
        existing = self.places.of(session.player_id) if room.duplicate != "allow" else None
        if existing is not None:
            if room.duplicate == "reject" and existing.state is SeatState.TAKEN:
                raise Duplicate("this player watches the room already")
            self.free(existing, Reason.SUPERSEDED, "this player watches from elsewhere")
        if len(self.places) >= room.max_spectators:
            raise RoomFull(f"all {room.max_spectators} places for spectators are taken or held")
        # As on the waitlist: as many as the room has seats may come from one household.
        if existing is None and self._quota.is_full(session.address, room.max_spectators, at_least=room.max_players):
            name, address = session.name, session.address
            self._services.context.alarms.report(
                *("address_share", "refused"), player=session.player_id, player_name=name, address=address
            )
            raise Throttled("too many spectators of this room come from your address; try again later")

    def _give(self, place: Seat, outlet: Outlet) -> None:
        session = place.session
        place.outlet = outlet
        self.places.add(place)
        self._quota.take(place, session.address)
        session.place = place
        session.renew_grace(self._services.grace_s)
        self._services.lifecycle.moved(session)

    def _arrived(self, place: Seat) -> Any:
        if not place.is_joining:
            raise NotSeated("the place was freed before on_spectate was called; watch again")
        place.is_joining = False
        self._persistence.heard_of(place.session)
        if (turn := self._context.transaction) is not None:
            # If `on_spectate` fails, the room has not heard of them: there is no `on_unspectate`.
            turn.undo(setattr, place, "is_joining", True)
        return self._room.on_spectate(place.spectator)

    def restore(self, session: Session, saved: SeatRecord) -> None:
        """Hold a place from the store, for its spectator to return to."""
        channel = session.channel_for("spectator")
        place = SpectatorSeat(session, None, self, saved.number)
        place.shown_name = saved.name
        place.happened(SeatStep.TAKEN)
        place.happened(SeatStep.DROPPED)
        self._give(place, self._new_outlet(session, channel) if channel is not None else SilentOutlet())

    def renamed(self, session: Session) -> None:
        """The spectator has another display name."""
        if session.place is not None and session.place in self.places:
            self.places.renamed(session.place)

    # Away, and back

    def dropped(self, place: Seat) -> None:
        """The spectator's connection is gone: hold the place or free it, as for a player."""
        if place.state is not SeatState.TAKEN:
            return
        room = self._room
        frees = room.disconnect == "hard" or (self._context.phase == "lobby" and not room.keep_before_start)
        if frees and place.session.drop_reason is not Reason.MOVED:
            self.free(place, Reason.DROPPED)
        else:
            place.happened(SeatStep.DROPPED)

    def returned(self, place: Seat, is_resynced: bool) -> None:
        place.happened(SeatStep.RETURNED)
        place.is_switching = False
        if is_resynced:
            self._resyncs.begin(place)
        self._has_read(place)

    def switches(self, place: Seat, switch: Switch) -> None:
        """The place is held meanwhile: no hook tells the game of it."""
        place.is_switching = switch == "expected"
        if switch == "came":
            place.happened(SeatStep.RETURNED)
            self._has_read(place)

    # Going

    def leave(self, place: Seat) -> None:
        """The spectator leaves on purpose: earlier messages are handled first."""
        self.delivery.let_finish(place)
        self._turns.take(self.free, (place, Reason.LEFT))

    def free(self, place: Seat, reason: Reason, message: str = "") -> None:
        """Free the place now; `on_unspectate` follows as a turn, and the stream's last message after it."""
        if place.state is SeatState.FREED:
            return
        self._take_away(place, reason, message)
        if not place.is_joining:
            self._turns.follow(self._leaving, (place, reason), self._left, (place, reason, message))
            return
        place.is_joining = False
        if self._turns.in_turn:
            # The turn has not said all to them, or may still be undone.
            self._turns.follow(nothing, (), self._left, (place, reason, message))
        else:
            self._left(None, None, place, reason, message)

    def _take_away(self, place: Seat, reason: Reason, message: str) -> None:
        session = place.session
        if self._sharing is not None:
            self._sharing.parting(place)
        place.happened(SeatStep.FREED)
        self.places.remove(place)
        self._quota.give_back(place)
        self._turns.forget(place)
        session.place = None
        session.renew_grace(self._services.grace_s)
        self._services.lifecycle.moved(session)
        session.close_channel("spectator")
        self._persistence.unspectated(place)
        self._publish(
            SpectatorLeft(
                session=session.id,
                player=session.player_id,
                player_name=session.name,
                room=self._room.id,
                reason=reason,
                message=sentence(message),
            )
        )

    def _leaving(self, place: Seat, reason: Reason) -> Any:
        self._resyncs.end(place)
        return self._room.on_unspectate(place.spectator, reason)

    def _left(self, error: Exception | None, _: Any, place: Seat, reason: Reason, message: str) -> None:
        self._resyncs.end(place)
        # The place is an argument for `Turns.forget`, as with seats.
        if error is not None:
            self._failed(error, "on_unspectate", place.player_id)
        place.outlet.finish(SeatLeft(reason, sentence(message)))
        place.part()

    def let_go(self) -> None:
        """Another server has the room: sessions that stay here watch it no more, and nothing that waits may leave."""
        message = "another server has this room"
        for place in self.places:
            if place.session.state is not SessionState.ENDED:
                self._resyncs.end(place)
                if isinstance(place.outlet, ChannelOutlet):
                    place.outlet.break_off(SeatLeft(Reason.MOVED, message))
                self._take_away(place, Reason.MOVED, message)
