"""The host of one room: gives it turns, seats its players, and carries out what it asks for.

A seat is freed at once; the hooks that follow from it take their turn. Whatever a game's code raises is logged with
ids, counted, and harms nothing but the turn it was raised in.
"""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any

from holdfast.core.channel import Channel
from holdfast.core.errors import Failed, NotFound, Refused
from holdfast.core.events import RoomStarted
from holdfast.core.frames import Seat, sentence
from holdfast.core.listing import RoomEvent, RoomStatus, check_wish
from holdfast.core.messages import SeatLeft
from holdfast.core.player import Outlet, Player, SeatEvent, SeatState
from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.core.session import Session
from holdfast.core.tokens import printable
from holdfast.core.wishes import Update
from holdfast.logs import get_logger
from holdfast.server.directory.entry import Entry
from holdfast.server.rooms.clockwork import Clockwork, RoomTimer
from holdfast.server.rooms.delivery import Delivery
from holdfast.server.rooms.door import Door
from holdfast.server.rooms.effects import effect_record
from holdfast.server.rooms.emptiness import Emptiness
from holdfast.server.rooms.outlet import ChannelOutlet
from holdfast.server.rooms.saves import Saves
from holdfast.server.rooms.turns import RoomEnded, Turns
from holdfast.server.seeing import happenings
from holdfast.server.seeing.meters import TurnMeter

if TYPE_CHECKING:
    from holdfast.server.node import Node

log = get_logger("holdfast.server")

_EFFECT_ID_BYTES = 9

OutletOf = Callable[[Session], Outlet]


