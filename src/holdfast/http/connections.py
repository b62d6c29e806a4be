"""Accepts connections for the API, and limits them: in total, and per address. uvicorn and the event loop's own servers
have no such limit, and would do a TLS handshake before any of our code runs."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from ssl import SSLContext
from typing import Any, Protocol, cast

from holdfast.core.addresses import address_group
from holdfast.logs import get_logger

_log = get_logger("holdfast.http")
# How long to wait when descriptors or memory run out, as asyncio does.
_EXHAUSTED_S = 1.0


class Limited(Protocol):
    """A connection that is counted."""

    @property
    def is_idle(self) -> bool:
        """Whether it waits for its client: between requests, in the middle of one, or to read its response."""

    def cut(self) -> None:
        """Close it at once."""


class ConnectionLimits:
    """Counts connections by address, or by IPv6 network of 64 bits.

    A full server must not refuse a probe or an operator: the longest idle connection is closed for it. If there are too
    many in total, it is one of the address that has most, so that a few addresses cannot displace the rest.
    """

    def __init__(self, *, per_address_max: int, total_max: int) -> None:
        self._per_address_max = per_address_max
        self._total_max = total_max
        self._total = 0
        # For each address, the most recently active connection is last. There are no empty entries.
        self._by_address: dict[str, dict[Limited, None]] = {}

    def admit(self, connection: Limited, host: str) -> bool:
        """Whether a new connection may stay. An idle one may be closed for it."""
        address = address_group(host)
        own = self._by_address.get(address, {})
        if len(own) >= self._per_address_max and not self._make_room(address):
            return False
        if self._total >= self._total_max:
            largest = max(self._by_address, key=lambda each: len(self._by_address[each]))
            # An address that has as many as the largest closes one of its own.
            if len(own) >= len(self._by_address[largest]):
                largest = address
            if not self._make_room(largest):
                return False
        self._by_address.setdefault(address, {})[connection] = None
        self._total += 1
        return True

    def _make_room(self, address: str) -> bool:
        idle = next((each for each in self._by_address.get(address, {}) if each.is_idle), None)
        if idle is None:
            return False
        self.remove(idle, address)
        idle.cut()
        return True

    def heard(self, connection: Limited, host: str) -> None:
        """A client has sent something."""
        own = self._by_address.get(address_group(host), {})
        if connection in own:
            del own[connection]
            own[connection] = None

    def remove(self, connection: Limited, host: str) -> None:
        """A connection is closed, or is about to be."""
        address = address_group(host)
        own = self._by_address.get(address, {})
        if connection in own:
            del own[connection]
            self._total -= 1
            if not own:
                del self._by_address[address]


class Served(Limited, Protocol):
    """An asyncio protocol that serves one connection."""

    host: str
    opening: asyncio.Task[None] | None
    """The task that makes a transport of its socket."""


class Acceptor:
    """Accepts from a listening socket until it is closed."""

    def __init__(
        self,
        listening: socket.socket,
        limits: ConnectionLimits,
        make: Callable[[], Served],
        *,
        ssl: SSLContext | None,
        handshake_s: float,
    ) -> None:
        self._listening = listening
        self._limits = limits
        self._make = make
        self._options: dict[str, Any] = {} if ssl is None else {"ssl": ssl, "ssl_handshake_timeout": handshake_s}
        # The tasks that make transports, each with its socket until it has started.
        self._opening: dict[asyncio.Task[None], socket.socket | None] = {}
        self._task = asyncio.create_task(self._accept(), name="accepting HTTP")

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(self._listening)
            except ConnectionError:
                continue  # the client has already disconnected
            except OSError as error:
                _log.warning("cannot accept connections at the moment", error=error)
                await asyncio.sleep(_EXHAUSTED_S)
                continue
            connection = self._make()
            connection.host = str(address[0])
            if not self._limits.admit(connection, connection.host):
                sock.close()
                continue
            sock.setblocking(False)
            task = connection.opening = asyncio.create_task(self._open(connection))
            self._opening[task] = sock
            task.add_done_callback(self._opened)

    async def _open(self, connection: Served) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        sock, self._opening[task] = self._opening[task], None
        assert sock is not None
        protocol = cast("asyncio.Protocol", connection)
        try:
            # A failed handshake is the peer's fault, as with the loop's own servers.
            with suppress(OSError):
                await loop.connect_accepted_socket(lambda: protocol, sock, **self._options)
                connection.opening = None
        finally:
            if connection.opening is not None:
                self._limits.remove(connection, connection.host)

    def _opened(self, task: asyncio.Task[None]) -> None:
        sock = self._opening.pop(task)
        if sock is not None:
            # Closed before it started. Afterwards the loop closes the socket, whatever happens.
            sock.close()

    async def close(self) -> None:
        """Accept nothing more, and cancel the handshakes in progress."""
        self._task.cancel()
        for task in self._opening:
            task.cancel()
        await asyncio.wait({self._task, *self._opening})
        self._listening.close()
