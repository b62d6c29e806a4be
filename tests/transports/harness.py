"""Both ends of every adapter: listens, dials, and proves at the end that each link was lost exactly once."""

import itertools
import logging
import ssl
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import trustme
from picows import WSError, WSListener, WSUpgradeRequest, WSUpgradeResponse, ws_connect

from holdfast.testing.transport_checks import Adapter, Ends
from holdfast.transports import enet, memory, tcp, websocket
from holdfast.transports.deflate import NAME
from holdfast.transports.http_upgrade import EXTENSIONS_HEADER, PROTOCOL_HEADER, dial_error
from holdfast.transports.port import Accept, Listener, Receiver, Subprotocol, Transport, TransportLimits
from holdfast.transports.proxies import TrustedProxies
from holdfast.transports.websocket_link import DeflatedWebSocketTransport
from tests.transports.raw import RawPeer

# picows reports what tests do to it.
QUIET = logging.getLogger(f"{__name__}.picows")
QUIET.setLevel(logging.CRITICAL)


@cache
def _certificates() -> tuple[trustme.CA, trustme.LeafCert]:
    """An authority for this run and its certificate for this machine: made up here, never written down."""
    authority = trustme.CA()
    return authority, authority.issue_cert("localhost", "127.0.0.1", "::1")


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _certificates()[1].configure_cert(context)
    return context


def client_context() -> ssl.SSLContext:
    # Trusting nobody else: to read what the system trusts takes longer than a test does.
    return ssl.create_default_context(cadata=_certificates()[0].cert_pem.bytes().decode())


class SocketAdapter:
    """A module with `listen` and `dial`, on the loopback interface."""

    def __init__(
        self, module: ModuleType, scheme: str, *, host: str = "127.0.0.1", tls: bool = False, **options: Any
    ) -> None:
        self._options = options
        self._module = module
        self._scheme = scheme
        self._host = host
        self._tls = tls

    async def listen(self, accept: Accept, subprotocols: Sequence[Subprotocol], limits: TransportLimits) -> Listener:
        context = server_context() if self._tls else None
        listener: Listener = await self._module.listen(
            accept, host=self._host, port=0, subprotocols=subprotocols, limits=limits, ssl=context, **self._options
        )
        return listener

    async def dial(
        self, receiver: Receiver, listener: Listener, subprotocols: Sequence[Subprotocol], limits: TransportLimits
    ) -> Transport:
        host, port = listener.addresses[0]
        url = f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        context = client_context() if self._tls else None
        transport: Transport = await self._module.dial(
            receiver, url, subprotocols=subprotocols, limits=limits, ssl=context
        )
        return transport


class EnetAdapter:
    """ENet on the loopback interface."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host

    async def listen(self, accept: Accept, subprotocols: Sequence[Subprotocol], limits: TransportLimits) -> Listener:
        return await enet.listen(accept, host=self._host, port=0, subprotocols=subprotocols, limits=limits)

    async def dial(
        self, receiver: Receiver, listener: Listener, subprotocols: Sequence[Subprotocol], limits: TransportLimits
    ) -> Transport:
        host, port = listener.addresses[0]
        url = f"enet://{f'[{host}]' if ':' in host else host}:{port}"
        return await enet.dial(receiver, url, subprotocols=subprotocols, limits=limits)


class MemoryAdapter:
    """A network of its own."""

    def __init__(self, network: memory.MemoryNetwork | None = None) -> None:
        self.network = network or memory.MemoryNetwork()
        self._ports = itertools.count(1)

    async def listen(self, accept: Accept, subprotocols: Sequence[Subprotocol], limits: TransportLimits) -> Listener:
        return await self.network.listen(accept, f"here:{next(self._ports)}", subprotocols=subprotocols, limits=limits)

    async def dial(
        self, receiver: Receiver, listener: Listener, subprotocols: Sequence[Subprotocol], limits: TransportLimits
    ) -> Transport:
        return await self.network.dial(receiver, listener.addresses[0][0], subprotocols=subprotocols, limits=limits)


class DatagramNetwork(memory.MemoryNetwork):
    """A network that also carries datagrams."""

    carries_datagrams = True


class Warming:
    """Says something at once and hides what it hears first, so that what follows is compressed."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._is_warm = False
        self.received_datagram = receiver.received_datagram
        self.kept_busy = receiver.kept_busy
        self.congested = receiver.congested
        self.drained = receiver.drained
        self.lost = receiver.lost

    def opened(self, transport: Transport) -> None:
        transport.send(b"warm")
        self._receiver.opened(transport)

    def received(self, payload: bytes) -> None:
        if self._is_warm:
            self._receiver.received(payload)
        self._is_warm = True


