"""How long a session waits for its player: one timer for each that is away."""

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.reasons import Reason
from holdfast.core.session import Session

if TYPE_CHECKING:
    from holdfast.server.node import Node


class Graces:
    """Ends the sessions whose players did not come back in time."""

    def __init__(self, node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._timers: dict[Session, asyncio.TimerHandle] = {}

    def begin(self, session: Session) -> None:
        """The session ends when its grace does, unless its player comes back."""
        self.over(session)
        if session.expires_at is not None:
            self._timers[session] = self._loop.call_at(session.expires_at, self._check, session)

    def over(self, session: Session) -> None:
        """The player is back, or there is nothing to come back to."""
        timer = self._timers.pop(session, None)
        if timer is not None:
            timer.cancel()

    def renew(self, session: Session) -> None:
        """Begin a session's grace anew, if it is away."""
        if session.expires_at is not None:
            session.expires_at = self._node.now() + session.grace_s
            self.begin(session)

    def _check(self, session: Session) -> None:
        committer = self._node.committer
        if committer is not None and committer.is_failing and session in committer:
            # They cannot come back while the store refuses.
            self.renew(session)
        elif session.has_expired(self._node.now()):
            self._node.end_session(session, Reason.GRACE_ENDED)
        else:
            # Early, by the resolution of the timer.
            self.begin(session)
