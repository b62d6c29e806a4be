"""The message log: the messages between a room and its players, while an operator watches.

It is read from the payloads of their connections, both ways, so messages of agents are not shown. While nobody watches,
no connection has a tap. Secrets are masked as in the packet log.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from holdfast.core.codec import DECODE_ERRORS, Codec
from holdfast.core.limits import Limits
from holdfast.core.session import Session
from holdfast.observability.log_lines import LineLimit
from holdfast.observability.packet_log import Direction, Sink
from holdfast.observability.packet_text import hide, masked_view, with_text_keys
from holdfast.schemas.events import RoomEnded
from holdfast.schemas.node import EventInfo

# The positions of the type and the body in the frames that carry messages.
_MESSAGES = {"data": (4, 5), "latest": (2, 3)}
_NAMES = [name.encode() for name in _MESSAGES]
_LINES = "messages"


class _Watch:
    """One reader: its unread messages. The oldest are dropped, and so is whatever exceeds the rate."""

    def __init__(self, room_id: str, loop: asyncio.AbstractEventLoop, per_s: int) -> None:
        self.room_id = room_id
        self._waiting: deque[dict[str, Any]] = deque(maxlen=per_s)
        self._left_out = 0
        self._is_over = False
        self._changed = asyncio.Event()
        self._lines = LineLimit(loop, per_s, self._leave_out)

    def takes(self, payload: bytes) -> bool:
        """Whether to decode a payload: beyond the limit of a second, payloads are only counted."""
        if not self._lines.is_full(_LINES):
            return True
        if any(name in payload for name in _NAMES):
            self._lines.allow(_LINES)
        return False

    def add(self, message: dict[str, Any]) -> None:
        if not self._lines.allow(_LINES):
            return
        if len(self._waiting) == self._waiting.maxlen:
            self._left_out += 1
        self._waiting.append(message)
        self._changed.set()

    def end(self) -> None:
        self._lines.close()
        self._is_over = True
        self._changed.set()

    async def next(self) -> list[tuple[str, dict[str, Any]]]:
        """The messages since the last call, and how many were left out; an empty list at the end."""
        self._changed.clear()
        if not self._waiting and not self._left_out and not self._is_over:
            await self._changed.wait()
        told: list[tuple[str, dict[str, Any]]] = [("message", message) for message in self._waiting]
        if self._left_out:
            told.append(("gap", {"left_out": self._left_out}))
        self._waiting.clear()
        self._left_out = 0
        return told

    def _leave_out(self, _: str, count: int) -> None:
        self._left_out += count
        self._changed.set()


class MessageLog:
    """The readers of rooms' messages."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        wall_clock: Callable[[], float],
        limits: Limits,
        renew_taps: Callable[[], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        """`renew_taps` is called when watching begins or ends: each connection then asks for its `sink`."""
        self._loop = loop
        self._wall_clock = wall_clock
        self._limits = limits
        self._renew_taps = renew_taps
        self._failed = failed
        self._watches: set[_Watch] = set()

    def sink(self, codec: Codec, session: Session | None) -> Sink | None:
        """The sink for the payloads of a session's connection; None while nobody watches anything."""
        return partial(self._add, session, codec) if self._watches and session is not None else None

    async def read(self, room_id: str) -> AsyncIterator[EventInfo]:
        """The messages of a room from now on, until it ends."""
        watch = _Watch(room_id, self._loop, self._limits.packet_lines_per_s)
        self._watches.add(watch)
        self._renew_taps()
        number = 0
        try:
            while told := await watch.next():
                for kind, body in told:
                    number += 1
                    yield EventInfo(number, kind, body.pop("at", 0.0) or self._wall_clock(), body)
        finally:
            watch.end()
            self._watches.discard(watch)
            self._renew_taps()

    def record(self, event: RoomEnded) -> None:
        """End the readers of a room that has ended."""
        for watch in self._of(event.room):
            watch.end()

    def close(self) -> None:
        for watch in self._watches:
            watch.end()

    def _add(self, session: Session, codec: Codec, direction: Direction, payload: bytes) -> None:
        if not session.room_id:
            return
        watches = [watch for watch in self._of(session.room_id) if watch.takes(payload)]
        if not watches:
            return
        try:
            for message in self._messages(payload, codec):
                message |= {"at": self._wall_clock(), "direction": direction, "player": str(session.player_id)}
                for watch in watches:
                    watch.add(dict(message))
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted; it ends the watch, not the connection
            for watch in watches:
                watch.end()
            self._failed("the message log", error)

    def _of(self, room_id: str) -> list[_Watch]:
        return [watch for watch in self._watches if watch.room_id == room_id]

    def _messages(self, payload: bytes, codec: Codec) -> list[dict[str, Any]]:
        if len(payload) > self._limits.message_shown_bytes_max:
            return [{"type": "", "body": None, "bytes": len(payload)}]
        try:
            # The frames of a client are not validated yet here.
            frames = [frame for frame in codec.plain_frames(payload) if _carries_message(frame)]
            shown = masked_view(frames, hide, is_before_sign_in=False)
        except DECODE_ERRORS:
            return []
        return [
            {"type": str(frame[kind]), "body": with_text_keys(frame[body]), "bytes": len(payload)}
            for frame in shown
            for kind, body in [_MESSAGES[frame[0]]]
        ]


def _carries_message(frame: list[Any]) -> bool:
    return bool(frame) and isinstance(frame[0], str) and frame[0] in _MESSAGES and len(frame) > _MESSAGES[frame[0]][1]