class BrowserAdapter:
    """WebSocket with its own compression, dialed as browsers do it: our own dial never offers it."""

    def __init__(self) -> None:
        self._adapter = SocketAdapter(websocket, "ws", compression=True)

    async def listen(self, accept: Accept, subprotocols: Sequence[Subprotocol], limits: TransportLimits) -> Listener:
        return await self._adapter.listen(lambda: Warming(accept()), subprotocols, limits)

    async def dial(
        self, receiver: Receiver, listener: Listener, subprotocols: Sequence[Subprotocol], limits: TransportLimits
    ) -> Transport:
        host, port = listener.addresses[0]
        url = f"ws://{host}:{port}"
        transport = DeflatedWebSocketTransport(lambda: Warming(receiver), limits)

        def answered(_: WSUpgradeRequest, response: WSUpgradeResponse) -> WSListener:
            assert NAME in response.headers[EXTENSIONS_HEADER]
            (transport.subprotocol,) = (each for each in subprotocols if each.name == response.headers[PROTOCOL_HEADER])
            return transport

        offers = {PROTOCOL_HEADER: ", ".join(each.name for each in subprotocols), EXTENSIONS_HEADER: NAME}
        try:
            await ws_connect(
                answered,
                url,
                extra_headers=offers,
                enable_auto_pong=False,
                max_frame_size=limits.payload_bytes_max,
                logger_name=QUIET,
                use_aiofastnet=False,
            )
        except BaseException as error:
            transport.abort()
            if isinstance(error, OSError | WSError):
                raise dial_error(url, error) from error
            raise
        return transport


ADAPTERS: dict[str, Callable[[], Adapter]] = {
    "websocket": lambda: SocketAdapter(websocket, "ws"),
    "websocket-tls": lambda: SocketAdapter(websocket, "wss", tls=True),
    # Beside proxies that say who their clients are: who is none comes in as ever.
    "websocket-proxies": lambda: SocketAdapter(
        websocket, "ws", proxies=TrustedProxies(["192.0.2.1"], proxy_protocol=True)
    ),
    "tcp": lambda: SocketAdapter(tcp, "tcp"),
    "tcp-tls": lambda: SocketAdapter(tcp, "tcps", tls=True),
    "enet": EnetAdapter,
    "enet-ipv6": lambda: EnetAdapter("::1"),
    "memory": MemoryAdapter,
    "memory-datagrams": lambda: MemoryAdapter(DatagramNetwork()),
    "websocket-browser": BrowserAdapter,
}


class Harness(Ends):
    """Both ends of a link, and peers that say nothing by themselves."""

    def __init__(self, adapter: Adapter) -> None:
        super().__init__(adapter)
        self._raw_peers: list[RawPeer] = []

    @property
    def port(self) -> int:
        """Where the last listener listens."""
        return self._listeners[-1].addresses[0][1]

    async def raw(self, listener: Listener, context: ssl.SSLContext | None = None) -> RawPeer:
        """A connection to the listener that has said nothing yet."""
        peer = await RawPeer.connect(*listener.addresses[0], context)
        self._raw_peers.append(peer)
        return peer

    async def finish(self) -> None:
        for peer in self._raw_peers:
            peer.abandon()
        await super().finish()
