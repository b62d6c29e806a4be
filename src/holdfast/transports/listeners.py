"""The ports of a server: `WebSocket`, `Tcp` (both with `Tls` certificates), `Enet`, `Udp`; `Listeners` opens them."""

import asyncio
import os
import re
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from ssl import OP_NO_RENEGOTIATION, PROTOCOL_TLS_SERVER, SSLContext, SSLError, SSLObject, TLSVersion
from typing import ClassVar, NoReturn, Protocol

from holdfast.core.addresses import is_loopback
from holdfast.logs import get_logger
from holdfast.transports import enet, tcp, websocket
from holdfast.transports.http_upgrade import Directions, Origins
from holdfast.transports.links import peer_name
from holdfast.transports.listening import PendingConnections, SocketListener
from holdfast.transports.port import Accept, Listener, Subprotocol, TransportLimits
from holdfast.transports.proxies import TrustedProxies
from holdfast.transports.udp.server import UdpPaths
from holdfast.transports.udp.sockets import listen as udp_listen

_log = get_logger("holdfast.server")

_PORT = re.compile(r":[0-9]+$")
_EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104  # nosec


class Tls:
    """A certificate chain and its key, as PEM files. Supports TLS 1.3, and 1.2 without its CBC suites.

    Give it to `WebSocket(tls=…)`, `Tcp(tls=…)` and `HttpApi(tls=…)`. When the files change, new handshakes use the new
    certificate; open connections are not affected.
    """

    def __init__(self, certificate: str | os.PathLike[str], key: str | os.PathLike[str]) -> None:
        """`ValueError` if the files cannot be read, or do not match."""
        self.certificate = Path(certificate)
        self.key = Path(key)
        self._stamp = self._files()
        # A context in use is never changed: a complete new one replaces it.
        self._current = self._read()
        self.context = self._read()
        """For listeners: it always presents the current certificate."""
        self.context.sni_callback = self._show_current

    def reload(self) -> bool:
        """Reload the files; if they are invalid, the previous certificate stays in use, and the log says why."""
        self._stamp = self._files()
        try:
            self._current = self._read()
        except ValueError as error:
            _log.warning("the new certificate is invalid; the previous one stays in use", error=error)
            return False
        _log.info("reloaded the certificate", file=str(self.certificate))
        return True

    def reload_if_changed(self) -> None:
        if self._files() != self._stamp:
            self.reload()

    def _read(self) -> SSLContext:
        context = SSLContext(PROTOCOL_TLS_SERVER)
        context.minimum_version = TLSVersion.TLSv1_2
        # Of TLS 1.2 only what TLS 1.3 has too: forward secrecy, and authenticated encryption. Python's own list still
        # has CBC, whose padding was attacked repeatedly.
        context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
        # TLS 1.2 lets a client renegotiate again and again, which costs the server more than the client.
        context.options |= OP_NO_RENEGOTIATION
        try:
            # Without a password callback OpenSSL would prompt at the terminal, and block.
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:
            message = f"the certificate {self.certificate} with the key {self.key} cannot be used: {_why(error)}"
            raise ValueError(message) from None
        return context

    def _show_current(self, handshake: SSLObject, _: str | None, __: SSLContext) -> None:
        handshake.context = self._current

    def _files(self) -> list[tuple[int, int, int]]:
        return [_stamp(file) for file in (self.certificate, self.key)]

    def __repr__(self) -> str:
        return f"Tls({str(self.certificate)!r}, {str(self.key)!r})"


def _stamp(file: Path) -> tuple[int, int, int]:
    """What distinguishes a file from its predecessor; zero for a file that is missing for a moment."""
    try:
        status = file.stat()
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, SSLError):
        is_mismatch = error.reason == "KEY_VALUES_MISMATCH"
        return "they do not match" if is_mismatch else "one of them is not a valid PEM file"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _no_password() -> NoReturn:
    raise ValueError("the key is encrypted with a password: store it without one, readable only by the server's user")


class Exposed(ValueError):
    """Players would connect without encryption over a shared network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a server gives to each of its ports when it opens it."""

    subprotocols: Sequence[Subprotocol]
    """What its clients may speak, in no order: the client's comes first."""
    limits: TransportLimits
    pending_connections: PendingConnections
    """Counts connections that are not links yet, for all ports together."""
    directions: Directions = lambda _: ""
    """Where the pages of this server are, for a browser that came to the wrong port and asked for this host."""
    paths: UdpPaths | None = None
    """The datagrams of connections to the other ports."""


