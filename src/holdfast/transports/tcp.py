"""TCP, both ends: each payload follows its length in 4 big-endian bytes.

The client's first frame is a preface: the names of the subprotocols it supports, separated by commas. The server's
first frame is the name it chose, or a close frame. The top bit of a length marks the close frame: a 16-bit code, then a
reason in UTF-8. The receiver of a close frame answers with one and closes the socket, so that nothing sent before it is
lost.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Sequence
from ssl import SSLContext, create_default_context
from typing import Final, cast
from urllib.parse import urlsplit

from holdfast.core.connection import Traffic
from holdfast.transports.http_upgrade import Directions, bad_request
from holdfast.transports.links import (
    CLOSE_BYTES_MAX,
    abort,
    failed,
    ignored,
    pack_close,
    peer_name,
    tell,
    traffic,
    unpack_close,
    unreachable,
)
from holdfast.transports.listening import PendingConnection, PendingConnections, SocketListener
from holdfast.transports.port import (
    BROKEN,
    GOING_AWAY,
    INTERNAL,
    TOO_BIG,
    UNSUPPORTED,
    VANISHED,
    Accept,
    DialError,
    Listener,
    Receiver,
    Subprotocol,
    Transport,
    TransportLimits,
    agree,
)
from holdfast.transports.proxies import Address, TrustedProxies

_HEAD = struct.Struct(">I")
_CLOSE_BIT = 1 << 31
# A subprotocol's name has some twenty bytes; nothing larger is read before the handshake is complete.
_PREFACE_BYTES_MAX = 256
# The first bytes of HTTP requests. As the length of a frame each would be more than a gigabyte.
_HTTP = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"TRAC", b"CONN", b"PRI "})


class TcpTransport(asyncio.Protocol):
    """One link: framing and closing. The subclasses do the handshake."""

    kind: Final = "tcp"
    is_compressed: Final = False
    datagram_bytes_max: Final = 0
    peer: str
    # The client that a proxy named (PROXY protocol); None means the peer of the socket.
    client: Address | None = None
    subprotocol: Subprotocol
    _tcp: asyncio.Transport

    def __init__(self, accept: Accept, subprotocols: Sequence[Subprotocol], limits: TransportLimits) -> None:
        self._accept = accept
        self._subprotocols = subprotocols
        self._limits = limits
        self._receiver: Receiver | None = None
        self._deadline: asyncio.TimerHandle | None = None
        # The handler of the next payload: the handshake, then the receiver.
        self._deliver: Callable[[bytes], None] = self._shake_hands
        self._payload_bytes_max = _PREFACE_BYTES_MAX
        self.is_encrypted = False
        # The beginning of an incomplete frame, and how many bytes it needs.
        self._partial = bytearray()
        self._partial_bytes_wanted = 0
        # Whether the start of the next frame is no longer known.
        self._is_deaf = False
        # Set as soon as the end is certain: from then on nothing is sent or received.
        self._end: tuple[int, str] | None = None
        self._is_lost = False

    @property
    def buffered_bytes(self) -> int:
        return 0 if self._is_lost else self._tcp.get_write_buffer_size()

    @property
    def is_up(self) -> bool:
        return self._end is None and not self._tcp.is_closing()

    @property
    def traffic(self) -> Traffic:
        return Traffic() if self._is_lost else traffic(self._tcp)

    def send(self, payload: bytes) -> None:
        if self._end is None:
            self._tcp.write(_HEAD.pack(len(payload)) + payload)

    def send_datagram(self, payload: bytes) -> bool:
        return False

    def close(self, code: int, reason: str) -> None:
        if self._end is None:
            self._end = (code, reason)
            self._say_close(code, reason)
            # The peer's answer has not arrived yet.
            self._tcp.resume_reading()

    def abort(self) -> None:
        self._end = self._end or (VANISHED, "")
        abort(self._tcp)

    def pause_reading(self) -> None:
        if self._end is None:
            self._tcp.pause_reading()

    def resume_reading(self) -> None:
        if self._end is None:
            self._tcp.resume_reading()

    # Opening

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected. The dialer or the listener limits the time of the handshake."""
        self._tcp = cast("asyncio.Transport", transport)
        self.peer = peer_name(self.client or self._tcp.get_extra_info("peername"))
        self.is_encrypted = self._tcp.get_extra_info("ssl_object") is not None
        self._tcp.set_write_buffer_limits(high=self._limits.write_high_bytes)

    def _shake_hands(self, payload: bytes) -> None:
        raise NotImplementedError

    def _open(self, subprotocol: Subprotocol) -> None:
        self.subprotocol = subprotocol
        self._payload_bytes_max = self._limits.payload_bytes_max
        self._receiver = self._accept()
        self._deliver = self._receiver.received
        self._receiver.opened(self)

    # Receiving

    def data_received(self, data: bytes) -> None:
        if self._partial:
            self._partial += data
            if len(self._partial) < self._partial_bytes_wanted:
                return
            data = bytes(self._partial)
            self._partial = bytearray()
        start, end, wanted = 0, len(data), _HEAD.size
        while end - start >= _HEAD.size and not self._is_deaf:
            (length,) = _HEAD.unpack_from(data, start)
            is_payload = length <= self._payload_bytes_max
            if not is_payload:
                length -= _CLOSE_BIT
                if not 0 <= length <= CLOSE_BYTES_MAX:
                    self._refuse_head(data[start : start + _HEAD.size])
                    break
            wanted = _HEAD.size + length
            if end - start < wanted:
                break
            body = data[start + _HEAD.size : start + wanted]
            start, wanted = start + wanted, _HEAD.size
            if not is_payload:
                self._on_close(body)
            elif self._end is None:
                try:
                    self._deliver(body)
                except Exception:  # noqa: BLE001 - as `tell` does, without the cost of its call
                    failed(self)
        if not self._is_deaf:
            self._partial += data[start:]
            self._partial_bytes_wanted = wanted

    def _refuse_head(self, _: bytes) -> None:
        """A frame is too large, or this is not a frame."""
        self._is_deaf = True
        self.close(TOO_BIG, f"a payload may have at most {self._payload_bytes_max} bytes")

    # Closing

    def _on_close(self, body: bytes) -> None:
        if self._end is None:
            self._end = unpack_close(body)
            self._say_close(*self._end)
        # Not from inside a read: TLS fails on it, in asyncio and in uvloop, if the peer has already disconnected.
        asyncio.get_running_loop().call_soon(self._tcp.close)

    def _say_close(self, code: int, reason: str) -> None:
        body = pack_close(code, reason)
        self._tcp.write(_HEAD.pack(_CLOSE_BIT | len(body)) + body)
        self._deadline = asyncio.get_running_loop().call_later(self._limits.close_s, self.abort)

    def eof_received(self) -> None:
        """The peer closed its side; it will not read anything more."""
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if self._deadline is not None:
            self._deadline.cancel()
        self._end = self._end or (VANISHED, "")
        if self._receiver is not None:
            tell(self, self._receiver.lost, *self._end)

    def pause_writing(self) -> None:
        if self._receiver is not None:
            tell(self, self._receiver.congested)

    def resume_writing(self) -> None:
        if self._receiver is not None:
            tell(self, self._receiver.drained)


