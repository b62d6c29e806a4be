"""Links over WebSocket, on picows: one payload is one unfragmented message, text or binary as the dialect says.

picows is a frame pump; what RFC 6455 asks beyond frames is done here: the choice of a sub-protocol, the closing
handshake and its deadline, and the refusal of what we do not speak. Two traps shape this file: aiofastnet's server, its
default, spins when the process is out of file descriptors; without aiofastnet, a server's `send` lends uvloop a view of
a buffer that it reuses, for messages above 8 KiB, where `send_reuse_external_bytearray` hands over a copy.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import Any, Final

from picows import (
    WSError,
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeRequest,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
    ws_connect,
    ws_create_server,
)

from holdfast.transports.closing import failed, shorten, tell, unpack_close
from holdfast.transports.port import (
    BROKEN,
    NO_STATUS,
    NORMAL,
    NOT_TEXT,
    UNSUPPORTED,
    VANISHED,
    Accept,
    Dialect,
    DialError,
    Listener,
    Receiver,
    Transport,
    TransportLimits,
    agree,
)
from holdfast.transports.sockets import SocketListener, abort, peer_name, server_options
from holdfast.transports.upgrade import PROTOCOL_HEADER, acceptance, agreed, dial_error, stopping

# picows' smallest. It doubles with need up to twice the largest payload, and an idle client needs no more.
_READ_BUFFER_BYTES = 2048
# Above this, picows' `send` on a server does not copy (see above).
_COPIED_BYTES_MAX = 8192
# What picows wants to write its header into.
_HEADROOM = bytes(14)

# picows reports each connection at INFO and each fault of a peer at ERROR: any stranger could fill a disk. What matters
# of it reaches the receiver as the code and reason of `lost`.
_picows_log = logging.getLogger(f"{__name__}.picows")
_picows_log.setLevel(logging.CRITICAL)


class WebSocketTransport(WSListener):
    """One link: the port's transport and picows' listener in one object, to make no more calls than bare picows."""

    kind: Final = "websocket"
    peer: str
    dialect: Dialect
    _ws: WSTransport
    _deliver: Callable[[bytes], None]

    def __init__(self, accept: Accept, limits: TransportLimits) -> None:
        self._accept = accept
        self._limits = limits
        self._receiver: Receiver | None = None
        self._tcp: asyncio.Transport | None = None
        self._opcode = WSMsgType.BINARY
        self._is_congested = False
        self._deadline: asyncio.TimerHandle | None = None
        self._hearing: asyncio.Task[None] | None = None
        # Known as soon as the end is certain: from then on nothing is sent or received.
        self._end: tuple[int, str] | None = None

    @property
    def buffered_bytes(self) -> int:
        """See the port."""
        return 0 if self._ws.is_disconnected else self._ws.underlying_transport.get_write_buffer_size()

    def send(self, payload: bytes) -> None:
        """See the port."""
        if self._end is not None:
            return
        if len(payload) <= _COPIED_BYTES_MAX:
            self._ws.send(self._opcode, payload)
        else:
            self._ws.send_reuse_external_bytearray(self._opcode, bytearray(_HEADROOM + payload), len(_HEADROOM))

    def close(self, code: int, reason: str) -> None:
        """See the port."""
        if self._end is None:
            self._end = (code, reason)
            self._say_close(code, reason)
            # The peer's answer is still to come.
            self._ws.underlying_transport.resume_reading()

    def abort(self) -> None:
        """See the port; a link that is still being dialed is given up."""
        self._end = self._end or (VANISHED, "")
        if self._tcp is not None:
            abort(self._tcp)

    def pause_reading(self) -> None:
        """See the port."""
        if self._end is None:
            self._ws.underlying_transport.pause_reading()

    def resume_reading(self) -> None:
        """See the port."""
        if self._end is None:
            self._ws.underlying_transport.resume_reading()

    def on_ws_connected(self, transport: WSTransport) -> None:
        """The handshake is done: open the link, unless its dialer has given up."""
        self._ws = transport
        self._tcp = transport.underlying_transport
        self.peer = peer_name(self._tcp.get_extra_info("peername"))
        self._tcp.set_write_buffer_limits(high=self._limits.write_high_bytes)
        if self._end is None:
            tell(self, self._open)
        else:
            self._tcp.abort()

    def _open(self) -> None:
        self._receiver = self._accept()
        self._deliver = self._receiver.received
        if self.dialect.text:
            self._deliver = self._deliver_text
            self._opcode = WSMsgType.TEXT
        self._receiver.opened(self)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Deliver a payload, if that is what came."""
        if (
            frame.msg_type is self._opcode
            and self._end is None
            # picows closes by itself after a malformed frame, and then delivers even what it complained about.
            and not transport.is_close_frame_sent
            and frame.fin
            and not (frame.rsv1 or frame.rsv2 or frame.rsv3)
        ):
            try:
                self._deliver(frame.get_payload_as_bytes())
            except Exception:  # noqa: BLE001 - as `tell` does, without the cost of its call
                failed(self)
        else:
            self._on_other_frame(transport, frame)

    def _deliver_text(self, payload: bytes) -> None:
        assert self._receiver is not None
        try:
            payload.decode()
        except UnicodeDecodeError:
            self.close(NOT_TEXT, "the text is not UTF-8")
        else:
            self._receiver.received(payload)

    def _on_other_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if kind is WSMsgType.CLOSE:
            self._on_close(transport, frame)
        elif self._end is not None or transport.is_close_frame_sent:
            pass
        elif frame.rsv1 or frame.rsv2 or frame.rsv3:
            self.close(BROKEN, "a reserved bit is set, and no extension was agreed on")
        elif kind is WSMsgType.CONTINUATION or not frame.fin:
            self.close(BROKEN, "fragmented messages are not spoken here")
        elif kind is WSMsgType.PING:
            # A peer that pings and does not read gets no pongs: they would pile up here.
            if not self._is_congested:
                transport.send_pong(frame.get_payload_as_bytes())
        elif kind is not WSMsgType.PONG:
            self.close(UNSUPPORTED, f"{self.dialect.name} is {'text' if self.dialect.text else 'binary'}")

    def _on_close(self, transport: WSTransport, frame: WSFrame) -> None:
        if self._end is None and not transport.is_close_frame_sent:
            code, reason = self._end = unpack_close(frame.get_payload_as_bytes())
            self._say_close(NORMAL if code == NO_STATUS else code, reason)
        # Not from inside a read: with TLS, closing reads on, back into picows' parser.
        asyncio.get_running_loop().call_soon(transport.disconnect)

    def _say_close(self, code: int, reason: str) -> None:
        # The enumeration only names codes: picows sends and takes any.
        self._ws.send_close(code, shorten(reason))  # type: ignore[arg-type]
        self._deadline = asyncio.get_running_loop().call_later(self._limits.close_s, self.abort)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        """The socket is gone."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._end = self._end or self._end_by_picows(transport)
        if self._receiver is not None:
            tell(self, self._receiver.lost, *self._end)

    def _end_by_picows(self, transport: WSTransport) -> tuple[int, str]:
        # It closes by itself only after a malformed frame.
        if not transport.is_close_frame_sent or (said := transport.close_handshake.sent) is None:
            return VANISHED, ""
        if transport.is_client_side:
            # It keeps the error for whoever waits for the end; unheard, asyncio would report it as forgotten.
            self._hearing = asyncio.create_task(_hear_out(transport))
        return int(said.code.value), said.reason

    def pause_writing(self) -> None:
        """The write buffer is above its high-water mark."""
        self._is_congested = True
        if self._receiver is not None:
            tell(self, self._receiver.congested)

    def resume_writing(self) -> None:
        """The write buffer fell below its low-water mark."""
        self._is_congested = False
        if self._receiver is not None:
            tell(self, self._receiver.drained)


async def _hear_out(transport: WSTransport) -> None:
    with contextlib.suppress(WSError):
        await transport.wait_disconnected()


async def listen(  # noqa: PLR0913 - the port asks for all of them, by name
    accept: Accept,
    *,
    host: str,
    port: int,
    dialects: Sequence[Dialect],
    limits: TransportLimits,
    ssl: SSLContext | None = None,
) -> Listener:
    """Accept WebSocket clients, at any path; other HTTP requests get a short answer."""
    listener = SocketListener()

    def answer(request: WSUpgradeRequest) -> WSUpgradeResponseWithListener:
        agreement = stopping() if listener.closed else agreed(request, dialects)
        if not isinstance(agreement, Dialect):
            return WSUpgradeResponseWithListener(agreement, None)
        transport = WebSocketTransport(accept, limits)
        transport.dialect = agreement
        return WSUpgradeResponseWithListener(acceptance(agreement), transport)

    server = await ws_create_server(answer, host, port, **_picows_options(limits), **server_options(limits, ssl))
    listener.serves(server)
    return listener


async def dial(
    receiver: Receiver,
    url: str,
    *,
    dialects: Sequence[Dialect],
    limits: TransportLimits,
    ssl: SSLContext | None = None,
) -> Transport:
    """Connect to ws://… or wss://…; `opened` has been called when it returns."""
    transport = WebSocketTransport(lambda: receiver, limits)

    def answered(_: WSUpgradeRequest, response: WSUpgradeResponse) -> WSListener:
        dialect = agree([response.headers.get(PROTOCOL_HEADER, "")], dialects)
        if dialect is None:
            raise DialError(f"{url} chose none of the sub-protocols that were offered", retry=False)
        transport.dialect = dialect
        return transport

    try:
        async with asyncio.timeout(limits.handshake_s):
            _, listener = await ws_connect(
                answered,
                url,
                ssl_context=ssl,
                extra_headers={PROTOCOL_HEADER: ", ".join(dialect.name for dialect in dialects)},
                max_redirects=0,
                **_picows_options(limits),
            )
    except BaseException as error:
        transport.abort()  # the handshake may still succeed, and nobody would hold the link
        if isinstance(error, OSError | ValueError | WSError) and not isinstance(error, DialError):
            raise dial_error(url, error) from error
        raise
    if listener is None:  # so picows reports a peer that hung up
        raise DialError(f"{url} hung up without an answer")
    return transport


def _picows_options(limits: TransportLimits) -> dict[str, Any]:
    return {
        "websocket_handshake_timeout": limits.handshake_s,
        "logger_name": _picows_log,
        "enable_auto_pong": False,
        "max_frame_size": limits.payload_bytes_max,
        "read_buffer_init_size": _READ_BUFFER_BYTES,
        "use_aiofastnet": False,
    }
