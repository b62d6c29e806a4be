"""Is this node well? Every room is asked now and then; one that is not well is ended, and its node takes no new ones.

A node counts as unwell while many of its rooms were found so at the last round, or while it cannot save.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.schemas.events import NodeHealth, NodeReady, RoomFailed
from holdfast.schemas.node import NodeInfo

if TYPE_CHECKING:
    from holdfast.server.node import Node
    from holdfast.server.rooms.runner import RoomRunner

# A few sick rooms are those rooms' own trouble; more of them in one round are the node's.
_SICK_SHARE = 0.5
_SICK_LEAST = 3
# So many are asked before the games have their turn.
_ASKED_AT_ONCE = 64


class Health:
    """Asks the rooms on a schedule, and knows whether the node may be given more."""

    def __init__(self, node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._rounds: asyncio.Task[None] | None = None
        self._are_rooms_sick = False
        self._was_healthy = True
        self.is_ready = False
        """Whether the doors are open: set when the server has started, and taken back when it stops."""

    @property
    def reasons(self) -> list[str]:
        """What is wrong with the node; nothing when it is well."""
        reasons: list[str] = []
        if self._are_rooms_sick:
            reasons.append("most of its rooms were not well when they were asked last")
        if self._node.committer is not None and self._node.committer.is_failing:
            reasons.append("its store does not save at the moment")
        return reasons

    @property
    def is_healthy(self) -> bool:
        """Whether new rooms are welcome."""
        return not self.reasons

    def info(self) -> NodeInfo:
        """The node as the fleet sees it."""
        node = self._node
        reasons = self.reasons
        if not self.is_ready:
            reasons = ["it is starting or stopping", *reasons]
        return NodeInfo(
            name=node.name,
            region=node.region,
            is_ready=self.is_ready,
            is_healthy=self.is_healthy,
            rooms=len(node.rooms),
            rooms_max=node.limits.rooms_max,
            sessions=len(node.sessions),
            reasons=reasons,
        )

    def start(self) -> None:
        """Announce the node: it takes rooms from now on, and is asked how it is."""
        self.is_ready = True
        self._node.publish(NodeReady(node=self._node.name))
        self._rounds = self._loop.create_task(self._go_round())

    def stop(self) -> None:
        """The node takes nothing new."""
        self.is_ready = False
        if self._rounds is not None:
            self._rounds.cancel()

    async def _go_round(self) -> None:
        while True:
            await asyncio.sleep(self._node.limits.health_s)
            try:
                await self.check()
            except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained
                self._node.internal_error("health checks", error)

    async def check(self) -> None:
        """Ask every room that has something to say about it, all at once; end those that are not well."""
        asked: dict[RoomRunner, asyncio.Task[bool]] = {}
        async with asyncio.TaskGroup() as round_:
            for host in self._node.rooms.hosts():
                if self._has_say(host):
                    asked[host] = round_.create_task(self._is_well(host))
                    if len(asked) % _ASKED_AT_ONCE == 0:
                        await asyncio.sleep(0)
        sick = [host for host, task in asked.items() if not task.result() and not host.room.is_closing]
        self._are_rooms_sick = len(sick) >= max(_SICK_LEAST, _SICK_SHARE * len(self._node.rooms))
        for host in sick:
            self._node.publish(RoomFailed(room=host.room.id, kind=host.room.kind, why="unhealthy"))
            host.end("unhealthy", Reason.ROOM_FAILED)
        if self.is_healthy is not self._was_healthy:
            self._was_healthy = self.is_healthy
            self._node.publish(NodeHealth(node=self._node.name, is_healthy=self.is_healthy))

    def _has_say(self, host: "RoomRunner") -> bool:
        room = host.room
        return type(room).on_health_check is not Room.on_health_check and not room.is_closing

    async def _is_well(self, host: "RoomRunner") -> bool:
        if self._stands_still(host):
            return True
        limits = self._node.limits

        def on_health_check() -> Any:
            if not deadline.expired():
                deadline.reschedule(self._loop.time() + limits.health_timeout_s)
            return host.room.on_health_check()

        try:
            # It may be in the middle of a turn, and has as long for that as for any.
            async with asyncio.timeout(limits.turn_s) as deadline:
                answer = await host.call(on_health_check)
            # A hook that only raises when something is wrong says nothing if all is well.
            return answer is None or bool(answer)
        except Exception:  # noqa: BLE001 - it raised, which was logged, or it did not answer
            return self._stands_still(host)

    def _stands_still(self, host: "RoomRunner") -> bool:
        """Whether a room waits for the store: that is not its own trouble, and it will answer when it goes on."""
        committer = self._node.committer
        return committer is not None and committer.is_failing and host.room.durability != "memory"
