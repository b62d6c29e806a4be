"""What all links share: close codes, receivers that raise, addresses as text, and the system's counts for a socket.

The bodies of a WebSocket CLOSE frame and of a TCP close frame are the same: a 16-bit code, then a reason in UTF-8.
"""

import asyncio
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ParamSpec, Protocol

from holdfast.core.connection import Traffic
from holdfast.logs import get_logger
from holdfast.transports.port import BROKEN, INTERNAL, NO_STATUS, DialError, Transport

# A WebSocket control frame holds 125 bytes (RFC 6455, 5.5), and the code takes two of them.
REASON_BYTES_MAX = 123
CLOSE_BYTES_MAX = 2 + REASON_BYTES_MAX

_log = get_logger("holdfast.transports")
_Arguments = ParamSpec("_Arguments")


def shorten(reason: str) -> str:
    """The reason, cut between two characters if it does not fit."""
    return reason.encode("utf-8", "replace")[:REASON_BYTES_MAX].decode("utf-8", "ignore")


def pack_close(code: int, reason: str) -> bytes:
    """The body of a close frame; empty if there is no code."""
    if code == NO_STATUS:
        return b""
    return code.to_bytes(2, "big") + shorten(reason).encode()


def unpack_close(body: bytes) -> tuple[int, str]:
    """The code and the reason of a peer's close; BROKEN for a code that must not be sent."""
    if not body:
        return NO_STATUS, ""
    code = int.from_bytes(body[:2], "big")
    if not _may_be_sent(code):
        return BROKEN, "the close code must not be sent"
    try:
        return code, body[2:].decode()
    except UnicodeDecodeError:
        return BROKEN, "the close reason is not UTF-8"


def close_code(number: int) -> int:
    """A peer's close code that came without a reason; BROKEN if it must not be sent."""
    return number if _may_be_sent(number) else BROKEN


def _may_be_sent(code: int) -> bool:
    # RFC 6455, 7.4: 1004 is reserved, 1005 and 1006 are never sent; 3000 and up are for applications.
    return (1000 <= code <= 1014 and code not in {1004, 1005, 1006}) or 3000 <= code <= 4999  # noqa: PLR2004 - the RFC's


def tell(
    transport: Transport,
    method: Callable[_Arguments, None],
    *args: _Arguments.args,
    **kwargs: _Arguments.kwargs,
) -> None:
    """Call a method of the link's receiver; if it raises, only this link is closed."""
    try:
        method(*args, **kwargs)
    except Exception:  # noqa: BLE001 - a receiver's bug is contained in its link
        failed(transport)


def failed(transport: Transport) -> None:
    """Log the exception of a receiver, and close its link without details for the peer."""
    _log.exception("the receiver of a link raised", transport=transport.kind, peer=transport.peer)
    transport.close(INTERNAL, "")


def ignored(_: bytes) -> None:
    """Takes a payload of a link that has ended."""


if sys.platform.startswith("linux"):
    import fcntl
    import termios


class Abortable(Protocol):
    """A link that can be cut."""

    def abort(self) -> None:
        """Close at once."""


def abort(transport: Abortable) -> None:
    """Abort a link, if it is still open: early versions of Python 3.11 cannot abort a closed TLS transport."""
    with suppress(AttributeError):
        transport.abort()


# The offset of tcpi_bytes_acked and tcpi_bytes_received in Linux's struct tcp_info, since 4.1.
_CARRIED = struct.Struct("=120xQQ")
_WAITING = struct.Struct("=i")


def traffic(transport: asyncio.Transport) -> Traffic:
    """The bytes that the systems of both ends have taken from each other, read or not; zero where ours does not tell.

    Called only when a peer seems silent: counting every read would cost something for every payload.
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
    """A socket's address as text; a disconnected peer has none."""
    if address is None:
        return "unknown"
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def unreachable(url: str, error: OSError) -> DialError:
    """The port's error for a failed connection attempt."""
    if isinstance(error, TimeoutError):
        return DialError(f"{url} did not answer in time")
    return DialError(f"{url} cannot be reached: {error}")
