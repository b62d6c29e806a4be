"""How a durable room is kept: what a turn has changed is saved before anybody hears of it."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from holdfast.core.channel import Channel
from holdfast.core.errors import Throttled
from holdfast.core.session import Seat, Session
from holdfast.observability.metrics import TurnMeter
from holdfast.schemas.frames import Purpose
from holdfast.schemas.room import EffectRecord
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.gate import GatedOutlet
from holdfast.server.durability.gated_turns import GatedTurns
from holdfast.server.durability.room_writer import RoomWriter, WriterContext
from holdfast.server.rooms.outlet import ChannelOutlet
from holdfast.server.rooms.persistence import Follow, Persistence
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.rooms.services import RoomServices
from holdfast.server.rooms.timer_arguments import saved_argument
from holdfast.server.rooms.turns import Turns
from holdfast.stores.port import Write


class StorePersistence(Persistence):
    """Keeps one room in the store."""

    survives_stop = True

    runner: RoomRunner
    writer: RoomWriter
    """Both are set by `attach`, before the room takes its first turn."""

    def __init__(self, services: RoomServices, committer: Committer) -> None:
        super().__init__(services)
        self._committer = committer
        self._sessions = committer.sessions
        # One bound method for all outlets.
        self._when_staged = self._staged

    def make_turns(self, meter: TurnMeter) -> Turns:
        context = self._services.context
        turns = GatedTurns(context.clock.loop, meter, turn_s=context.limits.turn_s)
        turns.current = self._committer.current_turn
        return turns

    def attach(self, runner: RoomRunner, context: WriterContext) -> None:
        self.runner = runner
        self.writer = RoomWriter(context, runner)
        if isinstance(runner.turns, GatedTurns) and self.writer.checkpoint_s is None:
            runner.turns.writer = self.writer
        runner.turns.turn_ended = partial(self._committer.turn_ended, self.writer)
        self._committer.add(self.writer)

    def claim(self, writes: Sequence[Write]) -> None:
        self.writer.claims += writes

    def changed(self) -> None:
        """Save the room with the next commit."""
        self._committer.mark(self.writer)

    @property
    def is_stalled(self) -> bool:
        return self._committer.is_failing

    async def saved(self) -> None:
        try:
            async with asyncio.timeout(self._services.context.limits.commit_timeout_s):
                await self._committer.saved(self.writer)
        except TimeoutError:
            raise Throttled("the store does not save at the moment; try again") from None

    def once_saved(self, then: Callable[[], None]) -> None:
        saved = self._committer.saved(self.writer)
        saved.add_done_callback(lambda done: then() if done.exception() is None else None)

    def ended(self) -> None:
        self.writer.end()
        self.changed()

    async def forgotten(self) -> None:
        await self.writer.ended()

    # Seats

    def arriving(self, session: Session) -> None:
        self.promoted(session)
        self.writer.arriving[session] = "seat"

    def promoted(self, session: Session) -> None:
        self.keep_seated(session)
        # The client hears of the seat when it is saved.
        self._sessions.hold(session)

    def keep_seated(self, session: Session) -> None:
        self._sessions.adopt(session, self.writer)
        self._sessions.moved(session, "seat")

    def spectating(self, session: Session) -> None:
        self.keep_spectator(session)
        self.writer.arriving[session] = "spectator"

    def keep_spectator(self, session: Session) -> None:
        # With a seat that ends with this process, the session does not outlive it either.
        if session.seat is None or session.seat.room.is_saved:
            self._sessions.adopt(session, self.writer, purpose="spectator")
            self._sessions.moved(session, "spectator")
            # The client hears of the place when it is saved.
            self._sessions.hold(session)

    def heard_of(self, session: Session) -> None:
        if session not in self.writer.arriving:
            # Its request was abandoned, and will not be answered: it may have been saved without its seat since.
            self._sessions.moved_at(session, self.writer)

    def leaving(self, session: Session, seat: Seat) -> None:
        # The answer is saved together with the seat.
        self.writer.leaving[session] = seat

    def changing(self, session: Session) -> None:
        # The answer is saved together with the change.
        self.writer.changing.add(session)

    def answered(self, session: Session) -> None:
        self.writer.answered(session)
        # It may have been saved without its seat, for another reason: now it has its seat, and both say so.
        self._sessions.moved_at(session, self.writer)
        self.changed()

    def unseated(self, seat: Seat) -> None:
        session = seat.session
        if self.writer.arriving.get(session) == seat.purpose:
            del self.writer.arriving[session]
        self._sessions.unseated(session, seat.outlet)
        # A client that was told so would never look at the seat again: not before it is so.
        self._sessions.hold(session)
        self._sessions.moved(session, seat.purpose)

    def unspectated(self, place: Seat) -> None:
        self.unseated(place)

    def restoring(self, session: Session, purpose: Purpose) -> None:
        """A session is about to have its seat, or its place as a spectator, back from the store."""
        if session in self._sessions:
            self._sessions.adopt(session, self.writer, purpose=purpose)
            # Written together with the room at once: the former server may not write either of them any more.
            self._sessions.moved(session, purpose)

    def outlet_of(self, session: Session, channel: Channel) -> ChannelOutlet:
        """Gated, unless the room is saved only from time to time."""
        if self.writer.checkpoint_s is not None:
            return super().outlet_of(session, channel)
        return GatedOutlet(session, channel, self._options, self._when_staged)

    def _staged(self, outlet: GatedOutlet) -> None:
        self.writer.staged(outlet)
        self._committer.mark(self.writer)

    # What the game asks for

    def timer_arguments(self, method: str, args: tuple[Any, ...]) -> list[tuple[str, Any]]:
        return [saved_argument(argument, method) for argument in args]

    @property
    def effects_waiting(self) -> int:
        return len(self.writer.effects)

    def effect(self, record: EffectRecord, follow: Follow) -> None:
        self.writer.effects.append(record)
        self._committer.turn_ended(self.writer)
