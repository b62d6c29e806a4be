"""Listening sockets, and the steps of every connection up to its handshake.

    accepted -> counted, or closed at once -> PROXY header, of a proxy -> TLS -> preface or HTTP upgrade -> a link

asyncio's own servers would do most of it, but they neither count the connections in these steps nor limit their time.
A pending connection was accepted and is not a link yet. Each costs a descriptor and some memory before anybody has
authenticated. When there are too many, the newest is refused, not the oldest: it has cost nothing yet. In a storm,
closing the oldest would make all clients start again and none finish.
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

from holdfast.core.addresses import AddressShares
from holdfast.logs import get_logger
from holdfast.transports.links import Abortable, abort
from holdfast.transports.port import TransportLimits
from holdfast.transports.proxies import Address, BadHeader, TrustedProxies, read_header

Refused = Callable[[str, str], None]
"""Called with the limit by which a connection was refused ("" for none), and its address as far as it is known."""

UNKNOWN = ""
"""The address of a connection while only its proxy is known."""


class PendingConnections:
    """Counts the pending connections of all listeners of a server, by address."""

    def __init__(
        self,
        limits: TransportLimits,
        refused: Refused = lambda _limit, _host: None,
        shares: AddressShares | None = None,
    ) -> None:
        self._limits = limits
        self._shares = shares or AddressShares(1.0)
        self.refused = refused
        self.count = 0
        # By address or IPv6 network of 64 bits; no more entries than pending connections.
        self._by_holder: dict[str, int] = {}

    def came(self, sock: socket.socket | None, host: str) -> "PendingConnection | None":
        """A connection was accepted; None if it exceeds a limit, and then its socket, if it has one, is closed."""
        holder = None
        if self.count >= self._limits.unopened_max:
            self.refused("unopened_max", host)
        else:
            holder = self.enter(host)
        if holder is None:
            if sock is not None:
                sock.close()
            return None
        self.count += 1
        return PendingConnection(self, sock, holder, self._limits.handshake_s)

    def enter(self, host: str) -> str | None:
        """Count one more connection of this address; returns the key it is counted under, or None if it exceeds the
        limit."""
        holder = self._shares.holder_of(host)
        if holder == UNKNOWN:
            # The client of a proxy that has not named it yet, or one from a network that may use the whole pool.
            return UNKNOWN
        count = self._by_holder.get(holder, 0)
        if count >= self._limits.unopened_per_address_max:
            self.refused("address_share", host)
            return None
        self._by_holder[holder] = count + 1
        return holder

    def went(self, holder: str) -> None:
        """A connection has become a link, or closed."""
        self.count -= 1
        if holder != UNKNOWN:
            self._by_holder[holder] -= 1
            if not self._by_holder[holder]:
                del self._by_holder[holder]


class PendingConnection:
    """One pending connection. All steps from being accepted to an open link share one deadline."""

    __slots__ = ("_deadline", "_holder", "_pending_connections", "client", "sock", "task", "transport")

    def __init__(
        self, pending_connections: PendingConnections, sock: socket.socket | None, holder: str, handshake_s: float
    ) -> None:
        self._pending_connections = pending_connections
        self.sock: socket.socket | None = sock
        """The accepted socket, until a transport owns it; None if all connections share one."""
        self._holder = holder
        self._deadline: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(handshake_s, self._cut)
        self.transport: Abortable | None = None
        """Once it only lacks the handshake."""
        self.task: asyncio.Task[None] | None = None
        """The task that makes a transport of it."""
        self.client: Address | None = None
        """The client that a proxy named (PROXY protocol); None means the peer of the socket."""

    @property
    def is_over(self) -> bool:
        return self._deadline is None

    def is_for(self, client: Address) -> bool:
        """A proxy named the client: whether one more connection of that address is allowed."""
        holder = self._pending_connections.enter(client[0])
        if holder is None:
            return False
        self.client, self._holder = client, holder
        return True

    def not_understood(self) -> None:
        """It used another protocol."""
        self._pending_connections.refused("", self._holder)

    def hand_over(self) -> socket.socket:
        """The socket, for a transport, which closes it."""
        sock, self.sock = self.sock, None
        assert sock is not None
        return sock

    def over(self) -> None:
        """Stop counting it: it has become a link, or closed."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._pending_connections.went(self._holder)
        if self.sock is not None:
            self.sock.close()
        # Its protocol keeps this object for as long as the link is open.
        self.transport = self.task = None

    def _cut(self) -> None:
        transport = self.transport
        if transport is not None:
            self.over()
            abort(transport)
        elif self.task is not None:
            # `over` follows when the task has ended: it may still be waiting for the socket.
            self.task.cancel()
        else:
            self.over()


MakeProtocol = Callable[[PendingConnection], asyncio.BaseProtocol]
"""Makes the protocol of a connection, which calls `over` as soon as it is a link, or closed."""

# The backlog in the kernel: many clients return at once after an outage. It is Linux's default limit.
_BACKLOG = 4096
# Connections accepted in one loop iteration, and those that continue from there: more would delay all other clients.
# Accepting is cheap, and a client that the kernel refuses retries only after one, two, four seconds.
_ACCEPTED_PER_TURN = 256
_LET_IN_PER_TURN = 64
# When this part of the pending pool is used, pause between two iterations: this waits for clients that connect faster
# than they send, such as thousands in one program. Further clients wait in the kernel, below our limit. The pause is
# short, so that silent peers cannot delay the others for long.
_CROWD = 0.75
_CROWD_PAUSE_S = 0.05
# Out of descriptors or memory: pause, as asyncio does.
_EXHAUSTED_S = 1.0

