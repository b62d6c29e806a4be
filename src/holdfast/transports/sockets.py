"""What the adapters on real sockets share: addresses as text, the end of a link, a failed dial."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from holdfast.transports.port import DialError


def abort(transport: asyncio.Transport) -> None:
    """Cut a link at once, if it still is one: early Pythons 3.11 cannot abort a TLS transport that is closed."""
    with suppress(AttributeError):
        transport.abort()


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
