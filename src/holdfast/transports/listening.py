"""Listening sockets, and the way of every connection from there to its handshake.

    accepted -> counted, or closed at once -> PROXY header, of a proxy -> TLS -> preface or HTTP upgrade -> a link

asyncio's own servers would do most of it, but know neither how many are on this way nor when the way is too long.
"""

import asyncio
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from ssl import SSLContext
from typing import Any

from holdfast.logs import get_logger
from holdfast.transports.arrivals import UNKNOWN, Arrival, Arrivals
from holdfast.transports.forwarded import TrustedProxies
from holdfast.transports.port import TransportLimits
from holdfast.transports.proxy import BadHeader, read_header

MakeProtocol = Callable[[Arrival], asyncio.BaseProtocol]
"""Makes the protocol of a connection, which tells the arrival when it is `over`: as soon as it is a link, or gone."""

# Connections that the kernel completes while we are busy: many clients come back at once after a cut. It is what Linux
# allows if nobody changed it.
_BACKLOG = 4096
# Those that are accepted in one turn of the loop, and those that go on from there: more would make everybody else wait.
# To accept one is cheap, and whom the kernel has no place for tries again after a second, and then after two and four.
_ACCEPTED_PER_TURN = 256
_LET_IN_PER_TURN = 64
# When that much of what may be on its way is, a pause between two such turns: clients that connect faster than they
# speak, as thousands of them in one program do, are waited for. The next wait in the kernel, and are not too many for
# us. It is short, so that those who never speak cannot keep the others waiting for long.
_CROWD = 0.75
_CROWD_PAUSE_S = 0.05
# Out of descriptors or memory: a pause, as asyncio makes it.
_EXHAUSTED_S = 1.0

_log = get_logger("holdfast.transports")


class SocketListener:
    """An open door; `closed` is for the handshakes that are under way when it closes."""

    def __init__(self, arrivals: Arrivals, proxies: TrustedProxies | None = None) -> None:
        """Proxies that speak the PROXY protocol begin with a header, nobody else does."""
        self.addresses: Sequence[tuple[str, int]] = ()
        self.closed = False
        self._arrivals = arrivals
        self._proxies = proxies
        self._make: MakeProtocol | None = None
        self._options: dict[str, Any] = {}
        self._header_bytes_max = 0
        self._sockets: list[socket.socket] = []
        self._crowd = 0.0
        # Who was accepted and has not gone on.
        self._waiting: deque[tuple[Arrival, bool]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(
        self, make: MakeProtocol, host: str, port: int, *, limits: TransportLimits, ssl: SSLContext | None
    ) -> None:
        """Listen, and make a protocol for each connection."""
        self._make = make
        if ssl is not None:
            self._options = {
                "ssl": ssl,
                "ssl_handshake_timeout": limits.handshake_s,
                "ssl_shutdown_timeout": limits.close_s,
            }
        self._header_bytes_max = limits.proxy_header_bytes_max
        self._crowd = _CROWD * min(limits.unopened_per_address_max, limits.unopened_max)
        self._sockets = await _bind(host, port, limits)
        self.addresses = [sock.getsockname()[:2] for sock in self._sockets]
        for sock in self._sockets:
            self._listen(sock)

    def _listen(self, listening: socket.socket) -> None:
        if not self.closed:
            try:
                asyncio.get_running_loop().add_reader(listening, self._accept, listening)
            except NotImplementedError:  # the loop of Windows
                self._keep(asyncio.create_task(self._accept_one_by_one(listening)))

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_PER_TURN):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # who was to be accepted is gone again
            except OSError as error:
                _log.warning("no connection can be accepted for a moment", error=error)
                self._pause(listening, _EXHAUSTED_S)
                return
            self._admit(sock, address[0])
        if self._arrivals.count >= self._crowd:
            self._pause(listening, _CROWD_PAUSE_S)

    async def _accept_one_by_one(self, listening: socket.socket) -> None:
        """As `_accept`, where a loop cannot tell that somebody is there."""
        loop = asyncio.get_running_loop()
        while not self.closed:
            try:
                sock, address = await loop.sock_accept(listening)
            except OSError as error:
                _log.warning("no connection can be accepted for a moment", error=error)
                await asyncio.sleep(_EXHAUSTED_S)
            else:
                self._admit(sock, address[0])

    def _pause(self, listening: socket.socket, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(seconds, self._listen, listening)

    def _admit(self, sock: socket.socket, host: str) -> None:
        is_proxy = self._proxies is not None and self._proxies.trusts(host)
        if self._proxies is not None and self._proxies.is_exclusive and not is_proxy:
            self._arrivals.refuse(sock, "trusted_proxies", host)
            return
        # A proxy is no household: who stands behind it is known when it has said so.
        arrival = self._arrivals.came(sock, UNKNOWN if is_proxy else host)
        if arrival is None:
            return
        sock.setblocking(False)
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._let_some_in)
        self._waiting.append((arrival, is_proxy))

    def _let_some_in(self) -> None:
        for _ in range(min(_LET_IN_PER_TURN, len(self._waiting))):
            arrival, is_proxy = self._waiting.popleft()
            if arrival.is_over:
                continue
            task = arrival.task = asyncio.create_task(self._let_in(arrival, is_proxy=is_proxy))
            self._keep(task)
            task.add_done_callback(partial(_given_up, arrival))
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._let_some_in)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _let_in(self, arrival: Arrival, *, is_proxy: bool) -> None:
        """Make a transport of it, after its header if it is a proxy's."""
        # Whatever fails here is the peer's affair, as with the loop's own servers.
        with suppress(OSError, BadHeader):
            if is_proxy and self._proxies is not None and self._proxies.proxy_protocol:
                client = await read_header(partial(_read, arrival.accepted), bytes_max=self._header_bytes_max)
                if client is not None and not arrival.is_for(client):
                    arrival.over()
                    return
            assert self._make is not None
            sock, protocol = arrival.hand_over(), self._make(arrival)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, **self._options)
            arrival.made(transport)
            return
        arrival.over()

    async def close(self) -> None:
        """Accept nobody any more; see the port."""
        self.closed = True
        loop = asyncio.get_running_loop()
        for sock in self._sockets:
            with suppress(NotImplementedError):
                loop.remove_reader(sock)
            sock.close()
        self._sockets.clear()
        while self._waiting:
            self._waiting.popleft()[0].over()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))


def _given_up(arrival: Arrival, task: asyncio.Task[None]) -> None:
    if task.cancelled():
        arrival.over()


async def _read(sock: socket.socket, size: int) -> bytes:
    """Exactly so many bytes, and not one further."""
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < size:
        more = await loop.sock_recv(sock, size - len(data))
        if not more:
            raise BadHeader("the proxy hung up")
        data += more
    return data


async def _bind(host: str, port: int, limits: TransportLimits) -> list[socket.socket]:
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
            # Those that are accepted inherit it, if it is there before the first of them. What a peer can send before
            # we look at it again is read in one go, and picows' read buffer doubles until it holds that: by default,
            # the system would take megabytes.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.payload_bytes_max // 4)
            sock.setblocking(False)
            try:
                sock.bind(address)
            except OSError as error:
                # In asyncio's own words, so that all listeners of a node fail alike.
                where, why = address[:2], (error.strerror or "").lower()
                message = f"error while attempting to bind on address {where!r}: {why}"
                raise OSError(error.errno, message) from None
            sock.listen(_BACKLOG)
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets
