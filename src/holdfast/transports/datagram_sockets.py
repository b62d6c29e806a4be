"""UDP sockets: binding one, and writing no more than the system and the loop take."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, Protocol, cast

from holdfast.transports.listening import bind_to

# Packets of thousands of clients that arrive at once; the system allows less, if it is not told otherwise.
_SOCKET_BYTES = 4 * 1024 * 1024
# What the loop keeps for a socket that the system does not take more from: beyond it packets are lost, as on the way.
_WRITE_BYTES_MAX = 4 * 1024 * 1024

Address = tuple[Any, ...]


class _Udp(Protocol):
    """What both loops' datagram transports have; the stubs lack the size of the buffer."""

    def sendto(self, data: bytes, addr: Address | None = None) -> None: ...

    def get_write_buffer_size(self) -> int: ...

    def is_closing(self) -> bool: ...

    def close(self) -> None: ...


class DatagramSocket(asyncio.DatagramProtocol):
    """What the sockets of a server and of a client have in common."""

    _udp: _Udp | None = None
    _is_given_up = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._udp = cast("_Udp", transport)
        if self._is_given_up:
            transport.close()

    def write(self, address: Address | None, datagrams: Sequence[bytes]) -> None:
        """Send; what does not fit is lost."""
        udp = self._udp
        assert udp is not None
        for datagram in datagrams:
            if not udp.is_closing() and udp.get_write_buffer_size() < _WRITE_BYTES_MAX:
                udp.sendto(datagram, address)

    def close(self) -> None:
        if self._udp is not None:
            self._udp.close()

    def give_up(self) -> None:
        """Whoever opens it was cancelled before there was a transport: uvloop would leave the socket open."""
        self._is_given_up = True
        self.close()


async def bind(host: str, port: int, *, is_shared: bool = False) -> list[socket.socket]:
    """A socket for each address of the name. With `is_shared`, more of them can be bound to the same port, and each
    gets a part of the clients."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setblocking(False)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if is_shared:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BYTES)
            bind_to(sock, address)
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets
