"""Responses: structs as JSON with every field, and server-sent events.

A reader of events that falls too far behind is disconnected, and may reconnect with the id of the last event that it
received; or the server waits for it, where the source itself drops what is too much.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from litestar import Response
from litestar.types import Receive, Scope, Send

from holdfast.core.errors import Throttled
from holdfast.http.api import HttpLimits
from holdfast.logs import get_logger
from holdfast.schemas.node import EventInfo
from holdfast.schemas.projection import whole

EVENT_STREAM = "text/event-stream"
ABORT = "holdfast.abort"
"""Where the state of an ASGI scope has a function that cuts the connection."""

# How long a browser waits before it reconnects.
_GREETING = b"retry: 1000\n\n"
_HEARTBEAT = b": still here\n\n"
# A slow reader that takes nothing for this many heartbeats is disconnected.
_PATIENCE_HEARTBEATS = 4

_log = get_logger("holdfast.http")


T = TypeVar("T")


class Answer(Response[T]):
    """A response that shows whole structs."""

    def render(self, content: Any, *args: Any, **kwargs: Any) -> bytes:
        return super().render(whole(content), *args, **kwargs)


class EventStream:
    """One reader's events: taken from the node as they happen, and kept while its socket is busy."""

    def __init__(self, streams: "Streams", source: AsyncIterator[EventInfo], *, waits: bool = False) -> None:
        """With `waits` the server waits for a slow reader: the source keeps little and drops the rest."""
        self._streams = streams
        self._waits = waits
        self._limits = streams.limits
        self._source = source
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_over = False
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the source ends or the reader leaves."""
        with self._streams.place_for(self):
            headers = [(b"content-type", EVENT_STREAM.encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            helpers = [
                asyncio.create_task(self._take(scope["state"].get(ABORT))),
                asyncio.create_task(self._until_gone(receive)),
            ]
            try:
                await self._write(send)
            finally:
                for helper in helpers:
                    helper.cancel()
                await asyncio.wait(helpers)
                if isinstance(self._source, AsyncGenerator):
                    await self._source.aclose()

    def end(self) -> None:
        """Send what is left, then end."""
        self._is_over = True
        self._changed.set()
        self._drained.set()

    async def _take(self, abort: Callable[[], None] | None) -> None:
        """Not done by the writer: events must not accumulate in the node behind a slow socket."""
        try:
            async for event in self._source:
                if self._is_over:
                    break
                number = event.position or str(event.id)
                chunk = b"id: %b\ndata: %b\n\n" % (number.encode(), msgspec.json.encode(whole(event)))
                self._waiting.append(chunk)
                self._waiting_bytes += len(chunk)
                self._changed.set()
                is_behind = (
                    len(self._waiting) > self._limits.stream_events_max
                    or self._waiting_bytes > self._limits.stream_bytes_max
                )
                if is_behind and not await self._is_caught_up():
                    _log.info("disconnecting a reader of events that is too slow")
                    self._forget()
                    if abort is not None:
                        abort()
                    break
        except Exception:  # noqa: BLE001 - the status was already sent: the stream can only end
            _log.exception("an event stream failed")
        finally:
            self.end()

    async def _is_caught_up(self) -> bool:
        """Whether the reader, if it may be waited for, has taken everything in time."""
        if not self._waits:
            return False
        self._drained.clear()
        try:
            async with asyncio.timeout(_PATIENCE_HEARTBEATS * self._limits.heartbeat_s):
                await self._drained.wait()
        except TimeoutError:
            return False
        return True

    async def _until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._forget()
        self.end()

    def _forget(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0
        self._drained.set()

    async def _write(self, send: Send) -> None:
        chunk = _GREETING
        while chunk:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            chunk = await self._next()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self) -> bytes:
        """Everything that waits, or a heartbeat after a long silence; nothing at the end."""
        while not self._waiting and not self._is_over:
            self._changed.clear()
            try:
                async with asyncio.timeout(self._limits.heartbeat_s):
                    await self._changed.wait()
            except TimeoutError:
                return _HEARTBEAT
        chunk = b"".join(self._waiting)
        self._forget()
        return chunk


class Streams:
    """The event streams of one server."""

    def __init__(self, limits: HttpLimits) -> None:
        self.limits = limits
        self._open: set[EventStream] = set()

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def place_for(self, stream: EventStream) -> Iterator[None]:
        """Count a stream while it runs; raises `Throttled` if there are too many."""
        if len(self._open) >= self.limits.streams_max:
            raise Throttled(f"there are {len(self._open)} event streams already, which is the limit")
        self._open.add(stream)
        try:
            yield
        finally:
            self._open.discard(stream)

    def end(self) -> None:
        """End all streams, after what is left is sent."""
        for stream in self._open:
            stream.end()


class EventAnswer(Response[bytes]):
    """A response that is an event stream."""

    def __init__(self, stream: EventStream) -> None:
        super().__init__(b"", media_type=EVENT_STREAM)
        self._stream = stream

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """The stream sends for itself."""
        return self._stream
