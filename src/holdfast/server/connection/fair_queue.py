"""A queue for clients that send a lot at once: their payloads are processed in portions, in turn.

Clients that exceed their rate, or whose payload is larger than a portion, enter the queue. Together they get a fixed
part of the event loop's time: clients within their rate are never delayed by them. While a client is queued its link
is not read, so further data stays in its own buffers; data that was already read waits here. That is little, unless a
payload was compressed to expand enormously: then the connection is closed.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from holdfast.core.limits import Limits
from holdfast.core.rates import PAYLOAD_OVERHEAD_BYTES, Step
from holdfast.schemas.frames import FromClient
from holdfast.server.connection.backlog import InputBacklog
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.context import Clock


class FairQueue:
    """The clients of one node that are processed in portions."""

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        *,
        over: Callable[[LiveConnection, str], Step],
        cut_off: Callable[[LiveConnection, str], None],
    ) -> None:
        """`over` is called for a client over its rate, `cut_off` for one far over it."""
        self._limits = limits
        self._now = clock.now
        self._loop = clock.loop
        self._over = over
        self._cut_off = cut_off
        self._waiting: deque[LiveConnection] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def received(self, connection: LiveConnection, payload: bytes) -> None:
        """A payload of a client that sent another one a moment ago: process it now unless it is too much."""
        if connection.allowed_bytes.full_at - connection.heard_at <= self._limits.fair_queue_ahead_s:
            self._process_payload(connection, payload)
        else:
            self._enter(connection).add(payload)

    def received_more(self, connection: LiveConnection, payload: bytes) -> None:
        """A payload of a queued client, read before reading was paused."""
        backlog = connection.backlog
        assert backlog is not None
        limit, most = "fair_queue_bytes_max", self._limits.fair_queue_bytes_max
        if connection.session is None:
            # Nothing may follow a hello before the sign-in is complete.
            limit, most = "hello_bytes_max", self._limits.hello_bytes_max
        if backlog.weight_bytes >= most:
            self._cut_off(connection, limit)
        else:
            backlog.add(payload)

    def _process_payload(self, connection: LiveConnection, payload: bytes) -> None:
        if not connection.allowed_bytes.take(connection.heard_at, len(payload) + PAYLOAD_OVERHEAD_BYTES):
            self._over(connection, "bytes_per_s")
        if connection.is_open:
            connection.process(payload)

    def first_portion(self, connection: LiveConnection, frames: list[FromClient]) -> list[FromClient]:
        """The frames of a payload that are processed at once; the rest is queued."""
        portion_max = connection.portion_max
        self._enter(connection).frames = frames[portion_max:]
        return frames[:portion_max]

    def pause(self, connection: LiveConnection, seconds: float) -> None:
        """Process nothing from a client for a while."""
        self._enter(connection).until = self._now() + seconds

    def _enter(self, connection: LiveConnection) -> InputBacklog:
        if connection.backlog is None:
            connection.backlog = InputBacklog()
            connection.portion_max = self._limits.fair_queue_portion_max
            connection.pause_reading()
            self._wait(connection)
        return connection.backlog

    def _wait(self, connection: LiveConnection) -> None:
        self._waiting.append(connection)
        if self._timer is None:
            self._timer = self._loop.call_later(self._limits.fair_queue_pause_s, self._serve)

    def _serve(self) -> None:
        """Process queued clients in turn, until their part of the time is used up."""
        self._timer = None
        now = self._now()
        enough_at = now + self._limits.fair_queue_turn_s
        is_enough = False
        try:
            while self._waiting and now < enough_at and not is_enough:
                is_enough = self._process(self._waiting.popleft(), now)
                now = self._now()
        finally:
            # Also after an exception, which is our bug: the other clients must not wait forever.
            if self._waiting and self._timer is None:
                self._timer = self._loop.call_later(self._limits.fair_queue_pause_s, self._serve)

    def _process(self, connection: LiveConnection, now: float) -> bool:
        """Process the next portion of a client; True if that is enough for now."""
        backlog = connection.backlog
        assert backlog is not None
        if now >= backlog.until and connection.is_open:
            connection.heard_at = now
            self._process_next(connection, backlog)
        is_resting = now < backlog.until
        if not connection.is_open or (is_resting and backlog.end is not None):
            # Closed by us; or gone while over its rate: the rest is treated as lost in transit.
            backlog.clear()
        elif is_resting:
            self._loop.call_later(backlog.until - now, self._wait, connection)
            return False
        if backlog:
            self._waiting.append(connection)
            return False
        self._leave(connection, backlog)
        # Its link is read again. A client that is still over its rate may send a full socket buffer: one such client at
        # a time.
        return connection.allowed_bytes.full_at > now

    def _process_next(self, connection: LiveConnection, backlog: InputBacklog) -> None:
        if backlog.frames:
            frames, backlog.frames = backlog.frames, []
            connection.process(b"", frames)
        elif (payload := backlog.pop()) is not None:
            self._process_payload(connection, payload)

    def _leave(self, connection: LiveConnection, backlog: InputBacklog) -> None:
        connection.backlog = None
        connection.portion_max = self._limits.fair_queue_frames_max
        if backlog.end is not None:
            connection.lost(*backlog.end)
        else:
            connection.resume_reading()
