"""What the adapters on real sockets share: the listener, addresses as text, the options of a server, a failed dial."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from ssl import SSLContext
from typing import Any

from holdfast.transports.forwarded import Address
from holdfast.transports.port import DialError, TransportLimits

MakeProtocol = Callable[[Address | None], asyncio.BaseProtocol]
"""Makes the protocol of a connection that was accepted, for the client that a proxy named, if one did."""

# Connections that the kernel completes while we are busy: many clients come back at once after a cut. asyncio also
# accepts up to this many in one turn of the loop, so more would make everybody else wait.
_BACKLOG = 1024


def abort(transport: asyncio.Transport) -> None:
    """Cut a link at once, if it still is one: early Pythons 3.11 cannot abort a TLS transport that is closed."""
    with suppress(AttributeError):
        transport.abort()


class SocketListener:
    """A listening server; `closed` is for the handshakes that are under way when it closes."""

    def __init__(self) -> None:
        self.addresses: Sequence[tuple[str, int]] = ()
        self.closed = False
        self._server: asyncio.Server | None = None

    async def open(
        self, make: MakeProtocol, host: str, port: int, *, limits: TransportLimits, ssl: SSLContext | None
    ) -> None:
        """Listen, and make a protocol for each connection."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: make(None), host, port, **server_options(limits, ssl))
        self.addresses = [sock.getsockname()[:2] for sock in self._server.sockets]
        for sock in self._server.sockets:
            # Those that are accepted inherit it. What a peer can send before we look at it again is read in one go, and
            # picows' read buffer doubles until it holds that: by default, the system would take megabytes.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.payload_bytes_max // 4)

    async def close(self) -> None:
        """Accept nobody any more; see the port."""
        self.closed = True
        if self._server is not None:
            # Not `wait_closed`: since Python 3.12 it waits for the open links too.
            self._server.close()


def server_options(limits: TransportLimits, ssl: SSLContext | None) -> dict[str, Any]:
    """The arguments of `loop.create_server`: strangers have limits before they have said a word."""
    options: dict[str, Any] = {"backlog": _BACKLOG}
    if ssl is not None:
        options |= {
            "ssl": ssl,
            "ssl_handshake_timeout": limits.handshake_s,
            "ssl_shutdown_timeout": limits.close_s,
        }
    return options


def peer_name(address: Sequence[Any] | None) -> str:
    """A socket's address as the port writes it; a peer that is gone already has none."""
    if address is None:
        return "unknown"
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def unreachable(url: str, error: OSError) -> DialError:
    """The port's error for a connection that the system could not make."""
    if isinstance(error, TimeoutError):
        return DialError(f"{url} did not answer in time")
    return DialError(f"{url} cannot be reached: {error}")
