"""What every link shares: how it ends, a receiver that raises, addresses as text, and what the system says of a socket.

The body of a WebSocket CLOSE frame and of a TCP close frame are the same: a 16-bit code, then a reason in UTF-8.
"""

import asyncio
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ParamSpec

from holdfast.core.silence import Traffic
from holdfast.logs import get_logger
from holdfast.transports.port import BROKEN, INTERNAL, NO_STATUS, DialError, Transport

# A WebSocket control frame holds 125 bytes (RFC 6455, 5.5), and the code takes two of them.
REASON_BYTES_MAX = 123
CLOSE_BYTES_MAX = 2 + REASON_BYTES_MAX

_log = get_logger("holdfast.transports")
_Arguments = ParamSpec("_Arguments")


def shorten(reason: str) -> str:
    """The reason, cut between two characters where it would not fit."""
    return reason.encode("utf-8", "replace")[:REASON_BYTES_MAX].decode("utf-8", "ignore")


def pack_close(code: int, reason: str) -> bytes:
    """The body of a close frame; an empty one says no more than that it is one."""
    if code == NO_STATUS:
        return b""
    return code.to_bytes(2, "big") + shorten(reason).encode()


def unpack_close(body: bytes) -> tuple[int, str]:
    """The code and the reason that a peer closed with; BROKEN for a code that must not be sent."""
    if not body:
        return NO_STATUS, ""
    code = int.from_bytes(body[:2], "big")
    if not _may_be_sent(code):
        return BROKEN, "the close code is not one that may be sent"
    try:
        return code, body[2:].decode()
    except UnicodeDecodeError:
        return BROKEN, "the close reason is not UTF-8"


def _may_be_sent(code: int) -> bool:
    # RFC 6455, 7.4: 1004 is reserved, 1005 and 1006 are what an end tells itself; 3000 and up are for applications.
    return (1000 <= code <= 1014 and code not in {1004, 1005, 1006}) or 3000 <= code <= 4999  # noqa: PLR2004 - the RFC's


def tell(
    transport: Transport,
    method: Callable[_Arguments, None],
    *args: _Arguments.args,
    **kwargs: _Arguments.kwargs,
) -> None:
    """Call a method of the link's receiver; one that raises loses the link and harms nothing else."""
    try:
        method(*args, **kwargs)
    except Exception:  # noqa: BLE001 - a receiver's bug is contained in its link
        failed(transport)


def failed(transport: Transport) -> None:
    """Log the exception that a receiver raised, and close its link without telling the peer more than that."""
    _log.exception("the receiver of a link raised", transport=transport.kind, peer=transport.peer)
    transport.close(INTERNAL, "")


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
