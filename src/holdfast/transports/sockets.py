"""What the adapters on real sockets share: the listener, addresses as text, the options of a server, a failed dial."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from ssl import SSLContext
from typing import Any

from holdfast.transports.port import DialError, TransportLimits

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

    def serves(self, server: asyncio.Server) -> None:
        """The server runs: from now on it can be closed."""
        self._server = server
        self.addresses = [sock.getsockname()[:2] for sock in server.sockets]

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
