"""Grace periods: one timer for each disconnected session."""

import asyncio
from collections.abc import Callable

from holdfast.core.session import Session
from holdfast.server.context import Clock


class Graces:
    """Ends the sessions whose players did not return in time."""

    def __init__(self, clock: Clock, expire: Callable[[Session], None]) -> None:
        self._clock = clock
        self._expire = expire
        self._timers: dict[Session, asyncio.TimerHandle] = {}
        # One bound method for all timers.
        self._when_due = self._check
        self.may_expire: Callable[[Session], bool] = lambda _: True
        """Whether players can return now: they cannot while the store fails."""

    def begin(self, session: Session) -> None:
        """End the session when its grace ends, unless its player returns."""
        self.cancel(session)
        if session.expires_at is not None:
            self._timers[session] = self._clock.loop.call_at(session.expires_at, self._when_due, session)

    def cancel(self, session: Session) -> None:
        """The player returned, or the session ended."""
        timer = self._timers.pop(session, None)
        if timer is not None:
            timer.cancel()

    def renew(self, session: Session) -> None:
        """Restart the grace of a disconnected session."""
        if session.expires_at is not None:
            session.expires_at = self._clock.now() + session.grace_s
            self.begin(session)

    def _check(self, session: Session) -> None:
        if not self.may_expire(session):
            self.renew(session)
        elif session.has_expired(self._clock.now()):
            self._expire(session)
        else:
            # The timer fired early, by its resolution.
            self.begin(session)
