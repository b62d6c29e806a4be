"""UDP in memory: packets are lost, late, doubled and overtaken, as one seed determines.

It carries the datagrams beside the connections of a `MemoryServer(…, udp=network)`.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from random import Random

from holdfast.testing.network import call_at
from holdfast.transports.datagram_sockets import Address
from holdfast.transports.udp.client import OpenUdp
from holdfast.transports.udp.server import ServerUdp

Received = Callable[[bytes, ServerUdp, Address], None]


class UdpNetwork:
    """The packets of one test. Each is lost, doubled and delayed on its own."""

    def __init__(
        self,
        random: Random | None = None,
        *,
        loss: float = 0.0,
        doubled: float = 0.0,
        latency_s: float = 0.0,
        jitter_s: float = 0.0,
    ) -> None:
        """`loss` and `doubled` are chances from 0 to 1. A packet takes `latency_s` and up to `jitter_s` more."""
        self.loss = loss
        self.doubled = doubled
        self.latency_s = latency_s
        self.jitter_s = jitter_s
        self.is_blocked = False
        """Whether no packet gets through."""
        self.on_packet: Callable[[Address, bytes, bool], None] | None = None
        """Called with every packet that is sent, also if it does not arrive: the client's address, the bytes, and
        whether they are for a server."""
        self.sockets: dict[str, UdpSocket] = {}
        """The newest socket of each client, by its dialer's name."""
        self._random = random or Random(0)
        self._ports: dict[int, _UdpPort] = {}
        self._port_of: dict[str, int] = {}
        self._clients: dict[Address, UdpSocket] = {}
        self._addresses = 0

    def listen(self, name: str, received: Received) -> int:
        """Listen on a server; the port, the same one whenever this server starts."""
        port = self._port_of.setdefault(name, len(self._port_of) + 1)
        self._ports[port] = _UdpPort(self, received)
        return port

    def opener(self, name: str) -> OpenUdp:
        """Opens the sockets of one client."""

        async def open_udp(_: str, port: int, received: Callable[[bytes], None]) -> UdpSocket:
            socket = self.sockets[name] = UdpSocket(self, port, received)
            return socket

        return open_udp

    def new_address(self, socket: "UdpSocket") -> Address:
        self._addresses += 1
        address = ("198.51.100.1", 40_000 + self._addresses)
        self._clients[address] = socket
        return address

    def forget(self, address: Address) -> None:
        self._clients.pop(address, None)

    def to_server(self, port: int, address: Address, datagram: bytes) -> None:
        """Send a packet to a server, from any address."""
        if (there := self._ports.get(port)) is not None:
            self._carry(address, datagram, True, there.arrived, address, datagram)

    def to_client(self, address: Address, datagram: bytes) -> None:
        """Send a packet to a client, if one has this address when it arrives."""
        self._carry(address, datagram, False, self._arrived, address, datagram)

    def _arrived(self, address: Address, datagram: bytes) -> None:
        if (socket := self._clients.get(address)) is not None:
            socket.arrived(datagram)

    def _carry(
        self, address: Address, datagram: bytes, is_for_server: bool, arrived: Callable[..., None], *args: object
    ) -> None:
        if self.on_packet is not None:
            self.on_packet(address, datagram, is_for_server)
        if self.is_blocked or self._random.random() < self.loss:
            return
        loop = asyncio.get_running_loop()
        for _ in range(1 + (self._random.random() < self.doubled)):
            # The packets of a machine that crashes are still on their way.
            Context().run(loop.call_later, self.latency_s + self.jitter_s * self._random.random(), arrived, *args)


class _UdpPort:
    """The socket of a server."""

    def __init__(self, network: UdpNetwork, received: Received) -> None:
        self._network = network
        self._received = received
        self._home = copy_context()

    def write(self, address: Address | None, datagrams: list[bytes]) -> None:
        assert address is not None
        for datagram in datagrams:
            self._network.to_client(address, datagram)

    def arrived(self, address: Address, datagram: bytes) -> None:
        call_at(self._home, self._received, datagram, self, address)


class UdpSocket:
    """The socket of a client."""

    def __init__(self, network: UdpNetwork, port: int, received: Callable[[bytes], None]) -> None:
        self._network = network
        self._port = port
        self._received = received
        self._home = copy_context()
        self.address = network.new_address(self)
        """Where the server sees it."""

    def move(self) -> None:
        """Get another address, as behind a NAT that has forgotten the old one."""
        self._network.forget(self.address)
        self.address = self._network.new_address(self)

    def send(self, datagram: bytes) -> None:
        self._network.to_server(self._port, self.address, datagram)

    def close(self) -> None:
        self._network.forget(self.address)

    def arrived(self, datagram: bytes) -> None:
        call_at(self._home, self._received, datagram)