class AcceptedTransport(TcpTransport):
    """The server's end: it waits for the preface and chooses a subprotocol."""

    pending: PendingConnection | None = None
    directions: Directions = staticmethod(lambda _: "")

    def __init__(
        self,
        listener: SocketListener,
        accept: Accept,
        subprotocols: Sequence[Subprotocol],
        limits: TransportLimits,
    ) -> None:
        super().__init__(accept, subprotocols, limits)
        self._listener = listener

    def _open(self, subprotocol: Subprotocol) -> None:
        self._arrived()
        super()._open(subprotocol)

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)
        # Its receiver knows this link: a cycle would keep both until garbage is collected.
        self._receiver, self._deliver = None, ignored

    def _arrived(self) -> None:
        if self.pending is not None:
            self.pending.over()
            self.pending = None

    def _refuse_head(self, head: bytes) -> None:
        if self._receiver is not None or head not in _HTTP:
            super()._refuse_head(head)
            return
        self._is_deaf = True
        self._end = (UNSUPPORTED, "HTTP is not supported on this port")
        if self.pending is not None:
            self.pending.not_understood()
        text = f"This port is for Holdfast's TCP protocol, not for HTTP. {self.directions('')}"
        self._tcp.write(bad_request(text.rstrip()))
        # As in `_on_close`.
        asyncio.get_running_loop().call_soon(self._tcp.close)

    def _shake_hands(self, payload: bytes) -> None:
        subprotocol = agree(payload.decode("utf-8", "replace").split(","), self._subprotocols)
        if self._listener.closed:
            self.close(GOING_AWAY, "the server is stopping")
        elif subprotocol is None:
            self.close(UNSUPPORTED, f"unsupported protocol; use one of {_names(self._subprotocols)}")
        else:
            self.send(subprotocol.name.encode())
            self._open(subprotocol)


