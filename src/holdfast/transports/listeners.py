"""The ports of a server: `WebSocket` and `Tcp`, and `Listeners`, which opens and closes them."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from holdfast.core.addresses import is_loopback
from holdfast.logs import get_logger
from holdfast.transports import tcp, websocket
from holdfast.transports.links import peer_name
from holdfast.transports.listening import PendingConnections
from holdfast.transports.origins import Origins
from holdfast.transports.port import Accept, Listener, Subprotocol, TransportLimits
from holdfast.transports.proxies import TrustedProxies
from holdfast.transports.tls import Tls

_log = get_logger("holdfast.server")

_PORT = re.compile(r":[0-9]+$")
_EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104  # nosec


class Exposed(ValueError):
    """Players would connect without encryption over a shared network."""


@dataclass(frozen=True, kw_only=True)
class _Port:
    """One port for players. A port of 0 lets the system choose."""

    transport: ClassVar[str]
    scheme: ClassVar[str]

    host: str = "127.0.0.1"
    port: int
    tls: Tls | None = None
    """The certificate; without one, connections are not encrypted."""
    trusted_proxies: Sequence[str] = ()
    """Proxies ("10.0.0.7", "10.0.0.0/8") whose HTTP headers about their clients are trusted."""
    proxy_protocol: bool = False
    """The trusted proxies send the addresses of their clients with the PROXY protocol."""
    insecure: bool = False
    """Listen on a public address without encryption: for a LAN, or a network of containers."""

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
    def is_public(self) -> bool:
        """Whether other machines can connect."""
        return not is_loopback(self.host)

    @property
    def is_readable(self) -> bool:
        """Whether others on the network could read the traffic."""
        return self.is_public and self.tls is None

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
class WebSocket(_Port):
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


@dataclass(frozen=True, kw_only=True)
class Tcp(_Port):
    """Listen for TCP connections: `Server(rooms, listen=[Tcp(port=7779)])`."""

    transport: ClassVar[str] = "tcp"
    scheme: ClassVar[str] = "tcp"

    port: int = 7779


Listen = WebSocket | Tcp
"""What a server can listen on."""


class Listeners:
    """Opens and closes the ports of one server, and reloads renewed certificates."""

    def __init__(self, listen: Iterable[Listen], limits: TransportLimits, *, certificate_check_s: float) -> None:
        self.listen = tuple(listen)
        self._limits = limits
        self._certificate_check_s = certificate_check_s
        self._open: list[Listener] = []
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
    def certificates(self) -> list[Tls]:
        """Each certificate once."""
        return list(dict.fromkeys(each.tls for each in self.listen if each.tls is not None))

    def directions(self, host: str) -> str:
        """Where the pages of this server are, for a browser that requested this `Host`."""
        if self.http is None:
            return ""
        scheme, (address, port) = self.http
        asked = _PORT.sub("", host)
        where = f"{asked}:{port}" if asked and address in _EVERYWHERE else peer_name((address, port))
        return f"The dashboard and the HTTP API are at {scheme}://{where}/"

    async def open(
        self, accept: Accept, subprotocols: Sequence[Subprotocol], pending_connections: PendingConnections
    ) -> dict[str, tuple[str, int]]:
        """Listen; returns the addresses by transport. A port in use raises `OSError`."""
        addresses: dict[str, tuple[str, int]] = {}
        for each in self.listen:
            listen = tcp.listen
            if isinstance(each, WebSocket):
                origins = Origins(each.origins) if each.origins else None
                listen = partial(websocket.listen, origins=origins, compression=each.compression)
            listener = await listen(
                accept,
                host=each.host,
                port=each.port,
                subprotocols=subprotocols,
                limits=self._limits,
                ssl=None if each.tls is None else each.tls.context,
                proxies=each.proxies,
                pending_connections=pending_connections,
                directions=self.directions,
            )
            self._open.append(listener)
            count = 1 + sum(other.partition("-")[0] == each.transport for other in addresses)
            name = each.transport if count == 1 else f"{each.transport}-{count}"
            addresses[name] = listener.addresses[0]
            self.urls[name] = each.url(listener.addresses[0])
        self._watch_certificates()
        return addresses

    def _watch_certificates(self) -> None:
        for tls in self.certificates:
            tls.reload_if_changed()
        if self.certificates:
            loop = asyncio.get_running_loop()
            self._watching = loop.call_later(self._certificate_check_s, self._watch_certificates)

    def reload(self) -> None:
        """Reload the certificates, if there are any."""
        for tls in self.certificates:
            tls.reload()
        if not self.certificates:
            _log.info("nothing to reload: this server has no certificate")

    async def close(self) -> None:
        """Stop accepting connections."""
        if self._watching is not None:
            self._watching.cancel()
        for listener in self._open:
            await listener.close()
        self._open.clear()
        self.urls.clear()
