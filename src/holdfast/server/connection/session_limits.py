"""The limits of each session: the server's, unless those of its roles, or its own, replace some.

Sessions with the same limits share them: thousands of spectators have one set.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from weakref import WeakValueDictionary

from holdfast.core.limits import Limits, RoleLimits, most_generous
from holdfast.core.rates import Rates
from holdfast.core.session import Session
from holdfast.schemas.player import AGENT_PREFIX
from holdfast.server.context import Clock

AGENT_ROLE = "agent"
"""In `Limits.by_role`: agents, whatever their roles."""
SPECTATOR_ROLE = "spectator"
"""In `Limits.by_role`: sessions that watch a room and have no seat."""


class SessionLimiter:
    """Puts the limits of sessions in force, at once for those that are connected."""

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        *,
        renew: Callable[[Session], None],
        save: Callable[[Session], None],
    ) -> None:
        """`renew` restarts the timers of a session, `save` saves what was changed for it alone."""
        self._now = clock.now
        self._limits = limits
        self._renew = renew
        self._save = save
        self.rates = Rates(limits)
        """Those of sessions without special limits."""
        # A set is forgotten with its last session.
        self._special: WeakValueDictionary[RoleLimits, Rates] = WeakValueDictionary()
        # One object for all sessions: reading `self.changed` makes a new one each time.
        self._changed = self.changed

    def sessions_per_player_max(self, roles: Collection[str]) -> int:
        """How many sessions a player with these roles may have."""
        most = self._of_roles(roles).sessions_per_player_max
        return self._limits.sessions_per_player_max if most is None else most

    def apply(self, session: Session) -> None:
        """The session begins or is restored, or its roles or its own limits have changed."""
        session.limited = self._changed
        special = self._of_roles(_roles_of(session))
        if session.own_limits is not None:
            special = replace(special, **session.own_limits.values())
        rates = self._rates(special)
        if rates is session.rates:
            return
        session.rates = rates
        session.limits = rates.limits if rates is not None else self._limits
        if session.flood is not None:
            session.flood.agree(rates or self.rates, self._now())
        self._renew(session)

    def changed(self, session: Session) -> None:
        """The session's own limits have changed."""
        self.apply(session)
        self._save(session)

    def _of_roles(self, roles: Collection[str]) -> RoleLimits:
        by_role = self._limits.by_role
        return most_generous(by_role[role] for role in roles if role in by_role) if by_role else _NONE

    def _rates(self, special: RoleLimits) -> Rates | None:
        values = special.values()
        if not values:
            return None
        rates = self._special.get(special)
        if rates is None:
            rates = self._special[special] = Rates(replace(self._limits, **values), special)
        return rates


_NONE = RoleLimits()


def _roles_of(session: Session) -> Collection[str]:
    """The roles of a session, and those that are roles for limits alone: of agents, and of spectators."""
    if session.player_id.startswith(AGENT_PREFIX):
        return {*session.roles, AGENT_ROLE}
    if session.place is not None and session.seat is None:
        return {*session.roles, SPECTATOR_ROLE}
    return session.roles
