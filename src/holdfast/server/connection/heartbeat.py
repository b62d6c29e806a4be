"""Signs of life: every connection is pinged every `ping_s`, and one that stays silent for `silence_s` has dropped.

Silent is a connection that neither brings a payload nor carries `life_bytes_per_s`, either way.

One timer for the whole node. Connections are visited in slices, so that ten thousand of them are not pinged at once.
"""

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.player import Outlet
from holdfast.core.reasons import Reason
from holdfast.core.session import Session, SessionFlags
from holdfast.server.connection.connection import LiveConnection

if TYPE_CHECKING:
    from holdfast.server.node import Node

_SLICES = 20


class Heartbeat:
    """Visits every connection once per `ping_s`."""

    def __init__(self, node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._round: list[LiveConnection] = []
        self._slice = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to beat."""
        self._timer = self._loop.call_later(self._node.limits.ping_s / _SLICES, self._beat)

    def stop(self) -> None:
        """Beat no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self.start()
        if self._slice == 0:
            self._round = list(self._node.connections.values())
        now = self._node.now()
        for connection in self._round[self._slice :: _SLICES]:
            self._visit(connection, now)
        self._slice = (self._slice + 1) % _SLICES

    def _visit(self, connection: LiveConnection, now: float) -> None:
        limits, session = self._node.limits, connection.session
        if not connection.is_open or session is None:
            return
        if now - connection.heard_at >= limits.ping_s:
            connection.look(now)
        # Of one in the slow lane we are the ones who do not listen; it comes out, and is heard or not.
        if now - connection.heard_at >= limits.silence_s and connection.unheard is None:
            connection.cut(Reason.SILENT)
        elif session.player is not None and self._reads_nothing(session, session.player.outlet, now):
            session.player.outlet.overflow()
        else:
            connection.ping(now)

    def _reads_nothing(self, session: Session, outlet: Outlet, now: float) -> bool:
        """Whether a client's messages wait for it to read, and it does not."""
        if session.flags & SessionFlags.AWAITING_RESPONSE:
            # Our ping is behind what there is to read: the link is slow, not the client.
            return False
        backlog = outlet.backlog
        return backlog is not None and backlog.stalled > 0 and now - backlog.stalled_at >= self._node.limits.unread_s
