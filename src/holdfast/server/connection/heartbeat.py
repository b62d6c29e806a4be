"""Pings: every connection is pinged every `ping_s`, and dropped after `silence_s` of silence.

A connection is silent if it neither delivers a payload nor carries `liveness_bytes_per_s`, in either direction. One
timer serves all connections: they are visited in slices, so that ten thousand are not pinged at once.
"""

import asyncio
from collections.abc import Callable, Iterable

from holdfast.core.limits import Limits
from holdfast.core.outlet import Outlet
from holdfast.core.reasons import Reason
from holdfast.core.session import Session, SessionFlags
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.context import Clock

_SLICES = 20


class Heartbeat:
    """Visits every connection once per `ping_s`."""

    def __init__(self, clock: Clock, limits: Limits, connections: Callable[[], Iterable[LiveConnection]]) -> None:
        self._clock = clock
        self._limits = limits
        self._connections = connections
        self._round: list[LiveConnection] = []
        self._slice = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = self._clock.loop.call_later(self._limits.ping_s / _SLICES, self._beat)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self.start()
        if self._slice == 0:
            self._round = list(self._connections())
        now = self._clock.now()
        for connection in self._round[self._slice :: _SLICES]:
            self._visit(connection, now)
        self._slice = (self._slice + 1) % _SLICES

    def _visit(self, connection: LiveConnection, now: float) -> None:
        limits, session = self._limits, connection.session
        if not connection.is_open or session is None:
            return
        if now - connection.heard_at >= limits.ping_s:
            connection.look(now)
        # A connection in the fair queue is silent because it is not being read: check it after it has left the queue.
        if now - connection.heard_at >= limits.silence_s and connection.backlog is None:
            connection.cut(Reason.SILENT)
        elif session.seat is not None and self._reads_nothing(session, session.seat.outlet, now):
            session.seat.outlet.overflow()
        else:
            connection.ping(now)

    def _reads_nothing(self, session: Session, outlet: Outlet, now: float) -> bool:
        """Whether messages wait for a client that does not read."""
        if session.flags & SessionFlags.AWAITING_RESPONSE:
            # The ping is behind unread data: the link is slow, not the client.
            return False
        backlog = outlet.backlog
        return backlog is not None and backlog.stalled > 0 and now - backlog.stalled_at >= self._limits.unread_s
