"""Ends sessions that are idle or too old, at the moment they are.

A session is idle whose client has said nothing of its own (a message, a request) and acknowledged nothing for `idle_s`:
answers to pings alone are no activity. One timer for each connection; activity does not touch it, it is set anew when
it rings too early.
"""

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.reasons import Reason
from holdfast.core.session import Session
from holdfast.server.connection.connection import LiveConnection

if TYPE_CHECKING:
    from holdfast.server.node import Node


class Lifetimes:
    """How long a session may do nothing, and how long it may last. Sessions that are away have their grace."""

    def __init__(self, node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._timers: dict[LiveConnection, asyncio.TimerHandle] = {}

    def begin(self, connection: LiveConnection, session: Session) -> None:
        """A connection speaks for the session from now on."""
        ends_at = self._ends_at(session)
        if ends_at is not None:
            self._timers[connection] = self._loop.call_at(ends_at, self._check, connection)

    def over(self, connection: LiveConnection) -> None:
        """The connection is gone."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _ends_at(self, session: Session) -> float | None:
        limits = self._node.limits
        idle_at = [session.last_active_at + limits.idle_s] if limits.idle_s else []
        old_at = [session.created_at + limits.session_age_max_s] if limits.session_age_max_s else []
        return min(idle_at + old_at, default=None)

    def _check(self, connection: LiveConnection) -> None:
        self._timers.pop(connection, None)
        session, limits, now = connection.session, self._node.limits, self._node.now()
        if session is None or not connection.is_open:
            return
        if limits.idle_s and now >= session.last_active_at + limits.idle_s:
            self._node.end_session(session, Reason.IDLE, f"nothing was said or read for {limits.idle_s:g} s")
        elif limits.session_age_max_s and now >= session.created_at + limits.session_age_max_s:
            self._node.end_session(session, Reason.TOO_OLD, f"a session lasts {limits.session_age_max_s:g} s")
        else:
            self.begin(connection, session)
