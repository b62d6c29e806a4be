"""What the adapters on real sockets share: addresses as text, what a link carries, its end of a link, a failed dial."""

import asyncio
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from holdfast.core.silence import Traffic
from holdfast.transports.port import DialError

if sys.platform.startswith("linux"):
    import fcntl
    import termios


def abort(transport: asyncio.Transport) -> None:
    """Cut a link at once, if it still is one: early Pythons 3.11 cannot abort a TLS transport that is closed."""
    with suppress(AttributeError):
        transport.abort()


# tcpi_bytes_acked and tcpi_bytes_received in Linux's struct tcp_info, since 4.1, and as many bytes before them.
_CARRIED = struct.Struct("=120xQQ")
_WAITING = struct.Struct("=i")


def traffic(transport: asyncio.Transport) -> Traffic:
    """What the systems of both ends have taken from each other so far, read or not; nothing where ours does not tell.

    Asked for only when a peer seems silent: to count what is read would cost something for every payload.
    """
    sock = transport.get_extra_info("socket")
    if not sys.platform.startswith("linux") or sock is None:
        return Traffic()
    try:
        taken, received = _CARRIED.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _CARRIED.size))
        (waiting,) = _WAITING.unpack(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(_WAITING.size)))
    except (OSError, struct.error):
        return Traffic()
    return Traffic(received, taken, waiting + transport.get_write_buffer_size())


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