class Listen(Protocol):
    """What a server can listen on: `WebSocket`, `Tcp`, `Enet`, or a transport of your own."""

    @property
    def transport(self) -> str:
        """The transport's name, as in `Transport.kind`."""

    def url(self, address: tuple[str, int]) -> str:
        """The URL for clients, for this address; empty if they are told otherwise."""

    async def open(self, accept: Accept, opening: Opening) -> Listener:
        """Listen; `OSError` if the port is in use."""


@dataclass(frozen=True, kw_only=True)
class _Port(ABC):
    """One port for players. A port of 0 lets the system choose."""

    transport: ClassVar[str]
    scheme: ClassVar[str]

    host: str = "127.0.0.1"
    port: int
    insecure: bool = False
    """Listen on a public address without encryption: for a LAN, or a network of containers."""
    sockets: Sequence[socket.socket] = field(default=(), repr=False)
    """Sockets that listen already, instead of one at `host` and `port`: of systemd, or shared by several processes."""

    @property
    def is_public(self) -> bool:
        return not is_loopback(self.host)

    @property
    def is_readable(self) -> bool:
        """Whether others on the network could read the traffic."""
        return self.is_public

    def url(self, address: tuple[str, int]) -> str:
        """The URL for clients, for this address."""
        return f"{self.scheme}://{peer_name(address)}"

    @abstractmethod
    async def open(self, accept: Accept, opening: Opening) -> Listener:
        """Listen; `OSError` if the port is in use."""


@dataclass(frozen=True, kw_only=True)
class _StreamPort(_Port):
    """A port over TCP: with TLS if it has a certificate, and perhaps behind proxies."""

    tls: Tls | None = None
    """The certificate; without one, connections are not encrypted."""
    trusted_proxies: Sequence[str] = ()
    """Proxies ("10.0.0.7", "10.0.0.0/8") whose HTTP headers about their clients are trusted."""
    proxy_protocol: bool = False
    """The trusted proxies send the addresses of their clients with the PROXY protocol."""

    def __post_init__(self) -> None:
        """`Exposed` for a public port without encryption, `ValueError` for contradictory settings."""
        if self.proxy_protocol and not self.trusted_proxies:
            raise ValueError(
                "the PROXY protocol needs the addresses of the proxies that may use it: name them,"
                ' as in trusted_proxies=["10.0.0.7"]'
            )
        if self.is_readable and not self.trusted_proxies and not self.insecure:
            raise Exposed(
                f"{type(self).__name__} connections would not be encrypted, sign-ins included, on"
                f" {self.host or 'every address'}. Give it a certificate, as in"
                f' {type(self).__name__}(tls=Tls("cert.pem", "key.pem")); or put a proxy with one in front, and listen'
                " on 127.0.0.1 or name the proxy in trusted_proxies; or, on a private network (a LAN,"
                " containers), set insecure=True"
            )
        self.proxies  # noqa: B018 - raises for an invalid address

    @property
    def is_readable(self) -> bool:
        return self.is_public and self.tls is None

    @property
    def context(self) -> SSLContext | None:
        """For TLS, if there is a certificate."""
        return None if self.tls is None else self.tls.context

    @property
    def proxies(self) -> TrustedProxies | None:
        """The trusted proxies. On a public port without encryption only they may connect, unless it is `insecure`."""
        if not self.trusted_proxies:
            return None
        is_exclusive = self.is_readable and not self.insecure
        return TrustedProxies(self.trusted_proxies, proxy_protocol=self.proxy_protocol, is_exclusive=is_exclusive)

    def url(self, address: tuple[str, int]) -> str:
        """The URL for clients, for this address."""
        return f"{self.scheme}{'' if self.tls is None else 's'}://{peer_name(address)}"


