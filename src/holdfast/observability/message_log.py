"""The message log: what the players of a room and the room say to each other, while somebody watches.

It is read off the payloads of their connections, both ways, so agents do not show. While nobody watches, there is none
of it: no connection has a tap. Secrets are hidden as in the packet log.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.core.codec import CODECS, DECODE_ERRORS
from holdfast.observability.line_limit import LineLimit
from holdfast.observability.packet_secrets import masked_view
from holdfast.observability.packet_text import hide, with_text_keys
from holdfast.schemas.events import Event, RoomEnded
from holdfast.schemas.node import EventInfo

if TYPE_CHECKING:
    from holdfast.server.connection.connection import LiveConnection
    from holdfast.server.node import Node

# Where the type and the body stand in the frames that carry messages.
_MESSAGES = {"data": (4, 5), "latest": (2, 3)}
_NAMES = [name.encode() for name in _MESSAGES]
_LINES = "messages"
# Frames as lists that begin with their name.
_DECODE = {codec: codec.body_decoder(list[list[Any]]).decode for codec in CODECS.values()}


class Tap(Protocol):
    """Hears what one connection says and hears."""

    def received(self, payload: bytes) -> None:
        """From the client."""

    def sent(self, payload: bytes) -> None:
        """To the client."""


class _Watch:
    """One reader: what it has not read yet. The oldest gives way, and so does what is too much for a second."""

    def __init__(self, room_id: str, loop: asyncio.AbstractEventLoop, per_s: int) -> None:
        self.room_id = room_id
        self._waiting: deque[dict[str, Any]] = deque(maxlen=per_s)
        self._left_out = 0
        self._is_over = False
        self._changed = asyncio.Event()
        self._lines = LineLimit(loop, per_s, self._leave_out)

    def takes(self, payload: bytes) -> bool:
        """Whether it is worth reading: what comes in a second that is full already is only counted."""
        if not self._lines.is_full(_LINES):
            return True
        if any(name in payload for name in _NAMES):
            self._lines.allow(_LINES)
        return False

    def add(self, message: dict[str, Any]) -> None:
        """Somebody said something."""
        if not self._lines.allow(_LINES):
            return
        if len(self._waiting) == self._waiting.maxlen:
            self._left_out += 1
        self._waiting.append(message)
        self._changed.set()

    def end(self) -> None:
        """Nothing more will be said."""
        self._lines.close()
        self._is_over = True
        self._changed.set()

    async def next(self) -> list[tuple[str, dict[str, Any]]]:
        """What has been said since the last time, and how much of it is not shown; nothing at the end."""
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
    """Who watches which room, and the taps that this needs."""

    def __init__(self, node: "Node", loop: asyncio.AbstractEventLoop, renew_taps: Callable[[], None]) -> None:
        self.node = node
        self._loop = loop
        self._renew_taps = renew_taps
        self._watches: set[_Watch] = set()
        node.bus.observe(self._happened)

    def tap(self, connection: "LiveConnection", inner: Tap | None) -> Tap | None:
        """What a connection tells its payloads: who watches, and `inner`; the latter alone if nobody does."""
        return _MessageTap(self, connection, inner) if self._watches else inner

    async def read(self, room_id: str) -> AsyncIterator[EventInfo]:
        """What is said in a room from now on, until it ends."""
        watch = _Watch(room_id, self._loop, self.node.limits.packet_lines_per_s)
        self._watches.add(watch)
        self._renew_taps()
        number = 0
        try:
            while told := await watch.next():
                for kind, body in told:
                    number += 1
                    yield EventInfo(number, kind, body.pop("at", 0.0) or self.node.wall_clock(), body)
        finally:
            watch.end()
            self._watches.discard(watch)
            self._renew_taps()

    def of(self, room_id: str) -> list[_Watch]:
        """Who watches a room."""
        return [watch for watch in self._watches if watch.room_id == room_id]

    def close(self) -> None:
        """The node has stopped."""
        for watch in self._watches:
            watch.end()

    def _happened(self, event: Event) -> None:
        if isinstance(event, RoomEnded):
            for watch in self.of(event.room):
                watch.end()


class _MessageTap:
    """Takes the messages out of one connection's payloads. It never raises."""

    __slots__ = ("_connection", "_decode", "_inner", "_log")

    def __init__(self, log: MessageLog, connection: "LiveConnection", inner: Tap | None) -> None:
        self._log = log
        self._connection = connection
        self._inner = inner
        self._decode = _DECODE[connection.codec]

    def received(self, payload: bytes) -> None:
        """From the client."""
        if self._inner is not None:
            self._inner.received(payload)
        self._tell("in", payload)

    def sent(self, payload: bytes) -> None:
        """To the client."""
        if self._inner is not None:
            self._inner.sent(payload)
        self._tell("out", payload)

    def _tell(self, direction: str, payload: bytes) -> None:
        session = self._connection.session
        if session is None or session.room is None:
            return
        watches = [watch for watch in self._log.of(session.room.id) if watch.takes(payload)]
        if not watches:
            return
        node = self._log.node
        try:
            for message in self._messages(payload):
                message |= {"at": node.wall_clock(), "direction": direction, "player": str(session.player_id)}
                for watch in watches:
                    watch.add(dict(message))
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted, and this tap sees no more
            self._connection.tap = self._inner
            node.internal_error("the message log", error, connection=self._connection.id)

    def _messages(self, payload: bytes) -> list[dict[str, Any]]:
        if len(payload) > self._log.node.limits.message_shown_bytes_max:
            return [{"type": "", "body": None, "bytes": len(payload)}]
        try:
            frames = [frame for frame in self._decode(payload) if _is_message(frame)]
            shown = masked_view(frames, hide, is_stranger=False)
        except DECODE_ERRORS:
            return []
        return [
            {"type": str(frame[kind]), "body": with_text_keys(frame[body]), "bytes": len(payload)}
            for frame in shown
            for kind, body in [_MESSAGES[frame[0]]]
        ]


def _is_message(frame: list[Any]) -> bool:
    """Whether it carries one, whole: a client may say anything, and it is seen here before it is checked."""
    return bool(frame) and isinstance(frame[0], str) and frame[0] in _MESSAGES and len(frame) > _MESSAGES[frame[0]][1]
