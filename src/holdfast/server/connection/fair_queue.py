"""Clients that say a lot at once are heard in portions, one after the other, and not read meanwhile.

Whoever is ahead of what it may say per second, or says more in one payload than a portion, comes here. All of them
together get a part of the loop's time, whatever they say: those who keep to their pace are never held up by them. What
a client says while it waits stays in its own buffers, for its link is not read; what was read already waits here. That
is little, unless it was made small on purpose to become large: then it is the end of the connection.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from holdfast.core.flood import PAYLOAD_OVERHEAD_BYTES
from holdfast.schemas.frames import FromClient

if TYPE_CHECKING:
    from holdfast.server.connection.connection import LiveConnection
    from holdfast.server.node import Node


class Unheard:
    """What a client has said and was not heard yet, in order."""

    __slots__ = ("_payloads", "end", "frames", "until", "weight_bytes")

    def __init__(self) -> None:
        self._payloads: deque[bytes] = deque()
        self.weight_bytes = 0
        """Of the payloads, each with what it costs to deal with it."""
        self.frames: list[FromClient] = []
        """What is left of the payload before."""
        self.until = 0.0
        """Not before this."""
        self.end: tuple[int, str] | None = None
        """How its link ended meanwhile."""

    def __bool__(self) -> bool:
        return bool(self._payloads or self.frames)

    def add(self, payload: bytes) -> None:
        """One more."""
        self._payloads.append(payload)
        self.weight_bytes += len(payload) + PAYLOAD_OVERHEAD_BYTES

    def pop(self) -> bytes | None:
        """The next one."""
        if not self._payloads:
            return None
        payload = self._payloads.popleft()
        self.weight_bytes -= len(payload) + PAYLOAD_OVERHEAD_BYTES
        return payload

    def clear(self) -> None:
        """Nobody will hear it any more."""
        self._payloads.clear()
        self.weight_bytes = 0
        self.frames = []


class FairQueue:
    """The clients of one node that are heard in portions."""

    def __init__(self, node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._limits = node.limits
        self._now = node.now
        self._loop = loop
        self._waiting: deque[LiveConnection] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def received(self, connection: "LiveConnection", payload: bytes) -> None:
        """A payload of a client that has said something a moment ago: hear it now if it is not too much."""
        if connection.allowed_bytes.full_at - connection.heard_at <= self._limits.lane_ahead_s:
            self._hear_payload(connection, payload)
        else:
            self._enter(connection).add(payload)

    def received_more(self, connection: "LiveConnection", payload: bytes) -> None:
        """A payload of a client that waits already: it was read before its link was to be read no more."""
        unheard = connection.unheard
        assert unheard is not None
        limit, most = "lane_bytes_max", self._limits.lane_bytes_max
        if connection.session is None:
            # A stranger has nothing to say after its hello.
            limit, most = "hello_bytes_max", self._limits.hello_bytes_max
        if unheard.weight_bytes >= most:
            self._node.throttle.cut_off(connection, limit)
        else:
            unheard.add(payload)

    def _hear_payload(self, connection: "LiveConnection", payload: bytes) -> None:
        if not connection.allowed_bytes.take(connection.heard_at, len(payload) + PAYLOAD_OVERHEAD_BYTES):
            self._node.throttle.over(connection, "bytes_per_s")
        if connection.is_open:
            connection.hear(payload)

    def first_portion(self, connection: "LiveConnection", frames: list[FromClient]) -> list[FromClient]:
        """What is heard of a payload at once; the rest has to wait."""
        portion_max = connection.portion_max
        self._enter(connection).frames = frames[portion_max:]
        return frames[:portion_max]

    def rest(self, connection: "LiveConnection", seconds: float) -> None:
        """Hear nothing of a client for a while."""
        self._enter(connection).until = self._now() + seconds

    def _enter(self, connection: "LiveConnection") -> Unheard:
        if connection.unheard is None:
            connection.unheard = Unheard()
            connection.portion_max = self._limits.lane_portion_max
            connection.pause_reading()
            self._wait(connection)
        return connection.unheard

    def _wait(self, connection: "LiveConnection") -> None:
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

    def _hear(self, connection: "LiveConnection", now: float) -> bool:
        """Hear the next of what a client has said; True if that is enough for now."""
        unheard = connection.unheard
        assert unheard is not None
        if now >= unheard.until and connection.is_open:
            connection.heard_at = now
            self._hear_next(connection, unheard)
        is_resting = now < unheard.until
        if not connection.is_open or (is_resting and unheard.end is not None):
            # Closed by us; or gone, and over what it might have said: as if the rest had been lost on its way.
            unheard.clear()
        elif is_resting:
            self._loop.call_later(unheard.until - now, self._wait, connection)
            return False
        if unheard:
            self._waiting.append(connection)
            return False
        self._leave(connection, unheard)
        # It is read again. Who is still ahead may send as much as a socket holds: one of those at a time.
        return connection.allowed_bytes.full_at > now

    def _hear_next(self, connection: "LiveConnection", unheard: Unheard) -> None:
        if unheard.frames:
            frames, unheard.frames = unheard.frames, []
            connection.hear(b"", frames)
        elif (payload := unheard.pop()) is not None:
            self._hear_payload(connection, payload)

    def _leave(self, connection: "LiveConnection", unheard: Unheard) -> None:
        connection.unheard = None
        connection.portion_max = self._limits.lane_frames_max
        if unheard.end is not None:
            connection.lost(*unheard.end)
        else:
            connection.resume_reading()
