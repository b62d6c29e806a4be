"""Clients that send too much: first processed in portions, in turn; then warned, slowed down, refused, disconnected."""

import asyncio
from collections import deque
from collections.abc import Callable

from holdfast.core.limits import Limits
from holdfast.core.rates import PAYLOAD_OVERHEAD_BYTES, Flood, Step
from holdfast.core.reasons import Reason
from holdfast.core.session import Seat
from holdfast.schemas.frames import Data, FromClient
from holdfast.server.connection.buffers import InputBacklog
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.context import Clock, Context


class FairQueue:
    """A queue for clients that send a lot at once: their payloads are processed in portions, in turn.

    Clients that exceed their rate, or whose payload is larger than a portion, enter the queue. Together they get a
    fixed part of the event loop's time: clients within their rate are never delayed by them. While a client is
    queued its link is not read, so further data stays in its own buffers; data that was already read waits here.
    That is little, unless a payload was compressed to expand enormously: then the connection is closed.
    """

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
            if backlog.frames:
                frames, backlog.frames = backlog.frames, []
                connection.process(b"", frames)
            elif (payload := backlog.pop()) is not None:
                self._process_payload(connection, payload)
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
        connection.backlog = None
        connection.portion_max = self._limits.fair_queue_frames_max
        if backlog.end is not None:
            connection.lost(*backlog.end)
        else:
            connection.resume_reading()
        # Its link is read again. A client that is still over its rate may send a full socket buffer: one such client at
        # a time.
        return connection.allowed_bytes.full_at > now


class Throttle:
    """The rare path: `LiveConnection` comes here only when an allowance is used up."""

    def __init__(
        self,
        context: Context,
        *,
        pause: Callable[[LiveConnection, float], None],
        failed: Callable[[LiveConnection], None],
    ) -> None:
        """`pause` stops reading from a client for a while, `failed` counts against its address."""
        self._now = context.clock.now
        self._limits = context.limits
        self._counters = context.counters
        self._alarms = context.alarms
        self._pause = pause
        self._failed = failed

    def allows_latest(self, connection: LiveConnection) -> bool:
        flood = _flood_of(connection)
        if flood.latest.take(connection.heard_at) or self.over(connection, "latest_per_s") == "warn":
            return True
        self._counters.latest_throttled += 1
        return False

    def allows_request(self, connection: LiveConnection) -> bool:
        flood = _flood_of(connection)
        if flood.requests.take(connection.heard_at) or self.over(connection, "requests_per_s") == "warn":
            return True
        self._counters.requests_throttled += 1
        return False

    def over(self, connection: LiveConnection, limit: str) -> Step:
        """Something exceeded its allowance: returns the step to take. With "disconnect", the connection is closed."""
        if connection.session is None:
            self.cut_off(connection, limit)
            return "disconnect"
        step = _flood_of(connection).over(self._now())
        self._act(connection, limit, step)
        return step

    def over_message(self, connection: LiveConnection, seat: Seat, frame: Data) -> bool:
        """A reliable message exceeded its allowance; False if it is carried out nevertheless."""
        step = _flood_of(connection).over(self._now())
        if step != "warn":
            # Also before a disconnect: the message was accepted, and a returning client will not send it again.
            self._counters.messages_throttled += 1
            seat.room.delivery.refuse(seat, frame)
        self._act(connection, "messages_per_s", step)
        return step != "warn"

    def _act(self, connection: LiveConnection, limit: str, step: Step) -> None:
        match step:
            case "warn":
                self._tell(connection, limit, "warned")
            case "drop":
                self._tell(connection, limit, "dropped")
                # Further data waits in the client's own buffers: reading and refusing it would cost us more than the
                # client.
                self._pause(connection, self._limits.flood_pause_s)
            case "disconnect":
                self.cut_off(connection, limit)

    def cut_off(self, connection: LiveConnection, limit: str) -> None:
        """Far over the limit, whatever the policy: close the connection; its session may return later."""
        self._tell(connection, limit, "disconnected")
        if connection.session is None:
            connection.close(Reason.FLOODING, "too much data before a hello", retry_after_s=self._limits.hello_s)
            return
        _flood_of(connection).bar(self._now())
        self._counters.floods += 1
        self._failed(connection)
        message = f"too much data at once ({limit})"
        connection.close(Reason.FLOODING, message, retry_after_s=self._limits.retry_after_max_s)

    def _tell(self, connection: LiveConnection, limit: str, action: str) -> None:
        session = connection.session
        if session is None:
            self._alarms.report(limit, action, address=connection.address)
            return
        self._alarms.report(
            *(limit, action),
            address=connection.address,
            session=session.id,
            player=session.player_id,
            player_name=session.name,
        )


def _flood_of(connection: LiveConnection) -> Flood:
    assert connection.session is not None
    assert connection.session.flood is not None
    return connection.session.flood