class _DialedTransport(TcpTransport):
    """The client's end: it sends the preface and waits for the choice."""

    def __init__(self, accept: Accept, subprotocols: Sequence[Subprotocol], limits: TransportLimits) -> None:
        super().__init__(accept, subprotocols, limits)
        self._settled = asyncio.Event()

    async def wait_open(self) -> None:
        """Wait until the server has chosen; `DialError` if it did not."""
        try:
            await self._settled.wait()
        except asyncio.CancelledError:
            self.abort()  # nothing else would close the link
            raise
        if self._receiver is None:
            code, reason = self._end or (VANISHED, "")
            message = f"{self.peer} ended the handshake with {code} {reason}".rstrip()
            if code == VANISHED and not self.is_encrypted:
                message += "; a server with a certificate is reached with tcps://"
            raise DialError(message, retry=code in {VANISHED, GOING_AWAY, INTERNAL})

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(_names(self._subprotocols).encode())

    def _shake_hands(self, payload: bytes) -> None:
        subprotocol = agree([payload.decode("utf-8", "replace")], self._subprotocols)
        if subprotocol is None:
            self.close(BROKEN, "the chosen protocol was not offered")
        else:
            self._settled.set()
            self._open(subprotocol)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._settled.set()


def _names(subprotocols: Sequence[Subprotocol]) -> str:
    return ",".join(subprotocol.name for subprotocol in subprotocols)


async def listen(
    accept: Accept,
    *,
    host: str,
    port: int,
    sockets: Sequence[socket.socket] = (),
    subprotocols: Sequence[Subprotocol],
    limits: TransportLimits,
    ssl: SSLContext | None = None,
    proxies: TrustedProxies | None = None,
    pending_connections: PendingConnections | None = None,
    directions: Directions = lambda _: "",
) -> Listener:
    """Accept clients with this framing, with TLS if there is a context; HTTP requests get `directions`."""
    listener = SocketListener(pending_connections or PendingConnections(limits), proxies)

    def accepted(pending: PendingConnection) -> AcceptedTransport:
        transport = AcceptedTransport(listener, accept, subprotocols, limits)
        transport.pending, transport.client = pending, pending.client
        transport.directions = directions
        return transport

    await listener.open(accepted, host, port, limits=limits, ssl=ssl, sockets=sockets)
    return listener


async def dial(
    receiver: Receiver,
    url: str,
    *,
    subprotocols: Sequence[Subprotocol],
    limits: TransportLimits,
    ssl: SSLContext | None = None,
) -> Transport:
    """Connect to tcp://host:port, or to tcps://host:port with TLS; `opened` has been called when it returns."""
    host, port, context = _endpoint(url, ssl)
    transport = _DialedTransport(lambda: receiver, subprotocols, limits)
    try:
        async with asyncio.timeout(limits.handshake_s):
            await asyncio.get_running_loop().create_connection(lambda: transport, host, port, ssl=context)
            await transport.wait_open()
    except DialError:
        raise
    except OSError as error:
        raise unreachable(url, error) from error
    return transport


def _endpoint(url: str, ssl: SSLContext | None) -> tuple[str, int, SSLContext | None]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise DialError(f"{url} is not a URL: {error}", retry=False) from error
    if parts.scheme not in {"tcp", "tcps"} or not host or not port:
        raise DialError(f"{url} should look like tcp://host:port", retry=False)
    return host, port, (ssl or create_default_context()) if parts.scheme == "tcps" else None
