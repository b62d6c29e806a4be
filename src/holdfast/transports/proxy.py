"""The PROXY protocol, versions 1 and 2: a proxy says whose connection it passes on, in front of everything else.

The header stands before TLS, if there is TLS. So it is read from the bare socket, to its last byte and not one further,
and only then does the event loop make a transport of the socket, with TLS or without, as if it had just accepted it.
See https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt.
"""

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from ssl import SSLContext
from typing import Any

from holdfast.transports.forwarded import Address, TrustedProxies
from holdfast.transports.port import TransportLimits
from holdfast.transports.sockets import MakeProtocol, SocketListener, server_options

_V1_START = b"PROXY "
# The longest line that there can be, from the specification.
_V1_BYTES_MAX = 107
_V2_START = b"\r\n\r\n\x00\r\nQUIT\n"
# The start, version and command, family and transport, and how many bytes follow.
_V2_HEAD = struct.Struct(">12sBBH")
_V2_LOCAL, _V2_PROXY = 0x20, 0x21
_V2_TCP4, _V2_TCP6 = 0x11, 0x21
_V2_ADDRESSES = {_V2_TCP4: struct.Struct(">4s4sHH"), _V2_TCP6: struct.Struct(">16s16sHH")}
# "PROXY UNKNOWN\r\n", the shortest header of all.
_BYTES_MIN = 15
_PORT_MAX = 65535
# Out of descriptors or memory: a pause, as asyncio makes it, and those who wait do so in the kernel.
_EXHAUSTED_S = 1.0

Read = Callable[[int], Awaitable[bytes]]
"""Reads exactly so many bytes; `BadHeader` if the peer hangs up before."""


class BadHeader(Exception):
    """What a proxy said first is not a PROXY header."""


async def read_header(read: Read, *, bytes_max: int) -> Address | None:
    """The client that the proxy names; None if it speaks for itself, or does not know."""
    start = await read(_BYTES_MIN)
    if start.startswith(_V2_START):
        return await _read_v2(read, start, bytes_max)
    if start.startswith(_V1_START):
        return await _read_v1(read, start)
    raise BadHeader("it does not begin like one")


async def _read_v1(read: Read, line: bytes) -> Address | None:
    while not line.endswith(b"\r\n"):
        if len(line) >= _V1_BYTES_MAX:
            raise BadHeader("the line is too long")
        # Byte by byte: what stands behind the line is not ours.
        line += await read(1)
    match line[:-2].split(b" "):
        case [_, b"UNKNOWN", *_]:
            return None
        case [_, (b"TCP4" | b"TCP6") as family, source, _, port, _]:
            return _host(source, IPv4Address if family == b"TCP4" else IPv6Address), _port(port)
        case _:
            raise BadHeader("the line does not name two addresses and two ports")


def _host(text: bytes, kind: type[IPv4Address | IPv6Address]) -> str:
    try:
        address = ip_address(text.decode("ascii"))
    except ValueError:
        raise BadHeader("an address is none") from None
    if not isinstance(address, kind):
        raise BadHeader("an address is not of the family that was named")
    return str(address)


def _port(text: bytes) -> int:
    if not text.isdigit() or int(text) > _PORT_MAX:
        raise BadHeader("a port is none")
    return int(text)


async def _read_v2(read: Read, start: bytes, bytes_max: int) -> Address | None:
    _, command, family, length = _V2_HEAD.unpack(start + await read(_V2_HEAD.size - len(start)))
    if _V2_HEAD.size + length > bytes_max:
        raise BadHeader("it is too long")
    body = await read(length) if length else b""
    if command not in {_V2_LOCAL, _V2_PROXY}:
        raise BadHeader("the version or the command is not known")
    layout = _V2_ADDRESSES.get(family)
    if command == _V2_LOCAL or layout is None:
        return None
    if length < layout.size:
        raise BadHeader("the addresses are cut short")
    source, _, port, _ = layout.unpack_from(body)
    return str(ip_address(source)), port


class ProxyListener(SocketListener):
    """A listener that awaits a header from every proxy it trusts. Others come in as they are, without one.

    A header from anybody else is no TLS, no HTTP and no preface, and refused as such.
    """

    def __init__(self, proxies: TrustedProxies) -> None:
        super().__init__()
        self._proxies = proxies
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(
        self, make: MakeProtocol, host: str, port: int, *, limits: TransportLimits, ssl: SSLContext | None
    ) -> None:
        """Listen; `make` is told which client a proxy named."""
        options = server_options(limits, ssl)
        self._sockets = await _bind(host, port, backlog=options.pop("backlog"))
        self.addresses = [sock.getsockname()[:2] for sock in self._sockets]

        def admit(sock: socket.socket, peer: str) -> None:
            arrival = _Arrival(sock, limits)
            task = self._start(arrival.admit(make, options, is_proxy=self._proxies.trusts(peer)))
            # Also if it was cancelled before it began.
            task.add_done_callback(arrival.turn_away)

        for sock in self._sockets:
            self._start(_accept(sock, admit))

    def _start(self, coroutine: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Accept nobody any more; see the port."""
        self.closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        for sock in self._sockets:
            sock.close()


class _Arrival:
    """A connection that was accepted and is no link yet."""

    def __init__(self, sock: socket.socket, limits: TransportLimits) -> None:
        self._socket: socket.socket | None = sock
        self._limits = limits

    async def admit(self, make: MakeProtocol, options: dict[str, Any], *, is_proxy: bool) -> None:
        """Let it in, after its header if it is a proxy's."""
        # Whatever fails here is the peer's affair, as with the loop's own servers.
        with suppress(OSError, BadHeader):
            client = None
            if is_proxy:
                async with asyncio.timeout(self._limits.handshake_s):
                    client = await read_header(self._read, bytes_max=self._limits.proxy_header_bytes_max)
            # From here on it is the transport's, which closes it.
            sock, self._socket = self._socket, None
            assert sock is not None
            await asyncio.get_running_loop().connect_accepted_socket(lambda: make(client), sock, **options)

    async def _read(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        data = b""
        while len(data) < size:
            assert self._socket is not None
            more = await loop.sock_recv(self._socket, size - len(data))
            if not more:
                raise BadHeader("the proxy hung up")
            data += more
        return data

    def turn_away(self, _: object = None) -> None:
        """Close it, if it has not been let in."""
        if self._socket is not None:
            self._socket.close()


async def _accept(listening: socket.socket, admit: Callable[[socket.socket, str], None]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            sock, address = await loop.sock_accept(listening)
        except ConnectionError:
            continue  # who was to be accepted is gone again
        except OSError:
            await asyncio.sleep(_EXHAUSTED_S)
        else:
            admit(sock, address[0])


def listener_for(proxies: TrustedProxies | None) -> SocketListener:
    """The listener that does what these proxies speak."""
    return ProxyListener(proxies) if proxies is not None and proxies.proxy_protocol else SocketListener()


async def _bind(host: str, port: int, *, backlog: int) -> list[socket.socket]:
    """Listening sockets, as the loop's own servers have them: one for each address that the name stands for."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            if os.name == "posix" and sys.platform != "cygwin":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setblocking(False)
            try:
                sock.bind(address)
            except OSError as error:
                # In asyncio's own words, so that all listeners of a node fail alike.
                where, why = address[:2], (error.strerror or "").lower()
                message = f"error while attempting to bind on address {where!r}: {why}"
                raise OSError(error.errno, message) from None
            sock.listen(backlog)
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets
