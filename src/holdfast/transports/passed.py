"""WebSocket links that began in another process of this machine, which has passed their sockets to this one.

The client notices nothing: no bytes but those of the link are written. picows makes a link only of an upgrade request,
so it gets one, and its answer to it is empty.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import cast
from weakref import ref

from picows import WSUpgradeRequest, WSUpgradeResponse, WSUpgradeResponseWithListener

from holdfast.transports.picows_protocol import PicowsAnswers, picows_protocol
from holdfast.transports.port import PassedLink, Receiver, Transport, TransportLimits
from holdfast.transports.websocket_link import DeflatedWebSocketTransport, WebSocketTransport

_REQUEST = (
    b"GET / HTTP/1.1\r\nHost: passed\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


async def take_over(
    sock: socket.socket,
    passed: PassedLink,
    receiver: Receiver,
    switch: Callable[[Transport], None],
    *,
    limits: TransportLimits,
) -> None:
    """Go on with a link on this socket; `switch` is called with it, and then `receiver` hears what comes.

    Raises `OSError`, and the socket is closed. Do not cancel it: it is done after a turn of the loop or two, and uvloop
    would never say that the link is lost.
    """
    link = (DeflatedWebSocketTransport if passed.window_bits else WebSocketTransport)(lambda: receiver, limits)
    link.subprotocol = passed.subprotocol
    link.continues(passed, switch)
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: _Opening(link, passed, limits), sock)
    except OSError:
        sock.close()
        raise
    # Reading began after `switch`, whatever that wished.
    link.read_as_wished()


class _Opening(asyncio.Protocol):
    """Makes the link as soon as there is a transport. uvloop keeps this object for as long as the link is open."""

    __slots__ = ("_websocket",)

    def __init__(self, link: WebSocketTransport, passed: PassedLink, limits: TransportLimits) -> None:
        self._websocket = picows_protocol(_Passed(link, is_compressed=passed.window_bits > 0), limits)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none by their type.
        tcp, websocket = cast("asyncio.Transport", transport), self._websocket
        del self._websocket
        websocket.connection_made(tcp)
        tcp.set_protocol(websocket)
        cast("memoryview", websocket.get_buffer(len(_REQUEST)))[: len(_REQUEST)] = _REQUEST
        websocket.buffer_updated(len(_REQUEST))


class _Passed(PicowsAnswers):
    """A connection that is a link already."""

    __slots__ = ("_opening",)

    def __init__(self, link: WebSocketTransport, *, is_compressed: bool) -> None:
        super().__init__(is_compressed=is_compressed)
        self._link = ref(link)
        self._opening: WebSocketTransport | None = link

    def answer(self, request: WSUpgradeRequest) -> WSUpgradeResponseWithListener:
        link, self._opening = self._opening, None
        usual = WSUpgradeResponse.create_101_response({})
        empty = _NoAnswer()
        empty.version, empty.status, empty.headers, empty.body = usual.version, usual.status, usual.headers, usual.body
        return WSUpgradeResponseWithListener(empty, link)


class _NoAnswer(WSUpgradeResponse):
    """The client has its answer already."""

    def to_bytes(self) -> bytearray:
        return bytearray()
