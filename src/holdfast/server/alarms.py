"""`LimitExceeded` events, rate-limited: at most one a second for each limit and subject.

The first is published at once; repetitions within the second are published together, counted in `times`. A flood of
traffic must not become a flood of events.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from msgspec import structs

from holdfast.schemas.events import LimitExceeded

_WINDOW_S = 1.0


@dataclass(slots=True)
class _Alarm:
    """The event to publish, and how often it happened since the last one."""

    event: LimitExceeded
    times: int = 0


class Alarms:
    """Publishes `LimitExceeded`, rate-limited."""

    def __init__(self, loop: asyncio.AbstractEventLoop, publish: Callable[[LimitExceeded], None]) -> None:
        self._loop = loop
        self._publish = publish
        # Published in the current second.
        self._told: dict[tuple[str, str, str], _Alarm] = {}
        self._timer: asyncio.TimerHandle | None = None

    def report(self, limit: str, action: str, *, address: str = "", session: str = "", player: str = "") -> None:
        """Somebody reached a limit; `action` is "warned", "dropped", "disconnected" or "refused"."""
        key = (limit, action, session or player or address)
        known = self._told.get(key)
        if known is not None:
            known.times += 1
            return
        event = LimitExceeded(limit=limit, action=action, address=address, session=session, player=player)
        self._told[key] = _Alarm(event)
        if self._timer is None:
            self._timer = self._loop.call_later(_WINDOW_S, self._report_rest)
        self._publish(event)

    def _report_rest(self) -> None:
        """Publish what was repeated during the second that has just ended."""
        again = {key: alarm for key, alarm in self._told.items() if alarm.times}
        self._told = {key: _Alarm(alarm.event) for key, alarm in again.items()}
        self._timer = self._loop.call_later(_WINDOW_S, self._report_rest) if again else None
        for alarm in again.values():
            self._publish(structs.replace(alarm.event, times=alarm.times))

    def close(self) -> None:
        """Publish what is pending, and stop."""
        if self._timer is not None:
            self._timer.cancel()
            self._report_rest()
        if self._timer is not None:
            self._timer.cancel()
