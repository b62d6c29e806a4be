"""UDP sockets for datagrams beside a stream."""

import asyncio
import socket
from collections.abc import Callable, Sequence

from holdfast.transports.datagram_sockets import Address, DatagramSocket, bind
from holdfast.transports.port import Listener
from holdfast.transports.udp.client import ClientUdp
from holdfast.transports.udp.server import UdpPaths


class _UdpServer(DatagramSocket):
    """One address that a server listens on."""

    def __init__(self, paths: UdpPaths) -> None:
        self._paths = paths
        self.closed = asyncio.Event()
        """The socket is closed."""

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._paths.received(data, self, addr)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()


class _UdpListener:
    """The sockets of a name, which may have several addresses."""

    def __init__(self, paths: UdpPaths) -> None:
        self._paths = paths
        self.addresses: list[tuple[str, int]] = []
        self.sockets: list[_UdpServer] = []

    async def close(self) -> None:
        self._paths.port = 0
        for each in self.sockets:
            each.close()
        await asyncio.gather(*(each.closed.wait() for each in self.sockets))


async def listen(paths: UdpPaths, *, host: str, port: int, sockets: Sequence[socket.socket] = ()) -> Listener:
    """Listen for the datagrams of connections; `OSError` if the port is in use."""
    loop = asyncio.get_running_loop()
    listener = _UdpListener(paths)
    try:
        for sock in list(sockets) or await _bind_all(host, port):
            udp, served = await loop.create_datagram_endpoint(lambda: _UdpServer(paths), sock=sock)
            listener.sockets.append(served)
            listener.addresses.append(udp.get_extra_info("sockname")[:2])
    except BaseException:
        await listener.close()
        raise
    paths.port = listener.addresses[0][1]
    return listener


async def _bind_all(host: str, port: int) -> list[socket.socket]:
    """Every address of the name with the same port, which clients are told: for 0 one that the system chooses."""
    sockets = await bind(host, port)
    if port or len(sockets) == 1:
        return sockets
    chosen = sockets[0].getsockname()[1]
    for sock in sockets:
        sock.close()
    return await bind(host, chosen)


class _UdpClient(DatagramSocket):
    """A connected socket: the system drops what comes from elsewhere."""

    def __init__(self, received: Callable[[bytes], None]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._received(data)

    def send(self, datagram: bytes) -> None:
        self.write(None, [datagram])


async def open_udp(host: str, port: int, received: Callable[[bytes], None]) -> ClientUdp:
    """An `OpenUdp` with a socket of the system."""
    loop = asyncio.get_running_loop()
    ((*kind, _, address), *_) = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    sock = socket.socket(*kind)
    client = _UdpClient(received)
    try:
        sock.setblocking(False)
        sock.connect(address)
        await loop.create_datagram_endpoint(lambda: client, sock=sock)
    except OSError:
        sock.close()
        raise
    except BaseException:
        client.give_up()
        raise
    return client