_log = get_logger("holdfast.transports")


class SocketListener:
    """A listening port; `closed` is for the handshakes in progress when it closes."""

    def __init__(self, pending_connections: PendingConnections, proxies: TrustedProxies | None = None) -> None:
        """Connections begin with a PROXY header only if they come from proxies that use the protocol."""
        self.addresses: Sequence[tuple[str, int]] = ()
        self.closed = False
        self._pending_connections = pending_connections
        self._proxies = proxies
        self._make: MakeProtocol | None = None
        self._options: dict[str, Any] = {}
        self._header_bytes_max = 0
        self._sockets: list[socket.socket] = []
        self._crowd = 0.0
        # Accepted connections that have not continued.
        self._waiting: deque[tuple[PendingConnection, bool]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(
        self,
        make: MakeProtocol,
        host: str,
        port: int,
        *,
        limits: TransportLimits,
        ssl: SSLContext | None,
        sockets: Sequence[socket.socket] = (),
    ) -> None:
        """Listen, and create a protocol for each connection. `sockets` listen already, instead of `host` and `port`."""
        self._make = make
        if ssl is not None:
            self._options = {
                "ssl": ssl,
                "ssl_handshake_timeout": limits.handshake_s,
                "ssl_shutdown_timeout": limits.close_s,
            }
        self._header_bytes_max = limits.proxy_header_bytes_max
        self._crowd = _CROWD * min(limits.unopened_per_address_max, limits.unopened_max)
        self._sockets = list(sockets) or await bind(host, port, limits)
        self.addresses = [sock.getsockname()[:2] for sock in self._sockets]
        for sock in self._sockets:
            self._listen(sock)

    def listen_also(self, sockets: Sequence[socket.socket]) -> None:
        """Accept the clients of these sockets too: nobody else accepts them now."""
        for sock in sockets:
            if sock not in self._sockets:
                self._sockets.append(sock)
                self._listen(sock)

    def leave(self, sockets: Sequence[socket.socket]) -> None:
        """Accept no more clients of these sockets: somebody else does. They stay open."""
        for sock in sockets:
            if sock in self._sockets:
                self._sockets.remove(sock)
                with suppress(NotImplementedError):
                    asyncio.get_running_loop().remove_reader(sock)

    def _listen(self, listening: socket.socket) -> None:
        if not self.closed and listening in self._sockets:
            try:
                asyncio.get_running_loop().add_reader(listening, self._accept, listening)
            except NotImplementedError:  # Windows' event loop
                self._keep(asyncio.create_task(self._accept_one_by_one(listening)))

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_PER_TURN):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # the peer has already disconnected
            except OSError as error:
                _log.warning("cannot accept connections at the moment", error=error)
                self._pause(listening, _EXHAUSTED_S)
                return
            self._admit(sock, address[0])
        if self._pending_connections.count >= self._crowd:
            self._pause(listening, _CROWD_PAUSE_S)

    async def _accept_one_by_one(self, listening: socket.socket) -> None:
        """Like `_accept`, for event loops without readers."""
        loop = asyncio.get_running_loop()
        while not self.closed:
            try:
                sock, address = await loop.sock_accept(listening)
            except OSError as error:
                _log.warning("cannot accept connections at the moment", error=error)
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
            self._pending_connections.refused("trusted_proxies", host)
            sock.close()
            return
        # A proxy's own address is not counted, but that of the client it names.
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
        """Make a transport of it, after its PROXY header if it comes from a proxy."""
        # Failures here are the peer's fault, as with the loop's own servers.
        with suppress(OSError, BadHeader):
            if is_proxy and self._proxies is not None and self._proxies.proxy_protocol:
                assert pending.sock is not None
                client = await read_header(partial(_read, pending.sock), bytes_max=self._header_bytes_max)
                if client is not None and not pending.is_for(client):
                    pending.over()
                    return
            assert self._make is not None
            sock, protocol = pending.hand_over(), self._make(pending)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, **self._options)
            if not pending.is_over:
                pending.transport = transport
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
    """Exactly `size` bytes, and none beyond."""
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < size:
        more = await loop.sock_recv(sock, size - len(data))
        if not more:
            raise BadHeader("the proxy closed the connection")
        data += more
    return data


async def bind(host: str, port: int, limits: TransportLimits, *, is_shared: bool = False) -> list[socket.socket]:
    """Listening sockets, like those of the loop's own servers: one for each address of the name.

    With `is_shared`, more of them can be bound to the same port, and each gets a part of the clients.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            if os.name == "posix" and sys.platform != "cygwin":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if is_shared:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # Accepted sockets inherit this if it is set before the first of them. Everything a peer can send before the
            # next read is read at once, and picows' read buffer doubles until it holds that: by default the system
            # would accept megabytes.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.payload_bytes_max // 4)
            sock.setblocking(False)
            bind_to(sock, address)
            sock.listen(_BACKLOG)
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def bind_to(sock: socket.socket, address: Any) -> None:
    """Bind it; `OSError` in asyncio's own words, so that all listeners of a node fail alike."""
    try:
        sock.bind(address)
    except OSError as error:
        where, why = address[:2], (error.strerror or "").lower()
        raise OSError(error.errno, f"error while attempting to bind on address {where!r}: {why}") from None
