"""Ends sessions that are idle or too old.

A session is idle when its client has sent no message and no request and acknowledged nothing for `idle_s`; pongs do not
count as activity. One timer per connection: activity does not reset it; a timer that fires too early is restarted.
"""

import asyncio
from collections.abc import Callable

from holdfast.core.limits import Limits
from holdfast.core.reasons import Reason
from holdfast.core.session import Session
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.context import Clock


class Lifetimes:
    """Limits how long a connected session may be idle, and how long it may last."""

    def __init__(self, clock: Clock, limits: Limits, end_session: Callable[[Session, Reason, str], None]) -> None:
        self._clock = clock
        self._limits = limits
        self._end_session = end_session
        self._timers: dict[LiveConnection, asyncio.TimerHandle] = {}

    def begin(self, connection: LiveConnection, session: Session) -> None:
        """The connection belongs to the session."""
        ends_at = self._ends_at(session)
        if ends_at is not None:
            self._timers[connection] = self._clock.loop.call_at(ends_at, self._check, connection)

    def cancel(self, connection: LiveConnection) -> None:
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _ends_at(self, session: Session) -> float | None:
        limits = self._limits
        idle_at = [session.last_active_at + limits.idle_s] if limits.idle_s else []
        old_at = [session.created_at + limits.session_age_max_s] if limits.session_age_max_s else []
        return min(idle_at + old_at, default=None)

    def _check(self, connection: LiveConnection) -> None:
        self._timers.pop(connection, None)
        session, limits, now = connection.session, self._limits, self._clock.now()
        if session is None or not connection.is_open:
            return
        if limits.idle_s and now >= session.last_active_at + limits.idle_s:
            self._end_session(session, Reason.IDLE, f"the session was idle for {limits.idle_s:g} s")
        elif limits.session_age_max_s and now >= session.created_at + limits.session_age_max_s:
            self._end_session(session, Reason.TOO_OLD, f"the session is over {limits.session_age_max_s:g} s old")
        else:
            self.begin(connection, session)