@dataclass(frozen=True, kw_only=True)
class WebSocket(_StreamPort):
    """Listen for WebSocket connections: `Server(rooms, listen=[WebSocket(port=7777)])`."""

    transport: ClassVar[str] = "websocket"
    scheme: ClassVar[str] = "ws"

    port: int = 7777
    origins: Sequence[str] = ()
    """The sites whose pages may connect ("https://game.example"); all if it is empty. Other programs are not
    restricted."""
    compression: bool = False
    """Use permessage-deflate with clients that offer it, as browsers do."""

    def __post_init__(self) -> None:
        """As for every port; `ValueError` also for an invalid origin."""
        super().__post_init__()
        Origins(self.origins)

    async def open(self, accept: Accept, opening: Opening) -> Listener:
        """Listen; `OSError` if the port is in use."""
        return await websocket.listen(
            accept,
            host=self.host,
            port=self.port,
            sockets=self.sockets,
            subprotocols=opening.subprotocols,
            limits=opening.limits,
            ssl=self.context,
            origins=Origins(self.origins) if self.origins else None,
            proxies=self.proxies,
            pending_connections=opening.pending_connections,
            compression=self.compression,
            directions=opening.directions,
        )


@dataclass(frozen=True, kw_only=True)
class Tcp(_StreamPort):
    """Listen for TCP connections: `Server(rooms, listen=[Tcp(port=7779)])`."""

    transport: ClassVar[str] = "tcp"
    scheme: ClassVar[str] = "tcp"

    port: int = 7779

    async def open(self, accept: Accept, opening: Opening) -> Listener:
        """Listen; `OSError` if the port is in use."""
        return await tcp.listen(
            accept,
            host=self.host,
            port=self.port,
            sockets=self.sockets,
            subprotocols=opening.subprotocols,
            limits=opening.limits,
            ssl=self.context,
            proxies=self.proxies,
            pending_connections=opening.pending_connections,
            directions=opening.directions,
        )


@dataclass(frozen=True, kw_only=True)
class Enet(_Port):
    """Listen for ENet connections over UDP: `Server(rooms, listen=[WebSocket(), Enet(port=7780)])`.

    ENet does not encrypt: on a public address it needs `insecure=True`.
    """

    transport: ClassVar[str] = "enet"
    scheme: ClassVar[str] = "enet"

    port: int = 7780

    def __post_init__(self) -> None:
        """`Exposed` for a public port that is not declared `insecure`."""
        if self.is_public and not self.insecure:
            raise Exposed(
                f"Enet connections are not encrypted, sign-ins included, on {self.host or 'every address'}, and there"
                " is no certificate for ENet. Let players connect over WebSocket or TCP with one; or, if everybody on"
                " the way may read and change what is said (a LAN, a VPN, a game with nothing to steal), set"
                " insecure=True"
            )

    async def open(self, accept: Accept, opening: Opening) -> Listener:
        """Listen; `OSError` if the port is in use."""
        return await enet.listen(
            accept,
            host=self.host,
            port=self.port,
            sockets=self.sockets,
            subprotocols=opening.subprotocols,
            limits=opening.limits,
            pending_connections=opening.pending_connections,
        )


@dataclass(frozen=True, kw_only=True)
class Udp:
    """Carry `send_latest` of WebSocket and TCP sessions over UDP: `Server(rooms, listen=[WebSocket(tls=…), Udp()])`.

    Encrypted and authenticated with a key that each connection gets with its welcome: as safe as the stream that
    carries that. Clients that cannot use UDP, such as browsers, do not notice it.
    """

    transport: ClassVar[str] = "udp"

    host: str = "127.0.0.1"
    port: int = 7781
    public_host: str = ""
    """The name or address to which clients send their datagrams, if it is not that of their stream: where a proxy or a
    load balancer is in front of the other ports."""
    sockets: Sequence[socket.socket] = ()
    """Sockets that are bound already, instead of `host` and `port`."""

    def url(self, address: tuple[str, int]) -> str:
        """Nothing: nobody connects here, and clients are told by their welcome."""
        return ""

    async def open(self, accept: Accept, opening: Opening) -> Listener:
        """Listen; `OSError` if the port is in use."""
        assert opening.paths is not None
        opening.paths.host = self.public_host
        return await udp_listen(opening.paths, host=self.host, port=self.port, sockets=self.sockets)


