"""The host of one room: its life, its way into the world, and what it asks for. Its seats are in `seating_host.py`."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any

from holdfast.core.channel import Channel
from holdfast.core.errors import Failed, NotFound, Refused
from holdfast.core.limits import Limits
from holdfast.core.listing import RoomEvent, RoomStatus, check_request
from holdfast.core.player import Player, SeatState
from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.core.session import Session
from holdfast.core.tokens import printable
from holdfast.observability.metrics import TurnMeter
from holdfast.schemas.events import RoomStarted
from holdfast.schemas.frames import Seat
from holdfast.schemas.requests import Update
from holdfast.schemas.room import PasswordHash
from holdfast.server.directory.entry import Entry
from holdfast.server.rooms.delivery import Delivery
from holdfast.server.rooms.effects import effect_record
from holdfast.server.rooms.emptiness import Emptiness
from holdfast.server.rooms.joining import Door
from holdfast.server.rooms.outlet import ChannelOutlet
from holdfast.server.rooms.saves import Saves
from holdfast.server.rooms.seating_host import OutletOf, SeatingHost
from holdfast.server.rooms.timers import RoomTimer, RoomTimers
from holdfast.server.rooms.turns import RoomEnded, Turns

if TYPE_CHECKING:
    from holdfast.server.node import Node

_EFFECT_ID_BYTES = 9


class RoomRunner(SeatingHost):
    """One room and everything around it."""

    def __init__(
        self, node: "Node", loop: asyncio.AbstractEventLoop, room_type: type[Room[Any]], room_id: str, dice: Random
    ) -> None:
        self._node = node
        self._loop = loop
        self._turns = self._make_turns(node.metrics.turns_of(room_type.kind))
        self.room: Room[Any] = room_type(room_id, self, dice)
        delivery = Delivery(self.room, node, self._turns, self.failed)
        self.deliver = delivery.deliver
        self.refuse = delivery.refuse
        self.has_read = delivery.has_read
        self.let_finish = delivery.let_finish
        self.deliver_latest = delivery.deliver_latest
        self.deliver_native = delivery.deliver_native
        self._timers = RoomTimers(self.room, loop, node, self._turns, self.failed)
        self._saves = Saves(self.room, node, loop, self.failed)
        self._emptiness = Emptiness(self, node, loop)
        self.check_empty = self._emptiness.check
        self._resyncs = {}
        self.was_joined = False
        self.is_closing = False
        self.door = Door(self, node, loop)
        self.entry = Entry(self, node, loop)

    def _make_turns(self, meter: TurnMeter) -> Turns:
        return Turns(self._loop, meter, turn_s=self._node.limits.turn_s)

    # Life

    async def create(self, properties: dict[str, Any]) -> None:
        """Run the hooks of a beginning room; `Refused` if the game does not want it."""
        self.room.set_properties(properties)
        await self.call(self.room.on_create, self.room.properties)
        await self.call(self.room.on_created)
        if self.is_closing:
            raise NotFound("the room closed at once")
        self._begin()

    def _begin(self) -> None:
        self._timers.start_ticking()
        self._saves.start()
        self.check_empty()

    async def call(self, hook: Callable[..., Any], *args: Any, name: str = "") -> Any:
        """Run a hook as a turn and wait for its end; what it raises becomes a refusal."""
        ended: asyncio.Future[Any] = self._loop.create_future()
        name = name or hook.__name__

        def done(error: Exception | None, result: Any) -> None:
            if ended.done():
                return
            if error is None:
                ended.set_result(result)
            elif isinstance(error, Refused):
                ended.set_exception(error)
            elif isinstance(error, RoomEnded):
                ended.set_exception(NotFound("the room has ended"))
            else:
                self.failed(error, name, next((each.id for each in args if isinstance(each, Player)), ""))
                ended.set_exception(Failed(f"{name} failed"))

        self._turns.take(hook, args, done)
        return await ended

    def close(self) -> None:
        """The game ends the room."""
        self.end("closed")

    def end(self, reason: str, seats: Reason = Reason.ROOM_CLOSED) -> None:
        """End the room after the current turn: everybody leaves, for the reason of `seats`; then it is gone."""
        if self.is_closing:
            return
        self.is_closing = self.room.is_closing = True
        self.room.listing.happened(RoomEvent.CLOSED, reason)
        self.listed()
        for seat in self.room.seats:
            self.free(seat, seats)
        self.door.close()
        self._turns.follow(self.room.on_destroy, (), self._hook_ended, ("on_destroy",))
        self._turns.follow(self._destroyed, (), self._hook_ended, ("the end",))

    def abandon(self) -> None:
        """End the room in the middle of a turn, when there is no more time."""
        if not self.room.listing.is_over:
            self.room.listing.happened(RoomEvent.BROKEN, self.room.listing.reason or "abandoned")
        self.let_go()

    def let_go(self) -> None:
        """Have no more to do with the room, whatever becomes of it."""
        self.is_closing = True
        self._saves.stop()
        self._timers.stop()
        self._emptiness.stop()
        self._turns.stop()
        self._node.rooms.forget(self)
        self.door.stop()
        self.entry.stop()

    def _destroyed(self) -> Any:
        self._saves.stop()
        self._timers.stop()
        self._emptiness.stop()
        self._turns.follow(self.room.on_destroyed, (), self._hook_ended, ("on_destroyed",))
        self._turns.follow(self._gone, (), self._hook_ended, ("the end",))

    def _gone(self) -> None:
        self.room.listing.happened(RoomEvent.DESTROYED)
        self._turns.stop()
        self._node.rooms.forget(self)

    # Seats

    async def join(self, session: Session, outlet_of: OutletOf) -> Player[Any]:
        """Seat a session."""
        player = await self.door.join(session, outlet_of)
        self.follow(self.entry.check_host)
        return player

    def wire_outlet(self, session: Session) -> ChannelOutlet:
        """The outlet of a seat whose player is far away; opening it announces the seat to the client."""
        if self._node.committer is not None and self.room.durability == "memory":
            # Heard of when the store has forgotten the session: it must not come back without this seat.
            self._node.committer.ended(session)
            self._node.committer.hold(session)
        channel = session.open_channel()
        connection = self._node.connection_of(session)
        if connection is not None:
            connection.seated()
            connection.send(Seat("joined", channel.number, channel.generation, self.room.id, self.room.kind))
        return self.outlet_of(session, channel)

    def outlet_of(self, session: Session, channel: Channel) -> ChannelOutlet:
        """The way out to a seat."""
        return ChannelOutlet(self._node, session, channel)

    def parting(self, session: Session) -> None:
        """Who asked to leave will be answered."""

    def settled(self, session: Session) -> None:
        """Who asked to come or to go has been answered."""

    # The entry in the directory

    def seat_changed(self, player_id: str, state: SeatState) -> None:
        """A seat is in another state: whoever watches the node hears of it."""
        self._node.rooms.seat_changed(self, player_id, state)

    def started(self) -> None:
        """A round has begun; nobody has heard of a room that is still being made."""
        if self.room.listing.status is not RoomStatus.CREATING:
            self._node.publish(RoomStarted(room=self.room.id, kind=self.room.kind))

    def listed(self) -> None:
        """What the directory shows of the room has changed."""
        self._node.rooms.listed(self)
        self.door.line.opened()
        self.entry.changed()

    def take_turn(self, hook: Callable[..., Any]) -> None:
        """Run something of ours as a turn of the room."""
        self._turns.take(hook, (), self._hook_ended, (hook.__name__,))

    def update(self, request: Update) -> None:
        """The game changes its entry."""
        check_request(request)
        self.follow(self.entry.apply, request)

    def update_for(self, session: Session, request: Update, password: PasswordHash | None) -> None:
        """A member changes the entry, and will be answered."""
        self.entry.apply(request, password)

    async def saved(self) -> None:
        """Wait until what was changed will outlive a crash, if the room is one that does."""

    def once_saved(self, then: Callable[[], None]) -> None:
        """The same, for somebody who cannot wait: `then` is called, unless the room is lost before."""
        then()

    def name_host(self, player: Player[Any] | None) -> None:
        """Another player is the host."""
        self.entry.name_host(player)

    # `Host`: what the room asks for

    @property
    def limits(self) -> Limits:
        """The server's."""
        return self._node.limits

    def follow(self, hook: Callable[..., Any], *args: Any) -> None:
        """Run a hook right after the current turn."""
        self._turns.follow(hook, args, self._hook_ended, (hook.__name__,))

    def after(self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...]) -> RoomTimer:
        """Call a method of the room later."""
        return self._timers.after(seconds, method, args)

    def effect(self, name: str, payload: Any) -> None:
        """Have something done outside after the present turn."""
        outbox = self._node.outbox
        outbox.check(name, self.room.id)
        key = f"effect/{self.room.id}/{printable(self._node.random.randbytes(_EFFECT_ID_BYTES))}"
        self._turns.follow(outbox.start, (key, effect_record(name, payload, self.room.id), None))

    @property
    def timers(self) -> list[RoomTimer]:
        """The pending ones."""
        return self._timers.timers

    def spawn(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], Any] | None) -> None:
        """Run outside work beside the room."""
        self._timers.spawn(work, then)
