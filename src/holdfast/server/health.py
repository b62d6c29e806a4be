"""Health checks: every room is checked regularly, and ended if it is unhealthy.

A node is unhealthy, and takes no new rooms, while too many of its rooms failed the last check, or while it cannot save.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.limits import Limits
from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.schemas.events import Event, NodeHealth, NodeReady, RoomFailed
from holdfast.schemas.node import NodeInfo
from holdfast.server.rooms.runner import RoomRunner

# A few unhealthy rooms are a problem of those rooms; more of them in one check are a problem of the node.
_UNHEALTHY_SHARE = 0.5
_UNHEALTHY_LEAST = 3
# Rooms checked before the event loop runs other work.
_ASKED_AT_ONCE = 64


class HealthMonitor:
    """Checks the rooms on a schedule, and knows whether the node can take more."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        name: str,
        region: str,
        limits: Limits,
        rooms: Callable[[], Sequence[RoomRunner]],
        room_count: Callable[[], int],
        session_count: Callable[[], int],
        is_store_failing: Callable[[], bool],
        publish: Callable[[Event], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._loop = loop
        self._name = name
        self._region = region
        self._limits = limits
        self._rooms = rooms
        self._room_count = room_count
        self._session_count = session_count
        self._is_store_failing = is_store_failing
        self._publish = publish
        self._failed = failed
        self._rounds: asyncio.Task[None] | None = None
        self._are_rooms_unhealthy = False
        self._was_healthy = True
        self.is_ready = False
        """Whether the server accepts players: set once it has started, cleared when it drains or stops."""

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
            reasons = ["it is starting or stopping", *reasons]
        return NodeInfo(
            name=self._name,
            region=self._region,
            is_ready=self.is_ready,
            is_healthy=self.is_healthy,
            rooms=self._room_count(),
            rooms_max=self._limits.rooms_max,
            sessions=self._session_count(),
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
                self._failed("health checks", error)

    async def check(self) -> None:
        """Check every room that has a health check, all at once; end the unhealthy ones."""
        asked: dict[RoomRunner, asyncio.Task[bool]] = {}
        async with asyncio.TaskGroup() as round_:
            for runner in self._rooms():
                if self._has_health_check(runner):
                    asked[runner] = round_.create_task(self._is_room_healthy(runner))
                    if len(asked) % _ASKED_AT_ONCE == 0:
                        await asyncio.sleep(0)
        unhealthy = [runner for runner, task in asked.items() if not task.result() and not runner.context.is_closing]
        self._are_rooms_unhealthy = len(unhealthy) >= max(_UNHEALTHY_LEAST, _UNHEALTHY_SHARE * self._room_count())
        for runner in unhealthy:
            self._publish(RoomFailed(room=runner.room.id, kind=runner.room.kind, why="unhealthy"))
            runner.end("unhealthy", Reason.ROOM_FAILED)
        if self.is_healthy is not self._was_healthy:
            self._was_healthy = self.is_healthy
            self._publish(NodeHealth(node=self._name, is_healthy=self.is_healthy))

    def _has_health_check(self, runner: RoomRunner) -> bool:
        return type(runner.room).on_health_check is not Room.on_health_check and not runner.context.is_closing

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
