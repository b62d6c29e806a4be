"""Links over TCP, from both ends: how they open. What follows is in `tcp_link.py`.

The client's first frame is a preface, the names of the dialects it speaks with commas between them; the server's first
frame is the name it chose, or a close frame. On an encrypted link the two are the messages of a handshake, and the
names travel in those; see `secure.py`.
"""

import asyncio
from collections.abc import Sequence
from ssl import SSLContext, create_default_context
from urllib.parse import urlsplit

from holdfast.transports.arrivals import Arrival, Arrivals
from holdfast.transports.forwarded import TrustedProxies
from holdfast.transports.listening import SocketListener
from holdfast.transports.no_page import Directions, not_http
from holdfast.transports.noise import Forged, Responder
from holdfast.transports.port import (
    BROKEN,
    GOING_AWAY,
    INTERNAL,
    POLICY,
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
from holdfast.transports.secure import NAME, OPEN, Greeting, Lock, answer, greeted
from holdfast.transports.sockets import unreachable
from holdfast.transports.tcp_link import TcpTransport

# How HTTP requests begin. As the length of a frame each would be more than a gigabyte.
_HTTP = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"TRAC", b"CONN", b"PRI "})


class AcceptedTransport(TcpTransport):
    """The server's end: it waits for the preface and chooses."""

    arrival: Arrival | None = None
    directions: Directions = staticmethod(lambda _: "")

    def __init__(
        self,
        listener: SocketListener,
        accept: Accept,
        dialects: Sequence[Dialect],
        limits: TransportLimits,
        lock: Lock,
    ) -> None:
        super().__init__(accept, dialects, limits)
        self._listener = listener
        self._lock = lock

    def _open(self, dialect: Dialect) -> None:
        self._arrived()
        super()._open(dialect)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._arrived()
        super().connection_lost(exc)

    def _arrived(self) -> None:
        if self.arrival is not None:
            self.arrival.over()
            self.arrival = None

    def _refuse_head(self, head: bytes) -> None:
        if self._receiver is not None or head not in _HTTP:
            super()._refuse_head(head)
            return
        self._is_deaf = True
        self._end = (UNSUPPORTED, "this is HTTP")
        if self.arrival is not None:
            self.arrival.not_understood()
        text = f"This port speaks Holdfast's own protocol over TCP, and no HTTP. {self.directions('')}"
        self._tcp.write(not_http(text.rstrip()))
        # As in `_on_close`.
        asyncio.get_running_loop().call_soon(self._tcp.close)

    def _shake_hands(self, payload: bytes) -> None:
        if self._lock.keys and payload.startswith(NAME):
            try:
                preface, responder = greeted(self._lock.keys, payload)
            except Forged:
                self.close(POLICY, "this server has another key than the one this link was made for")
            else:
                self._choose(preface, responder)
        elif self._lock.is_plain_welcome or self.is_encrypted:
            self._choose(payload, None)
        else:
            self.close(UNSUPPORTED, "links are encrypted here: connect with this server's public key")

    def _choose(self, preface: bytes, responder: Responder | None) -> None:
        dialect = agree(preface.decode("utf-8", "replace").split(","), self._dialects)
        if self._listener.closed:
            dialect = None
        choice = dialect.name.encode() if dialect is not None else b""
        if responder is not None:
            frame, tunnel = answer(responder, choice)
            self.send(frame)
            self._dig(tunnel)
        elif choice:
            self.send(choice)
        if dialect is not None:
            self._open(dialect)
        elif self._listener.closed:
            self.close(GOING_AWAY, "the server is stopping")
        else:
            self.close(UNSUPPORTED, f"spoken here: {_names(self._dialects)}")


class _DialedTransport(TcpTransport):
    """The client's end: it sends the preface and waits for the choice."""

    def __init__(
        self, accept: Accept, dialects: Sequence[Dialect], limits: TransportLimits, server_key: bytes | None
    ) -> None:
        super().__init__(accept, dialects, limits)
        preface = _names(dialects).encode()
        self._has_pinned = server_key is not None
        # It holds a secret of this link: forgotten as soon as it is answered.
        self._greeting = Greeting(server_key, preface) if server_key is not None else None
        self._first_frame = preface if self._greeting is None else self._greeting.frame
        self._is_impostor = False
        self._settled = asyncio.Event()

    async def wait_open(self) -> None:
        """Until the server has chosen; raises `DialError` if it did not."""
        try:
            await self._settled.wait()
        except asyncio.CancelledError:
            self.abort()  # nobody is left to hold the link
            raise
        if self._receiver is None:
            raise self._refusal()

    def _refusal(self) -> DialError:
        code, reason = self._end or (VANISHED, "")
        # Whatever is said before the tunnel is there, anybody on the way can have said. It must not end a session that
        # tries to come back.
        if self._is_impostor or (code == POLICY and self._has_pinned):
            return DialError(f"{self.peer} does not have the key that is pinned; nothing was said to it")
        if code == UNSUPPORTED and self._has_pinned and self._tunnel is None:
            return DialError(f"{self.peer} does not encrypt: it has no key, and one is pinned")
        is_proven = self._tunnel is not None or not self._has_pinned
        may_recover = code in {VANISHED, GOING_AWAY, INTERNAL} or not is_proven
        return DialError(f"{self.peer} ended the handshake with {code} {reason}".rstrip(), retry=may_recover)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(self._first_frame)

    def _shake_hands(self, payload: bytes) -> None:
        choice = payload
        if self._greeting is not None:
            greeting, self._greeting = self._greeting, None
            try:
                choice, tunnel = greeting.answered(payload)
            except Forged:
                self._is_impostor = True
                self.abort()
                return
            self._dig(tunnel)
            if not choice:
                return  # a close frame follows, and says why
        dialect = agree([choice.decode("utf-8", "replace")], self._dialects)
        if dialect is None:
            self.close(BROKEN, "the choice was not on offer")
        else:
            self._settled.set()
            self._open(dialect)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._settled.set()


def _names(dialects: Sequence[Dialect]) -> str:
    return ",".join(dialect.name for dialect in dialects)


async def listen(  # noqa: PLR0913 - the port asks for all of them, by name
    accept: Accept,
    *,
    host: str,
    port: int,
    dialects: Sequence[Dialect],
    limits: TransportLimits,
    ssl: SSLContext | None = None,
    lock: Lock = OPEN,
    proxies: TrustedProxies | None = None,
    arrivals: Arrivals | None = None,
    directions: Directions = lambda _: "",
) -> Listener:
    """Accept clients that speak this framing; the lock says which of them must be encrypted, and with which key.

    Whoever speaks HTTP is told where to go, with `directions`.
    """
    listener = SocketListener(arrivals or Arrivals(limits), proxies)

    def accepted(arrival: Arrival) -> AcceptedTransport:
        transport = AcceptedTransport(listener, accept, dialects, limits, lock)
        transport.arrival, transport.client = arrival, arrival.client
        transport.directions = directions
        return transport

    await listener.open(accepted, host, port, limits=limits, ssl=ssl)
    return listener


async def dial(  # noqa: PLR0913 - the port asks for all of them, by name
    receiver: Receiver,
    url: str,
    *,
    dialects: Sequence[Dialect],
    limits: TransportLimits,
    ssl: SSLContext | None = None,
    server_key: bytes | None = None,
) -> Transport:
    """Connect to tcp://host:port, or to tcps://host:port with TLS; `opened` has been called when it returns.

    With the server's public key the link is encrypted, or there is none: never is anything said in the clear.
    """
    host, port, context = _endpoint(url, ssl)
    transport = _DialedTransport(lambda: receiver, dialects, limits, server_key)
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