class Listeners:
    """Opens and closes the ports of one server, and reloads renewed certificates."""

    def __init__(
        self,
        listen: Iterable[Listen],
        limits: TransportLimits,
        *,
        certificate_check_s: float,
        http_tls: Tls | None = None,
    ) -> None:
        self.listen = tuple(listen)
        """`ValueError` if `Udp` is not beside another port, or there are two of them."""
        count = sum(isinstance(each, Udp) for each in self.listen)
        if count and (count > 1 or len(self.listen) == 1):
            raise ValueError(
                "Udp carries only what sessions on other ports say with send_latest: name one of it beside them, as in"
                ' listen=[WebSocket(port=7777), Udp(port=7781)], with host="" for every address'
            )
        self._http_tls = http_tls
        self._limits = limits
        self._certificate_check_s = certificate_check_s
        self._open: dict[str, Listener] = {}
        """By the transport's name."""
        self.urls: dict[str, str] = {}
        """The URLs for clients, while the ports are open: {"websocket": "wss://127.0.0.1:7777", …}."""
        self.http: tuple[str, tuple[str, int]] | None = None
        """The scheme and the address of the HTTP API, if there is one: for browsers that open the wrong port."""
        self._watching: asyncio.TimerHandle | None = None

    @property
    def origins(self) -> list[str]:
        """The sites whose pages may connect."""
        return [origin for each in self.listen if isinstance(each, WebSocket) for origin in each.origins]

    @property
    def is_insecure(self) -> bool:
        """Whether one of the ports is public and not encrypted, on purpose."""
        return any(isinstance(each, _Port) and each.insecure and each.is_readable for each in self.listen)

    @property
    def proxies(self) -> list[tuple[tuple[str, ...], bool]]:
        """The trusted proxies of the ports, each list once, and whether they use the PROXY protocol."""
        streams = [each for each in self.listen if isinstance(each, _StreamPort) and each.trusted_proxies]
        return list(dict.fromkeys((tuple(each.trusted_proxies), each.proxy_protocol) for each in streams))

    @property
    def certificates(self) -> list[Tls]:
        """Those of the ports and of the HTTP API, each once."""
        used = [*(each.tls for each in self.listen if isinstance(each, _StreamPort)), self._http_tls]
        return list(dict.fromkeys(tls for tls in used if tls is not None))

    def directions(self, host: str) -> str:
        """Where the pages of this server are, for a browser that requested this `Host`."""
        if self.http is None:
            return ""
        scheme, (address, port) = self.http
        asked = _PORT.sub("", host)
        where = f"{asked}:{port}" if asked and address in _EVERYWHERE else peer_name((address, port))
        return f"The dashboard and the HTTP API are at {scheme}://{where}/"

    async def open(
        self,
        accept: Accept,
        subprotocols: Sequence[Subprotocol],
        pending_connections: PendingConnections,
        paths: UdpPaths,
    ) -> dict[str, tuple[str, int]]:
        """Listen; returns the addresses by transport. A port in use raises `OSError`."""
        addresses: dict[str, tuple[str, int]] = {}
        opening = Opening(
            subprotocols=subprotocols,
            limits=self._limits,
            pending_connections=pending_connections,
            directions=self.directions,
            paths=paths,
        )
        for each in self.listen:
            listener = await each.open(accept, opening)
            count = 1 + sum(other.partition("-")[0] == each.transport for other in addresses)
            name = each.transport if count == 1 else f"{each.transport}-{count}"
            self._open[name] = listener
            addresses[name] = listener.addresses[0]
            if url := each.url(listener.addresses[0]):
                self.urls[name] = url
        self._watch_certificates()
        return addresses

    def listen_also(self, sockets: Mapping[str, Sequence[socket.socket]]) -> None:
        """Accept the clients of these sockets too, by transport; ENet's cannot be added."""
        for name, listener in self._stream_listeners(sockets):
            listener.listen_also(sockets[name])

    def leave(self, sockets: Mapping[str, Sequence[socket.socket]]) -> None:
        """Accept no more clients of these sockets, by transport; they stay open."""
        for name, listener in self._stream_listeners(sockets):
            listener.leave(sockets[name])

    def _stream_listeners(self, names: Iterable[str]) -> Iterator[tuple[str, SocketListener]]:
        for name in names:
            listener = self._open.get(name)
            if isinstance(listener, SocketListener):
                yield name, listener

    def _watch_certificates(self) -> None:
        for tls in self.certificates:
            tls.reload_if_changed()
        if self.certificates:
            loop = asyncio.get_running_loop()
            self._watching = loop.call_later(self._certificate_check_s, self._watch_certificates)

    def reload(self) -> None:
        for tls in self.certificates:
            tls.reload()
        if not self.certificates:
            _log.info("nothing to reload: this server has no certificate")

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        for listener in self._open.values():
            await listener.close()
        self._open.clear()
        self.urls.clear()
