"""Whether a node takes players and rooms: health checks of its rooms, and the drain before it stops.

A node is unhealthy, and takes no new rooms, while too many of its rooms failed the last check, or while it cannot save.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast.core.reasons import Reason
from holdfast.core.registry import SessionRegistry
from holdfast.core.room import Room, context_of
from holdfast.observability.bus import EventBus
from holdfast.schemas.events import (
    Event,
    NodeDraining,
    NodeHealth,
    NodeReady,
    RoomEnded,
    RoomFailed,
    SeatExpired,
    SeatFreed,
)
from holdfast.schemas.node import NodeInfo
from holdfast.server.context import Context
from holdfast.server.directory.directory import Directory
from holdfast.server.rooms.runner import RoomRunner
from holdfast.server.sessions import Notices

# A few unhealthy rooms are a problem of those rooms; more of them in one check are a problem of the node.
_UNHEALTHY_SHARE = 0.5
_UNHEALTHY_LEAST = 3
# Rooms checked before the event loop runs other work.
_ASKED_AT_ONCE = 64


class HealthMonitor:
    """Checks the rooms on a schedule, and knows whether the node can take more."""

    def __init__(
        self,
        context: Context,
        name: str,
        region: str,
        *,
        rooms: Directory,
        sessions: SessionRegistry,
        is_store_failing: Callable[[], bool],
    ) -> None:
        self._loop = context.clock.loop
        self._limits = context.limits
        self._publish = context.publish
        self._faults = context.faults
        self._name = name
        self._region = region
        self._rooms = rooms
        self._sessions = sessions
        self._is_store_failing = is_store_failing
        self._rounds: asyncio.Task[None] | None = None
        self._are_rooms_unhealthy = False
        self._was_healthy = True
        self.is_ready = False
        """Whether the server accepts players: set once it has started, cleared when it drains or stops."""
        self.is_leaving = False
        """Whether it accepts nobody because it hands over what it has."""

    @property
    def reasons(self) -> list[str]:
        """What is wrong with the node; empty when it is healthy."""
        reasons: list[str] = []
        if self._are_rooms_unhealthy:
            reasons.append("most of its rooms failed the last health check")
        if self._is_store_failing():
            reasons.append("its store cannot save at the moment")
        return reasons

    @property
    def is_healthy(self) -> bool:
        return not self.reasons

    def info(self) -> NodeInfo:
        """The node as placements see it."""
        reasons = self.reasons
        if not self.is_ready:
            reasons = ["it is draining" if self.is_leaving else "it is starting or stopping", *reasons]
        return NodeInfo(
            name=self._name,
            region=self._region,
            is_ready=self.is_ready,
            is_healthy=self.is_healthy,
            rooms=len(self._rooms),
            rooms_max=self._limits.rooms_max,
            sessions=len(self._sessions),
            reasons=reasons,
        )

    def start(self) -> None:
        """Accept rooms from now on, and begin the checks."""
        self.is_ready = True
        self._publish(NodeReady(node=self._name))
        self._rounds = self._loop.create_task(self._check_regularly())

    def stop(self) -> None:
        """Accept nothing new."""
        self.is_ready = False
        if self._rounds is not None:
            self._rounds.cancel()

    async def _check_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._limits.health_s)
            try:
                await self.check()
            except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained
                self._faults.report("health checks", error)

    async def check(self) -> None:
        """Check every room that has a health check, all at once; end the unhealthy ones."""
        asked: dict[RoomRunner, asyncio.Task[bool]] = {}
        async with asyncio.TaskGroup() as round_:
            for runner in self._rooms.runners():
                if type(runner.room).on_health_check is not Room.on_health_check and not runner.context.is_closing:
                    asked[runner] = round_.create_task(self._is_room_healthy(runner))
                    if len(asked) % _ASKED_AT_ONCE == 0:
                        await asyncio.sleep(0)
        unhealthy = [runner for runner, task in asked.items() if not task.result() and not runner.context.is_closing]
        self._are_rooms_unhealthy = len(unhealthy) >= max(_UNHEALTHY_LEAST, _UNHEALTHY_SHARE * len(self._rooms))
        for runner in unhealthy:
            room, info = runner.room, runner.entry.public_info()
            self._publish(RoomFailed(room=room.id, kind=room.kind, why="unhealthy", info=info))
            runner.end("unhealthy", Reason.ROOM_FAILED)
        if self.is_healthy is not self._was_healthy:
            self._was_healthy = self.is_healthy
            self._publish(NodeHealth(node=self._name, is_healthy=self.is_healthy))

    async def _is_room_healthy(self, runner: RoomRunner) -> bool:
        if runner.persistence.is_stalled:
            return True

        def on_health_check() -> Any:
            if not deadline.expired():
                deadline.reschedule(self._loop.time() + self._limits.health_timeout_s)
            return runner.room.on_health_check()

        try:
            # It may be in the middle of a turn, and has as long as any turn.
            async with asyncio.timeout(self._limits.turn_s) as deadline:
                answer = await runner.call(on_health_check)
            # A hook that only raises on problems returns None when all is well.
            return answer is None or bool(answer)
        except Exception:  # noqa: BLE001 - it raised, which was logged, or timed out
            # A room that waits for the store answers when it continues.
            return runner.persistence.is_stalled


class Drain:
    """The time between SIGTERM and the stop: the node accepts nothing new, and rooms that would not survive have some
    time to finish. Durable rooms need none: they are saved, and continue elsewhere or after the restart."""

    def __init__(
        self,
        name: str,
        bus: EventBus,
        *,
        health: HealthMonitor,
        sessions: SessionRegistry,
        notices: Notices,
        rooms: Directory,
    ) -> None:
        self._name = name
        self._bus = bus
        self._health = health
        self._sessions = sessions
        self._notices = notices
        self._rooms = rooms
        # The rooms that were being waited for at the last full check.
        self._waiting: set[str] = set()
        self._emptied = asyncio.Event()
        self.is_on = False

    @property
    def is_leaving(self) -> bool:
        """Whether this node of a cluster accepts nobody new, and hands over what can go on elsewhere."""
        return self._health.is_leaving

    @property
    def waits_for(self) -> list[RoomRunner]:
        """The occupied rooms that end with this node."""
        return [each for each in self._rooms.runners() if not each.persistence.survives_stop and each.seats.keeping > 0]

    async def run(self, within_s: float) -> None:
        """Announce the stop, and wait until no room needs more time, or `within_s` has passed."""
        self.begin(within_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._emptied.wait()

    def leave(self) -> None:
        """Accept nobody new: this node of a cluster is about to go."""
        self._health.is_leaving = True
        self._health.is_ready = False
        self._rooms.is_stopping = True

    def stay(self) -> None:
        """Accept them again: this node stays."""
        self._health.is_leaving = self._rooms.is_stopping = False
        self._health.is_ready = True

    def begin(self, within_s: float) -> None:
        """Accept nobody new, and notify connected players and rooms."""
        if self.is_on:
            return
        self.leave()
        self.is_on = True
        self._bus.observe(self._happened)
        self._bus.publish(NodeDraining(node=self._name, deadline_s=within_s))
        for session in self._sessions:
            self._notices.stopping(session, within_s)
        for runner in self._rooms.runners():
            if type(runner.room).on_stopping is not Room.on_stopping and not runner.context.is_closing:
                runner.follow(runner.room.on_stopping, within_s)
        self._look()

    def _happened(self, event: Event) -> None:
        if isinstance(event, RoomEnded | SeatFreed | SeatExpired):
            self.look_at(event.room)

    def look_at(self, room_id: str) -> None:
        """The last player may have left this room, or a reservation may have expired."""
        room = self._rooms.get(room_id)
        if self.is_on and (room is None or context_of(room).seats.keeping == 0):
            self._waiting.discard(room_id)
            if not self._waiting:
                self._look()

    def _look(self) -> None:
        # Check all of them: a player may have moved to a room that was empty before.
        self._waiting = {runner.room.id for runner in self.waits_for}
        if not self._waiting:
            self._emptied.set()
