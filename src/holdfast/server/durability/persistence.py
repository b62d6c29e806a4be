"""How a durable room is kept: the effects of a turn are saved before anybody hears of them."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec
from msgspec import Raw

from holdfast.core.channel import Channel
from holdfast.core.errors import Throttled
from holdfast.core.messages import SeatLeft
from holdfast.core.reasons import Reason
from holdfast.core.room import Room, context_of
from holdfast.core.session import Player, Seat, Session
from holdfast.schemas.events import RoomReleased
from holdfast.schemas.frames import FRAME_HEAD_BYTES
from holdfast.schemas.room import EffectRecord
from holdfast.server.context import Context
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.gate import GatedOutlet
from holdfast.server.durability.room_writer import RoomWriter
from holdfast.server.rooms.outlet import ChannelOutlet
from holdfast.server.rooms.persistence import Follow
from holdfast.server.rooms.runner import RoomRunner


class StorePersistence:
    """Keeps one room in the store; see `holdfast.server.rooms.persistence.Persistence`."""

    survives_stop = True

    runner: RoomRunner
    writer: RoomWriter
    """Both are set by `attach`, before the room takes its first turn."""

    def __init__(self, committer: Committer, context: Context, *, overflowed: Callable[[Session], None]) -> None:
        """`overflowed` is called when more piles up for a client than may be kept."""
        self._committer = committer
        self._commit_timeout_s = context.limits.commit_timeout_s
        self._body_bytes_max = context.limits.payload_bytes_max - FRAME_HEAD_BYTES
        self._publish = context.publish
        self._counters = context.counters
        self._overflowed = overflowed
        # Clients that asked for a seat, or to give it back, and were not answered yet.
        self._arriving: set[Session] = set()
        self._leaving: dict[Session, Seat] = {}
        # Clients that have changed the room's entry, and were not answered yet.
        self._changing: set[Session] = set()

    def attach(self, runner: RoomRunner, writer: RoomWriter) -> None:
        """The room that is kept, and how it is written."""
        self.runner = runner
        self.writer = writer
        # One bound method for all outlets.
        self._staged = writer.staged
        self._committer.add(writer)

    @property
    def is_stalled(self) -> bool:
        return self._committer.is_failing

    @property
    def effects_waiting(self) -> int:
        return self.writer.effects_wanted

    def turn_ended(self) -> None:
        self._committer.turn_ended(self.writer)

    def changed(self) -> None:
        """Save the room with the next commit."""
        self._committer.mark(self.writer)

    async def saved(self) -> None:
        try:
            async with asyncio.timeout(self._commit_timeout_s):
                await self._committer.saved(self.writer)
        except TimeoutError:
            raise Throttled("the store does not save at the moment; try again") from None

    def once_saved(self, then: Callable[[], None]) -> None:
        self._committer.once_saved(self.writer, then)

    @property
    def is_at_rest(self) -> bool:
        """Whether the room is between two turns, and nobody has come or gone who was not answered yet."""
        if not self.runner.turns.is_at_rest or self._changing:
            return False
        has_come = any(each.seat is not None and not each.seat.is_joining for each in self._arriving)
        return not has_come and all(seat in self.runner.seats for seat in self._leaving.values())

    # The end

    def ended(self) -> None:
        self.writer.is_ended = True
        self._arriving.clear()
        self._leaving.clear()
        self._changing.clear()
        self.changed()

    async def forgotten(self) -> None:
        await self.writer.ended()

    def fenced(self) -> None:
        """Another server has the room: let go of it without a word to the store."""
        runner = self.runner
        self._counters.rooms_fenced += 1
        self._publish(RoomReleased(room=runner.room.id, reason=Reason.MOVED))
        for seat in runner.seats.occupied:
            self._committer.on_session_lost(seat.session)
            if not isinstance(seat.outlet, ChannelOutlet):
                seat.outlet.finish(SeatLeft(Reason.MOVED, "another server has this room"))
        runner.let_go()

    # Seats

    def arriving(self, session: Session) -> None:
        # The client hears of the seat when it is saved.
        self._committer.sessions.adopt(session, self.writer)
        self._arriving.add(session)
        self._committer.sessions.hold(session)
        self._committer.sessions.moved(session)

    def leaving(self, session: Session) -> None:
        # The answer is saved together with the seat.
        assert session.seat is not None
        self._leaving[session] = session.seat

    def changing(self, session: Session) -> None:
        # The answer is saved together with the change.
        self._changing.add(session)

    def answered(self, session: Session) -> None:
        self._arriving.discard(session)
        self._leaving.pop(session, None)
        self._changing.discard(session)
        # It may have been saved without its seat, for another reason: now it has its seat, and both say so.
        self._committer.sessions.moved(session)
        self.changed()

    def unseated(self, session: Session) -> None:
        self._arriving.discard(session)
        # A client that was told so would never look at the seat again: not before it is so.
        self._committer.sessions.hold(session)
        self._committer.sessions.moved(session)

    def restoring(self, session: Session) -> None:
        """A session is about to have its seat back from the store."""
        if session in self._committer.sessions:
            self._committer.sessions.adopt(session, self.writer)
            # Written together with the room at once: the former server may not write either of them any more.
            self._committer.sessions.moved(session)

    def outlet_of(self, session: Session, channel: Channel) -> ChannelOutlet:
        """Gated, unless the room is saved from time to time only."""
        if self.writer.checkpoint_s is not None:
            return ChannelOutlet(session, channel, body_bytes_max=self._body_bytes_max, overflowed=self._overflowed)
        outlet = GatedOutlet(
            session,
            channel,
            body_bytes_max=self._body_bytes_max,
            overflowed=self._overflowed,
            staged=self._staged,
        )
        session_writer = self._committer.sessions.of(session)
        assert session_writer is not None
        session_writer.outlets.append(outlet)
        return outlet

    # What the game asks for

    def timer_arguments(self, method: str, args: tuple[Any, ...]) -> list[tuple[str, Any]]:
        return [_saved_argument(argument, method) for argument in args]

    def effect(self, record: EffectRecord, _follow: Follow) -> None:
        self.writer.wants(record)
        self.turn_ended()


def _saved_argument(argument: Any, method: str) -> tuple[str, Any]:
    """An argument of a timer as it is saved: a player by id, anything else by value."""
    if isinstance(argument, Player):
        return "player", argument.id
    try:
        return "value", Raw(msgspec.msgpack.encode(argument))
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"after(…, {method}): timers of a durable room are saved, and {type(argument).__name__} cannot be: {error}"
        ) from None


def restored_arguments(room: Room[Any], method: Callable[..., Any], saved: list[tuple[str, Any]]) -> tuple[Any, ...]:
    """The arguments to call a timer's method with: values of the annotated types, and players by id."""
    hints = get_type_hints(method)
    kinds = [hints.get(name, Any) for name in inspect.signature(method).parameters]
    arguments: list[Any] = []
    for number, (tag, value) in enumerate(saved):
        if tag == "player":
            seat = context_of(room).seats.occupied_by(value)
            if seat is None:
                raise LookupError(f"player {value} has left the room")
            arguments.append(seat.player)
        else:
            # More arguments than parameters: the last one takes them all (`*args`).
            arguments.append(msgspec.convert(value, kinds[min(number, len(kinds) - 1)] if kinds else Any))
    return tuple(arguments)
