"""The first protocol of a connection at the WebSocket door: it reads the HTTP request, answers all that open no
WebSocket, and hands the others to picows in a form that cannot surprise it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from holdfast.transports.arrivals import Arrival
from holdfast.transports.no_page import Directions, no_page_here, not_http
from holdfast.transports.port import Dialect
from holdfast.transports.request_head import END, HEAD_BYTES_MAX, BadHead, RequestHead, parse_head
from holdfast.transports.sockets import abort


class Reception(asyncio.Protocol):
    """Waits for one request, of at most `HEAD_BYTES_MAX`; its deadline is the arrival's."""

    def __init__(
        self,
        arrival: Arrival,
        make_websocket: Callable[[RequestHead], asyncio.BufferedProtocol],
        dialects: Sequence[Dialect],
        directions: Directions,
    ) -> None:
        self._arrival = arrival
        self._make_websocket = make_websocket
        self._dialects = dialects
        self._directions = directions
        self._heard = bytearray()
        self._has_begun = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there, after TLS if there is TLS."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """A part of the request, or more than the request."""
        assert self._transport is not None
        if self._transport.is_closing():
            return
        start = max(0, len(self._heard) - len(END) + 1)
        self._heard += data
        if not self._has_begun and not self._skip_empty_line():
            return
        end = self._heard.find(END, start, HEAD_BYTES_MAX + len(END))
        if end >= 0:
            self._answer(bytes(self._heard[:end]), bytes(self._heard[end + len(END) :]))
        elif len(self._heard) > HEAD_BYTES_MAX:
            self._arrival.not_understood()
            abort(self._transport)
        elif not self._heard[:1].isalpha():
            # TLS to a door without it, or another protocol: an end of the request might never come.
            self._refuse(not_http("This is not a request of HTTP/1.1."))
        elif b"\n" in self._heard and not self._heard.partition(b"\n")[0].endswith(b"\r"):
            # Its end would never be found.
            self._refuse(not_http("Every line of a request ends with CR and LF."))

    def _skip_empty_line(self) -> bool:
        """Some send one before their request (RFC 9112, 2.2). False while it is not known whether this is one."""
        if self._heard == b"\r":
            return False
        self._has_begun = True
        if self._heard.startswith(b"\r\n"):
            del self._heard[:2]
        return bool(self._heard)

    def _answer(self, head: bytes, rest: bytes) -> None:
        try:
            request = parse_head(head)
        except BadHead as error:
            self._refuse(not_http(str(error)))
            return
        if request.is_upgrade:
            self._upgrade(request, rest)
        else:
            directions = "".join(map(self._directions, request.all("host")))
            self._refuse(no_page_here(self._dialects, directions))

    def _refuse(self, answer: bytes) -> None:
        assert self._transport is not None
        self._arrival.not_understood()
        if self._heard.startswith(b"HEAD "):
            answer = answer[: answer.index(END) + len(END)]
        self._transport.write(answer)
        self._transport.close()

    def _upgrade(self, request: RequestHead, rest: bytes) -> None:
        assert self._transport is not None
        websocket = self._make_websocket(request)
        websocket.connection_made(self._transport)
        self._transport.set_protocol(websocket)
        # A client that speaks before it is answered is early, but not wrong.
        unread = memoryview(request.to_bytes() + rest)
        while unread and not self._transport.is_closing():
            buffer = cast("memoryview", websocket.get_buffer(len(unread)))
            size = min(len(buffer), len(unread))
            buffer[:size] = unread[:size]
            websocket.buffer_updated(size)
            unread = unread[size:]

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._arrival.over()
