"""The host of a durable room: as any other, but what its turns bring about is saved before anybody hears of it."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from holdfast.core.channel import Channel
from holdfast.core.errors import Throttled
from holdfast.core.messages import PlayerData, SeatLeft
from holdfast.core.player import Outlet, Player, SeatEvent, SeatState
from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.core.session import Session
from holdfast.observability.metrics import TurnMeter
from holdfast.schemas.events import RoomReleased
from holdfast.schemas.requests import Update
from holdfast.schemas.room import PasswordHash
from holdfast.server.durability.gate import GatedOutlet
from holdfast.server.durability.room_writer import RoomWriter
from holdfast.server.rooms.effects import effect_record
from holdfast.server.rooms.outlet import ChannelOutlet, SilentOutlet
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.rooms.timers import RoomTimer
from holdfast.server.rooms.turns import Done, Turns

if TYPE_CHECKING:
    from holdfast.server.durability.committer import Committer
    from holdfast.server.node import Node


class DurableTurns(Turns):
    """Turns whose end is told to the ledger."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, meter: TurnMeter, *, turn_s: float, ended: Callable[[], None]
    ) -> None:
        super().__init__(loop, meter, turn_s=turn_s)
        self._ended = ended

    def _end(self, error: Exception | None, result: Any, done: Done | None, done_args: tuple[Any, ...]) -> None:
        self._ended()
        super()._end(error, result, done, done_args)


class DurableHost(RoomRunner):
    """One durable room, its keeper, and the gate before its seats."""

    def __init__(
        self,
        node: "Node",
        loop: asyncio.AbstractEventLoop,
        room_type: type[Room[Any]],
        room_id: str,
        dice: Random,
        committer: "Committer",
    ) -> None:
        super().__init__(node, loop, room_type, room_id, dice)
        self._committer = committer
        # Who asked to come in or to go out, and has not been answered.
        self._arriving: set[Session] = set()
        self._parting: dict[Session, Player[Any]] = {}
        # Whose change has been made, and who has not been answered.
        self._answering: set[Session] = set()
        self.writer = RoomWriter(node, self)
        committer.add(self.writer)

    def _make_turns(self, meter: TurnMeter) -> Turns:
        return DurableTurns(self._loop, meter, turn_s=self._node.limits.turn_s, ended=self._turn_ended)

    def _turn_ended(self) -> None:
        self._committer.turn_ended(self.writer)

    @property
    def is_at_rest(self) -> bool:
        """Whether the room is between two turns, and nobody has come or gone who was not answered yet."""
        if not self._turns.is_at_rest:
            return False
        if self._answering:
            return False
        has_come = any(each.player is not None and self.has_joined(each.player) for each in self._arriving)
        return not has_come and not any(player.seat is SeatState.FREED for player in self._parting.values())

    def staged(self) -> None:
        """The room said something, perhaps not in a turn."""
        self._committer.mark(self.writer)

    def freeze(self) -> None:
        """Take no further turn."""
        self._turns.freeze()

    def thaw(self) -> None:
        """Go on."""
        self._turns.thaw()

    # Life

    async def create(self, properties: dict[str, Any]) -> None:
        """Begin; whoever asked for the room hears of it when it will outlive a crash."""
        await super().create(properties)
        await self.saved()

    async def saved(self) -> None:
        """Wait until the store has what was changed."""
        try:
            async with asyncio.timeout(self._node.limits.commit_timeout_s):
                await self._committer.saved(self.writer)
        except TimeoutError:
            raise Throttled("the store does not save at the moment; try again") from None

    def once_saved(self, then: Callable[[], None]) -> None:
        """Call `then` when the store has what was changed."""
        self._committer.once_saved(self.writer, then)

    def abandon(self) -> None:
        """End the room in the middle of a turn; what the store has of it goes too."""
        super().abandon()
        self._ended()

    def _gone(self) -> None:
        super()._gone()
        self._ended()

    def _ended(self) -> None:
        self.writer.is_ended = True
        self._arriving.clear()
        self._parting.clear()
        self._answering.clear()
        self._committer.mark(self.writer)

    def reseat(self, session: Session, data: PlayerData, number: int) -> Player[Any]:
        """A seat as the store has it: held, for its player to come back to."""
        player = Player(session, data, host=self)
        player.number = number
        self.room.add_seat(player)
        player.happened(SeatEvent.TAKEN)
        player.happened(SeatEvent.DROPPED)
        self.room.seats_changed()
        self.seat_changed(player.id, player.seat)
        if session in self._committer:
            self._committer.adopt(session, self.writer)
            # Written together with the room at once: who had them before may not write either of them any more.
            self._committer.moved(session)
        self._give_seat(player, session, self._restored_outlet)
        session.expires_at = self._node.now() + session.grace_s
        self._node.graces.begin(session)
        return player

    def _restored_outlet(self, session: Session) -> Outlet:
        if session.channel is None:
            return SilentOutlet()
        return self.outlet_of(session, session.channel)

    def recovered(self) -> None:
        """Everybody is on their seat: go on."""
        self._turns.take(self.room.on_recover, (), self._hook_ended, ("on_recover",))
        self.follow(self.entry.check_host)
        self._begin()
        # The first commit takes the room over from whoever had it.
        self._committer.mark(self.writer)

    def fenced(self) -> None:
        """Another server has the room: let go of it without a word to the store."""
        self._node.counters.rooms_fenced += 1
        self._node.publish(RoomReleased(room=self.room.id, reason=Reason.MOVED))
        for player in self.room.players:
            self._node.lost_to_another(player.session)
            if not isinstance(player.outlet, ChannelOutlet):
                player.outlet.finish(SeatLeft(Reason.MOVED, "another server has this room"))
        self.let_go()

    def suspended(self) -> None:
        """The server stops, and the room waits in the store for the next one."""
        self.let_go()

    # Seats

    def wire_outlet(self, session: Session) -> ChannelOutlet:
        """The outlet of a seat whose player is far away. They hear of the seat when it is saved."""
        self._committer.adopt(session, self.writer)
        self._arriving.add(session)
        self._committer.hold(session)
        self._committer.moved(session)
        return super().wire_outlet(session)

    def outlet_of(self, session: Session, channel: Channel) -> ChannelOutlet:
        """The way out to a seat: gated, unless the room is saved now and then only."""
        if self.writer.checkpoint_s is not None:
            return super().outlet_of(session, channel)
        outlet = GatedOutlet(self._node, session, channel, self.writer.staged)
        keep = self._committer.keep_of(session)
        assert keep is not None
        keep.outlets.append(outlet)
        return outlet

    def parting(self, session: Session) -> None:
        """Who asked to leave will be answered: both are saved in one breath."""
        assert session.player is not None
        self._parting[session] = session.player

    def settled(self, session: Session) -> None:
        """Who asked to come or to go has been answered."""
        self._arriving.discard(session)
        self._parting.pop(session, None)
        self._answering.discard(session)
        # It may have been saved at the door, for another reason: now it has its seat, and both say so.
        self._committer.moved(session)
        self._committer.mark(self.writer)

    def update_for(self, session: Session, request: Update, password: PasswordHash | None) -> None:
        """A member changes the entry, and will be answered: both are saved in one breath."""
        super().update_for(session, request, password)
        self._answering.add(session)

    def owes_state_to(self, player: Player[Any]) -> bool:
        """Whether a player was told that their stream begins anew, and was not sent the state yet."""
        return self._resyncs.get(player, 0) > 0

    def _take_seat_away(self, session: Session) -> None:
        super()._take_seat_away(session)
        self._arriving.discard(session)
        # A client that was told so would never look at the seat again: not before it is so.
        self._committer.hold(session)
        self._committer.moved(session)

    # `Host`: what the room asks for

    def after(self, seconds: float, method: Callable[..., Any], args: tuple[Any, ...]) -> RoomTimer:
        """Call a method of the room later, also if the server is another one by then."""
        arguments = [_saved(argument, method.__name__) for argument in args]
        timer = super().after(seconds, method, args)
        timer.arguments = arguments
        return timer

    def effect(self, name: str, payload: Any) -> None:
        """Have something done outside once the present turn is saved."""
        self._node.outbox.check(name, self.room.id, self.writer.effects_wanted)
        self.writer.wants(effect_record(name, payload, self.room.id))
        self._turn_ended()


def _saved(argument: Any, method: str) -> tuple[str, Any]:
    """An argument of a timer as it is saved: a player by id, anything else by value."""
    if isinstance(argument, Player):
        return "player", argument.id
    try:
        return "value", Raw(msgspec.msgpack.encode(argument))
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"after(…, {method}): timers of a durable room are saved, and {type(argument).__name__} cannot be: {error}"
        ) from None
