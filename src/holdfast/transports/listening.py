"""Listening sockets, and the way of every connection from there to its handshake.

    accepted -> counted, or closed at once -> PROXY header, of a proxy -> TLS -> preface or HTTP upgrade -> a link

asyncio's own servers would do most of it, but they know neither how many connections are on this way nor when it takes
too long. A pending connection was accepted and is not a link yet. Each costs a descriptor and some memory before
anybody knows who it is. When there are too many, the newest is refused, not the oldest: it has cost nothing yet. In a
storm, cutting off the oldest would make everybody begin again and nobody finish.
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

from holdfast.core.address_quota import AddressShares
from holdfast.logs import get_logger
from holdfast.transports.links import abort
from holdfast.transports.port import TransportLimits
from holdfast.transports.proxies import Address, BadHeader, TrustedProxies, read_header

Refused = Callable[[str, str], None]
"""Called with the limit by which a connection was refused ("" for none), and its address as far as it is known."""

UNKNOWN = ""
"""The address of a connection, as long as only the proxy that passes it on is known."""


class PendingConnections:
    """Counts the pending connections of all listeners of a server together, by address."""

    def __init__(
        self,
        limits: TransportLimits,
        refused: Refused = lambda _limit, _host: None,
        shares: AddressShares | None = None,
    ) -> None:
        self._limits = limits
        self._shares = shares or AddressShares(1.0)
        self._refused = refused
        self.count = 0
        # By address or IPv6 network of 64 bits; no more entries than there are pending connections.
        self._by_holder: dict[str, int] = {}

    def came(self, sock: socket.socket, host: str) -> "PendingConnection | None":
        """A connection was accepted; None if that is one too many, and then it is closed."""
        holder = None
        if self.count >= self._limits.unopened_max:
            self._refused("unopened_max", host)
        else:
            holder = self.enter(host)
        if holder is None:
            sock.close()
            return None
        self.count += 1
        return PendingConnection(self, sock, holder, self._limits.handshake_s)

    def refuse(self, sock: socket.socket, limit: str, host: str) -> None:
        """Close a connection that may not be here."""
        self._refused(limit, host)
        sock.close()

    def enter(self, host: str) -> str | None:
        """Count one more of this address; the key it is counted under, or None if that is one too many."""
        holder = self._shares.holder_of(host)
        if holder == UNKNOWN:
            # The client of a proxy that has not named it yet, or one from a network that has the whole pool.
            return UNKNOWN
        count = self._by_holder.get(holder, 0)
        if count >= self._limits.unopened_per_address_max:
            self._refused("address_share", host)
            return None
        self._by_holder[holder] = count + 1
        return holder

    def not_understood(self, holder: str) -> None:
        """One of them spoke another protocol."""
        self._refused("", holder)

    def went(self, holder: str) -> None:
        """One of them is a link now, or gone."""
        self.count -= 1
        if holder != UNKNOWN:
            self._by_holder[holder] -= 1
            if not self._by_holder[holder]:
                del self._by_holder[holder]


class PendingConnection:
    """One of them. From being accepted to an open link there is one deadline, however many steps lie between."""

    __slots__ = ("_deadline", "_holder", "_pending_connections", "_socket", "_transport", "client", "task")

    def __init__(
        self, pending_connections: PendingConnections, sock: socket.socket, holder: str, handshake_s: float
    ) -> None:
        self._pending_connections = pending_connections
        self._socket: socket.socket | None = sock
        self._holder = holder
        self._deadline: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(handshake_s, self._cut)
        self._transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] | None = None
        """Who makes a transport of it."""
        self.client: Address | None = None
        """Whom a proxy named in front of it (PROXY protocol); without a name it is the socket's other end."""

    @property
    def accepted(self) -> socket.socket:
        """What was accepted, until a transport has it."""
        assert self._socket is not None
        return self._socket

    @property
    def is_over(self) -> bool:
        """It is a link now, or gone."""
        return self._deadline is None

    def is_for(self, client: Address) -> bool:
        """A proxy says whose it is: whether there may be one more of those."""
        holder = self._pending_connections.enter(client[0])
        if holder is None:
            return False
        self.client, self._holder = client, holder
        return True

    def not_understood(self) -> None:
        """It spoke another protocol, and is refused for that."""
        self._pending_connections.not_understood(self._holder)

    def hand_over(self) -> socket.socket:
        """The socket, for a transport, which closes it."""
        sock, self._socket = self.accepted, None
        return sock

    def made(self, transport: asyncio.Transport) -> None:
        """It has a transport, and lacks nothing but the handshake."""
        self._transport = transport

    def over(self) -> None:
        """No longer count it: it is a link now, or gone."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._pending_connections.went(self._holder)
        if self._socket is not None:
            self._socket.close()

    def _cut(self) -> None:
        if self._transport is not None:
            self.over()
            abort(self._transport)
        elif self.task is not None:
            # When that has ended, it is over: not before, for it may be waiting for the socket.
            self.task.cancel()
        else:
            self.over()


MakeProtocol = Callable[[PendingConnection], asyncio.BaseProtocol]
"""Makes the protocol of a connection, which calls `over` as soon as it is a link, or gone."""

# Connections that the kernel completes while we are busy: many clients come back at once after a cut. It is what Linux
# allows by default.
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
    """A port that listens; `closed` is for the handshakes that are under way when it closes."""

    def __init__(self, pending_connections: PendingConnections, proxies: TrustedProxies | None = None) -> None:
        """Only connections from proxies that speak the PROXY protocol begin with its header."""
        self.addresses: Sequence[tuple[str, int]] = ()
        self.closed = False
        self._pending_connections = pending_connections
        self._proxies = proxies
        self._make: MakeProtocol | None = None
        self._options: dict[str, Any] = {}
        self._header_bytes_max = 0
        self._sockets: list[socket.socket] = []
        self._crowd = 0.0
        # Who was accepted and has not gone on.
        self._waiting: deque[tuple[PendingConnection, bool]] = deque()
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
                continue  # the peer is gone again
            except OSError as error:
                _log.warning("no connection can be accepted for a moment", error=error)
                self._pause(listening, _EXHAUSTED_S)
                return
            self._admit(sock, address[0])
        if self._pending_connections.count >= self._crowd:
            self._pause(listening, _CROWD_PAUSE_S)

    async def _accept_one_by_one(self, listening: socket.socket) -> None:
        """As `_accept`, for loops without readers."""
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
            self._pending_connections.refuse(sock, "trusted_proxies", host)
            return
        # A proxy's own address does not count: the client's does, once the proxy has named it.
        pending = self._pending_connections.came(sock, UNKNOWN if is_proxy else host)
        if pending is None:
            return
        sock.setblocking(False)
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._let_some_in)
        self._waiting.append((pending, is_proxy))

    def _let_some_in(self) -> None:
        for _ in range(min(_LET_IN_PER_TURN, len(self._waiting))):
            pending, is_proxy = self._waiting.popleft()
            if pending.is_over:
                continue
            task = pending.task = asyncio.create_task(self._let_in(pending, is_proxy=is_proxy))
            self._keep(task)
            task.add_done_callback(partial(_given_up, pending))
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._let_some_in)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _let_in(self, pending: PendingConnection, *, is_proxy: bool) -> None:
        """Make a transport of it, after its header if it is a proxy's."""
        # Whatever fails here is the peer's affair, as with the loop's own servers.
        with suppress(OSError, BadHeader):
            if is_proxy and self._proxies is not None and self._proxies.proxy_protocol:
                client = await read_header(partial(_read, pending.accepted), bytes_max=self._header_bytes_max)
                if client is not None and not pending.is_for(client):
                    pending.over()
                    return
            assert self._make is not None
            sock, protocol = pending.hand_over(), self._make(pending)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, **self._options)
            pending.made(transport)
            return
        pending.over()

    async def close(self) -> None:
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


def _given_up(pending: PendingConnection, task: asyncio.Task[None]) -> None:
    if task.cancelled():
        pending.over()


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
