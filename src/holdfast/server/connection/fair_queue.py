"""Clients that say a lot at once are heard in portions, one after the other, and not read meanwhile.

Whoever is ahead of what it may say per second, or says more in one payload than a portion, comes here. All of them
together get a part of the loop's time, whatever they say: those who keep to their pace are never held up by them. What
a client says while it waits stays in its own buffers, for its link is not read; what was read already waits here. That
is little, unless it was made small on purpose to become large: then it is the end of the connection.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from holdfast.core.flood import PAYLOAD_OVERHEAD_BYTES, Step
from holdfast.core.limits import Limits
from holdfast.schemas.frames import FromClient
from holdfast.server.connection.backlog import InputBacklog
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.context import Clock


class FairQueue:
    """The clients of one node that are heard in portions."""

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        *,
        over: Callable[[LiveConnection, str], Step],
        cut_off: Callable[[LiveConnection, str], None],
    ) -> None:
        """`over` is told of a client beyond its rate, `cut_off` of one far beyond it."""
        self._limits = limits
        self._now = clock.now
        self._loop = clock.loop
        self._over = over
        self._cut_off = cut_off
        self._waiting: deque[LiveConnection] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def received(self, connection: LiveConnection, payload: bytes) -> None:
        """A payload of a client that has said something a moment ago: hear it now if it is not too much."""
        if connection.allowed_bytes.full_at - connection.heard_at <= self._limits.lane_ahead_s:
            self._hear_payload(connection, payload)
        else:
            self._enter(connection).add(payload)

    def received_more(self, connection: LiveConnection, payload: bytes) -> None:
        """A payload of a client that waits already: it was read before its link was to be read no more."""
        backlog = connection.backlog
        assert backlog is not None
        limit, most = "lane_bytes_max", self._limits.lane_bytes_max
        if connection.session is None:
            # A stranger has nothing to say after its hello.
            limit, most = "hello_bytes_max", self._limits.hello_bytes_max
        if backlog.weight_bytes >= most:
            self._cut_off(connection, limit)
        else:
            backlog.add(payload)

    def _hear_payload(self, connection: LiveConnection, payload: bytes) -> None:
        if not connection.allowed_bytes.take(connection.heard_at, len(payload) + PAYLOAD_OVERHEAD_BYTES):
            self._over(connection, "bytes_per_s")
        if connection.is_open:
            connection.hear(payload)

    def first_portion(self, connection: LiveConnection, frames: list[FromClient]) -> list[FromClient]:
        """What is heard of a payload at once; the rest has to wait."""
        portion_max = connection.portion_max
        self._enter(connection).frames = frames[portion_max:]
        return frames[:portion_max]

    def pause(self, connection: LiveConnection, seconds: float) -> None:
        """Hear nothing of a client for a while."""
        self._enter(connection).until = self._now() + seconds

    def _enter(self, connection: LiveConnection) -> InputBacklog:
        if connection.backlog is None:
            connection.backlog = InputBacklog()
            connection.portion_max = self._limits.lane_portion_max
            connection.pause_reading()
            self._wait(connection)
        return connection.backlog

    def _wait(self, connection: LiveConnection) -> None:
        self._waiting.append(connection)
        if self._timer is None:
            self._timer = self._loop.call_later(self._limits.lane_pause_s, self._serve)

    def _serve(self) -> None:
        """One after the other, until their part of the time is used up."""
        self._timer = None
        now = self._now()
        enough_at = now + self._limits.lane_turn_s
        is_enough = False
        try:
            while self._waiting and now < enough_at and not is_enough:
                is_enough = self._hear(self._waiting.popleft(), now)
                now = self._now()
        finally:
            # Also if that raises, which is a bug of ours: the others must not wait for ever.
            if self._waiting and self._timer is None:
                self._timer = self._loop.call_later(self._limits.lane_pause_s, self._serve)

    def _hear(self, connection: LiveConnection, now: float) -> bool:
        """Hear the next of what a client has said; True if that is enough for now."""
        backlog = connection.backlog
        assert backlog is not None
        if now >= backlog.until and connection.is_open:
            connection.heard_at = now
            self._hear_next(connection, backlog)
        is_resting = now < backlog.until
        if not connection.is_open or (is_resting and backlog.end is not None):
            # Closed by us; or gone, and over what it might have said: as if the rest had been lost on its way.
            backlog.clear()
        elif is_resting:
            self._loop.call_later(backlog.until - now, self._wait, connection)
            return False
        if backlog:
            self._waiting.append(connection)
            return False
        self._leave(connection, backlog)
        # It is read again. Who is still ahead may send as much as a socket holds: one of those at a time.
        return connection.allowed_bytes.full_at > now

    def _hear_next(self, connection: LiveConnection, backlog: InputBacklog) -> None:
        if backlog.frames:
            frames, backlog.frames = backlog.frames, []
            connection.hear(b"", frames)
        elif (payload := backlog.pop()) is not None:
            self._hear_payload(connection, payload)

    def _leave(self, connection: LiveConnection, backlog: InputBacklog) -> None:
        connection.backlog = None
        connection.portion_max = self._limits.lane_frames_max
        if backlog.end is not None:
            connection.lost(*backlog.end)
        else:
            connection.resume_reading()
