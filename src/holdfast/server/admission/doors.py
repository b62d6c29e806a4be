"""The doors of a server: which transports listen where, and by which rules."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from holdfast.core.address_quota import AddressShares
from holdfast.core.addresses import is_loopback
from holdfast.core.codec import CODECS
from holdfast.core.limits import Limits
from holdfast.logs import get_logger
from holdfast.server.admission.tls import Tls
from holdfast.transports import tcp, websocket
from holdfast.transports.arrivals import Arrivals, Refused
from holdfast.transports.forwarded import TrustedProxies
from holdfast.transports.origins import Origins
from holdfast.transports.port import Accept, Dialect, Listener, TransportLimits
from holdfast.transports.sockets import peer_name

_log = get_logger("holdfast.server")

_PORT = re.compile(r":[0-9]+$")
_EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104  # nosec

DIALECTS = tuple(Dialect(codec.name, codec.text) for codec in CODECS.values())
"""What the server speaks, in the order it prefers."""


class Exposed(ValueError):
    """What players say could be read on its way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorSettings:
    """Where and how the players come in. A port of None stays closed, 0 lets the system choose."""

    host: str = "127.0.0.1"
    port: int | None = 7777
    tcp_port: int | None = 7779
    compression: bool = False
    tls: Tls | None = None
    origins: Sequence[str] = ()
    trusted_proxies: Sequence[str] = ()
    proxy_protocol: bool = False
    full_share: Sequence[str] = ()
    insecure: bool = False

    @property
    def is_public(self) -> bool:
        """Whether other machines can connect, or at least may try."""
        return not is_loopback(self.host)

    def proxies(self) -> TrustedProxies | None:
        """Whom a door believes. To a public one that does not encrypt, nobody else may connect: they would be heard."""
        if not self.trusted_proxies:
            return None
        is_exclusive = self.tls is None and self.is_public and not self.insecure
        return TrustedProxies(self.trusted_proxies, proxy_protocol=self.proxy_protocol, is_exclusive=is_exclusive)

    def check(self) -> None:
        """`ValueError` if anybody on the way could listen in, or the rest does not fit together."""
        if self.proxy_protocol and not self.trusted_proxies:
            raise ValueError(
                "with the PROXY protocol a proxy says who its clients are, so it must be known who is a proxy: name it,"
                ' as in trusted_proxies=["10.0.0.7"]'
            )
        readable = [name for name, port in (("WebSocket", self.port), ("TCP", self.tcp_port)) if port is not None]
        if readable and self.tls is None and self.is_public and not self.trusted_proxies and not self.insecure:
            raise Exposed(
                f"what players say over {' and '.join(readable)} could be read and changed on its way to "
                f"{self.host or 'every address'}, sign-ins included. Give the server a certificate, as in "
                'tls=Tls("cert.pem", "key.pem"); or put a proxy with one in front, and listen at 127.0.0.1 or name the '
                "proxy in trusted_proxies; or, on a network of your own (a LAN, one of containers), say insecure=True"
            )


class Doors:
    """Opens and closes the listeners of one server."""

    def __init__(self, settings: DoorSettings, limits: Limits) -> None:
        """`ValueError` for settings that make no sense, or would let anybody listen in."""
        settings.check()
        self.settings = settings
        self._limits = TransportLimits.of(limits)
        self.shares = AddressShares(limits.address_share, settings.full_share)
        """Of the node's pools: how much of them one address may hold."""
        self._check_s = limits.certificate_check_s
        self._origins = Origins(settings.origins) if settings.origins else None
        self._proxies = settings.proxies()
        self._listeners: list[Listener] = []
        self.urls: dict[str, str] = {}
        """Where clients connect, by transport, while the doors are open: {"websocket": "wss://127.0.0.1:7777", …}."""
        self.http: tuple[str, tuple[str, int]] | None = None
        """The scheme and the address of the HTTP API, if there is one: for browsers that come to a wrong door."""
        self._watching: asyncio.TimerHandle | None = None

    def directions(self, host: str) -> str:
        """Where the pages of this server are, for whoever asked for this `Host`."""
        if self.http is None:
            return ""
        scheme, (address, port) = self.http
        asked = _PORT.sub("", host)
        where = f"{asked}:{port}" if asked and address in _EVERYWHERE else peer_name((address, port))
        return f"The dashboard and the HTTP API are at {scheme}://{where}/"

    async def open(self, accept: Accept, refused: Refused) -> dict[str, tuple[str, int]]:
        """Where they are, by transport; `refused` hears whom they turn away. A port that is taken is an `OSError`."""
        settings = self.settings
        addresses: dict[str, tuple[str, int]] = {}
        arrivals = Arrivals(self._limits, refused, self.shares)
        listen_websocket = partial(websocket.listen, origins=self._origins, compression=settings.compression)
        for name, scheme, listen, port in (
            ("websocket", "ws", listen_websocket, settings.port),
            ("tcp", "tcp", tcp.listen, settings.tcp_port),
        ):
            if port is not None:
                listener = await listen(
                    accept,
                    host=settings.host,
                    port=port,
                    dialects=DIALECTS,
                    limits=self._limits,
                    ssl=None if settings.tls is None else settings.tls.context,
                    proxies=self._proxies,
                    arrivals=arrivals,
                    directions=self.directions,
                )
                self._listeners.append(listener)
                addresses[name] = listener.addresses[0]
                self.urls[name] = f"{scheme}{'' if settings.tls is None else 's'}://{peer_name(addresses[name])}"
        self._watch_certificate()
        return addresses

    def _watch_certificate(self) -> None:
        if self.settings.tls is not None:
            self.settings.tls.reload_if_changed()
            self._watching = asyncio.get_running_loop().call_later(self._check_s, self._watch_certificate)

    def reload(self) -> None:
        """Read the certificate again, if there is one."""
        if self.settings.tls is not None:
            self.settings.tls.reload()
        else:
            _log.info("there is nothing to reload: this server has no certificate")

    async def close(self) -> None:
        """Let nobody in any more."""
        if self._watching is not None:
            self._watching.cancel()
        for listener in self._listeners:
            await listener.close()
        self._listeners.clear()
        self.urls.clear()
