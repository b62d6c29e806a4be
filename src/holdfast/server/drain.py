"""Draining: the node accepts nothing new and says so; rooms that would not survive it have some time to finish.

Durable rooms need no time: they are saved, and continue elsewhere or after the restart.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from holdfast.core.registry import SessionRegistry
from holdfast.core.room import Room, context_of
from holdfast.schemas.events import Event, NodeDraining, RoomEnded, SeatExpired, SeatFreed
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.sessions import Notices


class Drain:
    """The time between SIGTERM and the stop."""

    def __init__(
        self,
        name: str,
        *,
        publish: Callable[[Event], None],
        registry: SessionRegistry,
        notices: Notices,
        runners: Callable[[], Iterable[RoomRunner]],
        room: Callable[[str], Room[Any] | None],
        begun: Callable[[Callable[[Event], None]], None],
    ) -> None:
        """`begun` is called when draining begins, with the function that observes all events from then on."""
        self._name = name
        self._publish = publish
        self._registry = registry
        self._notices = notices
        self._runners = runners
        self._room = room
        self._begun = begun
        # The rooms that were being waited for at the last full check.
        self._waiting: set[str] = set()
        self._emptied = asyncio.Event()
        self.is_on = False

    @property
    def waits_for(self) -> list[RoomRunner]:
        """The occupied rooms that end with this node."""
        return [each for each in self._runners() if not each.persistence.survives_stop and each.seats.used > 0]

    async def run(self, within_s: float) -> None:
        """Announce the stop, and wait until no room needs more time, or `within_s` has passed."""
        self.begin(within_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._emptied.wait()

    def begin(self, within_s: float) -> None:
        """Accept nobody new, and notify connected players and rooms."""
        if self.is_on:
            return
        self.is_on = True
        self._begun(self._happened)
        self._publish(NodeDraining(node=self._name, deadline_s=within_s))
        for session in self._registry:
            self._notices.stopping(session, within_s)
        for runner in self._runners():
            if type(runner.room).on_stopping is not Room.on_stopping and not runner.context.is_closing:
                runner.follow(runner.room.on_stopping, within_s)
        self._look()

    def _happened(self, event: Event) -> None:
        if isinstance(event, RoomEnded | SeatFreed | SeatExpired):
            self.look_at(event.room)

    def look_at(self, room_id: str) -> None:
        """The last player may have left this room, or a reservation may have expired."""
        room = self._room(room_id)
        if self.is_on and (room is None or context_of(room).seats.used == 0):
            self._waiting.discard(room_id)
            if not self._waiting:
                self._look()

    def _look(self) -> None:
        # Check all of them: a player may have moved to a room that was empty before.
        self._waiting = {runner.room.id for runner in self.waits_for}
        if not self._waiting:
            self._emptied.set()
