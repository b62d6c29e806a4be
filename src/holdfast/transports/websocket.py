"""WebSocket on picows: listening and dialing; `websocket_link.py` has the links.

Two problems shape this file. aiofastnet's server, which picows would use by default, spins when the process is out of
file descriptors. And picows reads one frame ahead: a close frame is answered only after the next frame was parsed, and
if that is malformed, with an error about it. See `_Upgrade.error`.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from ssl import SSLContext
from weakref import ref

from picows import (
    WSError,
    WSListener,
    WSUpgradeRequest,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
    ws_connect,
)

from holdfast.transports import deflate
from holdfast.transports.http_upgrade import (
    EXTENSIONS_HEADER,
    PROTOCOL_HEADER,
    Directions,
    Origins,
    RequestHead,
    RequestReader,
    agreed,
    dial_error,
    names_of,
    refusal,
)
from holdfast.transports.listening import PendingConnection, PendingConnections, SocketListener
from holdfast.transports.picows_protocol import READ_BUFFER_BYTES, PicowsAnswers, picows_protocol
from holdfast.transports.port import (
    Accept,
    DialError,
    Listener,
    Receiver,
    Subprotocol,
    Transport,
    TransportLimits,
    agree,
)
from holdfast.transports.proxies import TrustedProxies
from holdfast.transports.websocket_link import DeflatedWebSocketTransport, WebSocketTransport

# picows logs each connection at INFO and each protocol error of a peer at ERROR: any peer could fill a disk. The
# receiver gets the relevant part as the code and reason of `lost`.
_picows_log = logging.getLogger(f"{__name__}.picows")
_picows_log.setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocketEndpoint:
    """What all connections of one listener share."""

    listener: SocketListener
    accept: Accept
    subprotocols: Sequence[Subprotocol]
    limits: TransportLimits
    origins: Origins | None
    proxies: TrustedProxies | None
    compression: bool
    directions: Directions

    def receive(self, pending: PendingConnection) -> RequestReader:
        return RequestReader(pending, partial(self._open, pending), self.subprotocols, self.directions)

    def _open(self, pending: PendingConnection, request: RequestHead) -> asyncio.BufferedProtocol:
        compression = deflate.agreed(request.all("sec-websocket-extensions")) if self.compression else None
        return picows_protocol(_Upgrade(self, pending, compression), self.limits)


class _Upgrade(PicowsAnswers):
    """A connection of a client."""

    __slots__ = ("_compression", "_endpoint", "_pending")

    def __init__(
        self, endpoint: WebSocketEndpoint, pending: PendingConnection, compression: deflate.Agreement | None
    ) -> None:
        super().__init__(is_compressed=compression is not None)
        self._endpoint = endpoint
        self._pending = pending
        self._compression = compression

    def over(self) -> None:
        self._pending.over()

    def answer(self, request: WSUpgradeRequest) -> WSUpgradeResponseWithListener:
        endpoint, compression = self._endpoint, self._compression
        if endpoint.listener.closed:
            stopping = refusal(HTTPStatus.SERVICE_UNAVAILABLE, "This server is stopping.")
            return WSUpgradeResponseWithListener(stopping, None)
        agreement = agreed(request, endpoint.subprotocols, endpoint.origins)
        if not isinstance(agreement, Subprotocol):
            return WSUpgradeResponseWithListener(agreement, None)
        headers = {PROTOCOL_HEADER: agreement.name} if agreement.name else {}
        link = (WebSocketTransport if compression is None else DeflatedWebSocketTransport)(
            endpoint.accept, endpoint.limits, client=self._pending.client, proxies=endpoint.proxies
        )
        if compression is not None and isinstance(link, DeflatedWebSocketTransport):
            headers[EXTENSIONS_HEADER] = compression.answer
            link.window_bits = compression.window_bits
        link.subprotocol = agreement
        self._link = ref(link)
        self.over()
        return WSUpgradeResponseWithListener(WSUpgradeResponse.create_101_response(headers), link)


async def listen(
    accept: Accept,
    *,
    host: str,
    port: int,
    sockets: Sequence[socket.socket] = (),
    subprotocols: Sequence[Subprotocol],
    limits: TransportLimits,
    ssl: SSLContext | None = None,
    origins: Origins | None = None,
    proxies: TrustedProxies | None = None,
    pending_connections: PendingConnections | None = None,
    compression: bool = False,
    directions: Directions = lambda _: "",
) -> Listener:
    """Accept WebSocket clients, at any path; other HTTP requests get a short answer, with `directions`.

    With `compression`, permessage-deflate is used with clients that offer it. The limit of a payload then applies to
    the message before and after it is inflated.
    """
    listener = SocketListener(pending_connections or PendingConnections(limits), proxies)
    endpoint = WebSocketEndpoint(
        listener=listener,
        accept=accept,
        subprotocols=subprotocols,
        limits=limits,
        origins=origins,
        proxies=proxies,
        compression=compression,
        directions=directions,
    )
    await listener.open(endpoint.receive, host, port, limits=limits, ssl=ssl, sockets=sockets)
    return listener


async def dial(
    receiver: Receiver,
    url: str,
    *,
    subprotocols: Sequence[Subprotocol],
    limits: TransportLimits,
    ssl: SSLContext | None = None,
) -> Transport:
    """Connect to ws://… or wss://…; `opened` has been called when it returns."""
    transport = WebSocketTransport(lambda: receiver, limits)

    def answered(_: WSUpgradeRequest, response: WSUpgradeResponse) -> WSListener:
        subprotocol = agree([response.headers.get(PROTOCOL_HEADER, "")], subprotocols)
        if subprotocol is None:
            raise DialError(f"{url} chose none of the offered sub-protocols", retry=False)
        transport.subprotocol = subprotocol
        return transport

    try:
        async with asyncio.timeout(limits.handshake_s):
            _, listener = await ws_connect(
                answered,
                url,
                ssl_context=ssl,
                extra_headers={PROTOCOL_HEADER: names_of(subprotocols)},
                max_redirects=0,
                websocket_handshake_timeout=limits.handshake_s,
                logger_name=_picows_log,
                enable_auto_pong=False,
                max_frame_size=limits.payload_bytes_max,
                read_buffer_init_size=READ_BUFFER_BYTES,
                use_aiofastnet=False,
            )
    except BaseException as error:
        transport.abort()  # the handshake may still succeed, and nothing would close the link
        if isinstance(error, OSError | ValueError | WSError) and not isinstance(error, DialError):
            raise dial_error(url, error) from error
        raise
    if listener is None:  # picows' result for a peer that disconnected
        raise DialError(f"{url} closed the connection without an answer")
    return transport
