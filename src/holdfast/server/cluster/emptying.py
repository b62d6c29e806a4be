"""A node is emptied while it goes on running: it takes nothing new, and hands over what can go on elsewhere.

What is in memory only stays, and ends with the node; whoever drains it may wait for that, or not.
"""

import asyncio

from holdfast.core.errors import Conflict, NotAllowed
from holdfast.core.limits import Limits
from holdfast.logs import get_logger
from holdfast.schemas.events import NodeDrained, NodeEmptying
from holdfast.server.cluster.migration import Migration
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.context import Context
from holdfast.server.directory.directory import Directory
from holdfast.server.health import Drain

log = get_logger("holdfast.cluster")


class Emptying:
    """Drains this node when an operator says so."""

    def __init__(
        self, context: Context, node: ClusterNode, *, drain: Drain, migration: Migration, rooms: Directory
    ) -> None:
        self._limits: Limits = context.limits
        self._publish = context.publish
        self._faults = context.faults
        self._node = node
        self._drain = drain
        self._migration = migration
        self._rooms = rooms
        self._task: asyncio.Task[None] | None = None
        self.is_done = False
        """Whether everything that can go on elsewhere is elsewhere."""

    def begin(self) -> None:
        """Hand everything over; returns at once. Repeated, it changes nothing."""
        if self._task is not None or self._drain.is_on:
            return
        members = self._node.watch.membership.members
        if all(each.beat.is_draining for life, each in members.items() if self._node.is_alive(life)):
            raise NotAllowed("no other node of the cluster can take its rooms: they are draining, or not there")
        self._drain.leave()
        self._publish(NodeEmptying(node=self._node.name))
        self._task = asyncio.create_task(self._empty(), name="emptying")

    def cancel(self) -> None:
        """Take rooms and players again; what is elsewhere stays there."""
        if self._drain.is_on:
            raise Conflict("this node is stopping: that cannot be taken back")
        if self._task is None:
            return
        self.stop()
        self._drain.stay()

    def stop(self) -> None:
        """Hand nothing more over."""
        if self._task is not None:
            self._task.cancel()
        self._task, self.is_done = None, False

    async def _empty(self) -> None:
        while True:
            try:
                await self._migration.empty()
            except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained
                self._faults.report("draining this node", error)
            staying = [each for each in self._rooms.runners() if each.persistence.survives_stop]
            if not staying:
                break
            log.info("not every room could be handed over; trying again", rooms=len(staying))
            await asyncio.sleep(self._limits.store_retry_s)
        self.is_done = True
        self._publish(NodeDrained(node=self._node.name, rooms=len(self._rooms)))