class RoomHost:
    """One room and everything around it."""

    def __init__(
        self, node: "Node", loop: asyncio.AbstractEventLoop, room_type: type[Room[Any]], room_id: str, dice: Random
    ) -> None:
        self._node = node
        self._loop = loop
        self._turns = self._make_turns(node.meters.turns_of(room_type.kind))
        self.room: Room[Any] = room_type(room_id, self, dice)
        delivery = Delivery(self.room, node, self._turns, self.failed)
        self.deliver = delivery.deliver
        self.refuse = delivery.refuse
        self.deliver_latest = delivery.deliver_latest
        self.deliver_native = delivery.deliver_native
        self._clockwork = Clockwork(self.room, loop, node, self._turns, self.failed)
        self._saves = Saves(self.room, node, loop, self.failed)
        self._emptiness = Emptiness(self, node, loop)
        self.check_empty = self._emptiness.check
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
        self._clockwork.start_ticking()
        self._saves.start()
        self.check_empty()

    async def call(self, hook: Callable[..., Any], *args: Any) -> Any:
        """Run a hook as a turn and wait for its end; what it raises becomes a refusal."""
        ended: asyncio.Future[Any] = self._loop.create_future()

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
                self.failed(error, hook.__name__)
                ended.set_exception(Failed(f"{hook.__name__} failed"))

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
        self._clockwork.stop()
        self._emptiness.stop()
        self._turns.stop()
        self._node.rooms.forget(self)
        self.door.stop()
        self.entry.stop()

    def _destroyed(self) -> Any:
        self._saves.stop()
        self._clockwork.stop()
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

    def has_joined(self, player: Player[Any]) -> bool:
        """Whether the room has heard of a player on one of its seats."""
        return self.door.has_joined(player)

    def reserve_seat(self, player: Player[Any]) -> None:
        """Keep a seat while it is decided whether the player may have it."""
        self.room.add_seat(player)
        self.check_empty()

    def seat(self, player: Player[Any], session: Session, outlet_of: OutletOf) -> None:
        """The player may have it."""
        player.happened(SeatEvent.TAKEN)
        self.room.seats_changed()
        self.was_joined = True
        self._give_seat(player, session, outlet_of)
        self.seat_changed(player.id, player.seat)
        self._node.publish(happenings.joined(session, self.room))

    def seat_changed(self, player_id: str, state: SeatState) -> None:
        """A seat is in another state: whoever watches the node hears of it."""
        self._node.rooms.seat_changed(self, player_id, state)

    def _give_seat(self, player: Player[Any], session: Session, outlet_of: OutletOf) -> None:
        player.session = session
        player.outlet = outlet_of(session)
        session.player = player
        session.room = self.room
        session.grace_s = self.room.grace_s

    def may_take_over(self, existing: Player[Any]) -> bool:
        """Whether the player may have their seat from another session of theirs."""
        # A held seat is its player's in any case: who lost the session, in a crash, signs in again and is back.
        policy = self.room.duplicate
        if policy == "takeover":
            return existing.seat is not SeatState.RESERVED
        return policy == "reject" and existing.seat is SeatState.HELD

    def take_over(self, player: Player[Any], session: Session, outlet_of: OutletOf) -> Player[Any]:
        """The same player, by another session: the seat goes on there."""
        former = player.session
        message = "this player joined again from elsewhere"
        self._take_seat_away(former)
        player.outlet.finish(SeatLeft(Reason.SUPERSEDED, message))
        self._node.publish(happenings.left(former, self.room, Reason.SUPERSEDED, message))
        self._node.end_session(former, Reason.SUPERSEDED, message)
        self._give_seat(player, session, outlet_of)
        self._node.publish(happenings.joined(session, self.room))
        if player.seat is SeatState.TAKEN:
            self._hold(player)
        self.returned(player, is_resynced=True)
        return player

    def release(self, player: Player[Any]) -> None:
        """The player may not have the seat after all."""
        if player.seat is SeatState.RESERVED:
            player.happened(SeatEvent.FREED)
            self.room.remove_seat(player)
            self.check_empty()

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
        self._turns.take(self.room.on_drop, (player,), self._dropped, (player,))

    def _dropped(self, error: Exception | None, _: Any, player: Player[Any]) -> None:
        self._seat_hook_ended(error, None, player, "on_drop")
        self._saves.save(player)

    def returned(self, player: Player[Any], *, is_resynced: bool) -> None:
        """The player is back on their seat."""
        player.happened(SeatEvent.RETURNED)
        self.seat_changed(player.id, player.seat)
        self._turns.take(self.room.on_rejoin, (player,), self._seat_hook_ended, (player, "on_rejoin"))
        if is_resynced:
            self._turns.take(self.room.on_resync, (player,), self._seat_hook_ended, (player, "on_resync"))

    def free(self, player: Player[Any], reason: Reason, message: str = "") -> None:
        """The player is out, now; `on_leave` follows as a turn, and the stream's last message after it."""
        if player.seat is SeatState.RESERVED:
            self.release(player)
        if player.seat is SeatState.FREED:
            return
        player.happened(SeatEvent.FREED)
        self.room.remove_seat(player)
        self._turns.forget(player)
        self._take_seat_away(player.session)
        self.seat_changed(player.id, player.seat)
        self._node.publish(happenings.left(player.session, self.room, reason, message))
        if self.door.forget(player):
            self._left(None, None, player, reason, message)
        else:
            self._turns.follow(self.room.on_leave, (player, reason), self._left, (player, reason, message))

    def leave(self, player: Player[Any]) -> None:
        """The player leaves on purpose: what they said before is applied before."""
        self._turns.take(self.free, (player, Reason.LEFT))

    def _take_seat_away(self, session: Session) -> None:
        session.room = None
        session.player = None
        session.grace_s = self._node.grace_s
        session.close_channel()
        connection = self._node.connection_of(session)
        if connection is not None:
            connection.unseated()

    def _left(self, error: Exception | None, _: Any, player: Player[Any], reason: Reason, message: str) -> None:
        self._hook_ended(error, None, "on_leave")
        self._saves.save(player)
        try:
            self.room.objects.orphan(player, self.room.orphans, self.room.heir)
        except Exception as raised:  # noqa: BLE001 - `heir` is the game's code
            self.failed(raised, "heir")
        player.outlet.finish(SeatLeft(reason, sentence(message)))
        self.entry.check_host()
        self.check_empty()

    def kick(self, player: Player[Any], message: str) -> None:
        """Remove a player; they are told why."""
        self.free(player, Reason.KICKED, message)

    def wire_outlet(self, session: Session) -> ChannelOutlet:
        """The outlet of a seat whose player is far away; opening it announces the seat to the client."""
        if self._node.ledger is not None and self.room.durability == "memory":
            # Heard of when the store has forgotten the session: it must not come back without this seat.
            self._node.ledger.ended(session)
            self._node.ledger.hold(session)
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

    def update(self, wish: Update) -> None:
        """The game changes its entry."""
        check_wish(wish)
        self.follow(self.entry.apply, wish)

    def update_for(self, session: Session, wish: Update) -> None:
        """A member changes the entry, and will be answered."""
        self.entry.apply(wish)

    async def saved(self) -> None:
        """Wait until what was changed will outlive a crash, if the room is one that does."""

    def once_saved(self, then: Callable[[], None]) -> None:
        """The same, for somebody who cannot wait: `then` is called, unless the room is lost before."""
        then()

    def name_host(self, player: Player[Any] | None) -> None:
        """Another player is the host."""
        self.entry.name_host(player)

    # `Host`: what the room asks for

    def follow(self, hook: Callable[..., Any], *args: Any) -> None:
        """Run a hook right after the current turn."""
        self._turns.follow(hook, args, self._hook_ended, (hook.__name__,))

    def after(self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...]) -> RoomTimer:
        """Call a method of the room later."""
        return self._clockwork.after(seconds, method, args)

    def effect(self, name: str, payload: Any) -> None:
        """Have something done outside after the present turn."""
        outbox = self._node.outbox
        outbox.check(name, self.room.id)
        key = f"effect/{self.room.id}/{printable(self._node.random.randbytes(_EFFECT_ID_BYTES))}"
        self._turns.follow(outbox.start, (key, effect_record(name, payload, self.room.id), None))

    @property
    def timers(self) -> list[RoomTimer]:
        """The pending ones."""
        return self._clockwork.timers

    def spawn(self, work: Coroutine[Any, Any, Any], then: Callable[[Any], Any] | None) -> None:
        """Run outside work beside the room."""
        self._clockwork.spawn(work, then)

    # Failures

    def _hook_ended(self, error: Exception | None, _: Any, name: str) -> None:
        if error is not None:
            self.failed(error, name)

    def _seat_hook_ended(self, error: Exception | None, _: Any, player: Player[Any], name: str) -> None:
        # The player is here for `Turns.forget`: of a seat that is freed, nothing more is told than `on_leave`.
        self._hook_ended(error, None, name)

    def failed(self, error: Exception, where: str, player_id: str = "") -> None:
        """The game's code raised: it harms nothing but its turn."""
        if isinstance(error, RoomEnded):
            return
        self._node.counters.turns_failed += 1
        kind = self.room.kind
        if self._node.lines.allow(f"{where} of {kind}"):
            ids = {"player": player_id} if player_id else {}
            log.error("the game's code failed", where=where, room=self.room.id, kind=kind, **ids, exc_info=error)
