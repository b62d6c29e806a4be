"""WebSocket's compression, permessage-deflate (RFC 7692), without a socket: the negotiation, and the messages.

Browsers offer it automatically. Whatever they offer, no state is kept between messages, in either direction ("no
context takeover"). With zlib's state, each link would cost 300 KiB, or 48 KiB with a small window, and every browser
would have one; without, it costs nothing between two messages. And a message that cannot refer to another one reveals
nothing of it by its size. The price: short messages compress less.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

NAME: Final = "permessage-deflate"

WINDOW_BITS: Final = 12
"""The window of the server's messages, as a power of two: a larger one would take longer to set up."""
SMALL_BYTES: Final = 48
"""Smaller payloads are not deflated: there is little to gain, and zlib costs as much as all other processing."""

# The fastest level; and zlib's memory besides the window, while one message is deflated.
_LEVEL: Final = 1
_MEMORY_LEVEL: Final = 5
# The window of a client's messages: the largest, as clients need not accept a smaller one.
_CLIENT_WINDOW_BITS: Final = 15

_FLUSH_TAIL: Final = b"\x00\x00\xff\xff"
# An empty last block: it can be decoded only after all blocks before it.
_LAST_BLOCK: Final = b"\x03\x00"
# A message may consist of several complete streams. Real clients send one; each costs time.
_STREAMS_MAX: Final = 8


def wire_bytes_max(payload_bytes_max: int) -> int:
    """The largest size of a compressed payload of this size: DEFLATE adds a little to incompressible data."""
    return payload_bytes_max + payload_bytes_max // 16 + 16


# Negotiation


@dataclass(frozen=True, slots=True)
class Agreement:
    """An accepted offer."""

    answer: str
    """The server's answer, for the response header."""
    window_bits: int = WINDOW_BITS
    """The window of the server's messages."""


_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - a token, in HTTP's sense
_EXTENSION = re.compile(rf"[ \t,]*({_TOKEN})[ \t]*")
_PARAMETER = re.compile(rf';[ \t]*({_TOKEN})[ \t]*(?:=[ \t]*(?:({_TOKEN})|"((?:[^"\\]|\\.)*)")[ \t]*)?')
_WORD = re.compile(_TOKEN)

_Parameters = list[tuple[str, str | None]]

_CLIENT_BITS: Final = frozenset(map(str, range(8, 16)))
# zlib cannot write a raw stream with a window of 2^8.
_SERVER_BITS: Final = frozenset(map(str, range(9, 16)))


def agreed(headers: Iterable[str]) -> Agreement | None:
    """The first acceptable offer in the lines of Sec-WebSocket-Extensions; None if there is none."""
    try:
        offers = [parameters for name, parameters in _extensions(",".join(headers)) if name == NAME]
    except _Malformed:
        # The boundaries between the extensions are unclear: none of them is accepted.
        return None
    return next(filter(None, map(_accepted, offers)), None)


class _Malformed(Exception):
    """A header violates RFC 6455, 9.1."""


def _extensions(header: str) -> Iterator[tuple[str, _Parameters]]:
    end = len(header.rstrip(" \t,"))
    position = 0
    while position < end:
        extension = _EXTENSION.match(header, position)
        if extension is None:
            raise _Malformed
        position = extension.end()
        parameters: _Parameters = []
        while parameter := _PARAMETER.match(header, position):
            position = parameter.end()
            parameters.append(_parameter(*parameter.groups()))
        if position < end and header[position] != ",":
            raise _Malformed
        yield extension[1], parameters


def _parameter(name: str, word: str | None, quoted: str | None) -> tuple[str, str | None]:
    if quoted is None:
        return name, word
    value = re.sub(r"\\(.)", r"\1", quoted)
    if not _WORD.fullmatch(value):
        raise _Malformed
    return name, value


def _accepted(parameters: _Parameters) -> Agreement | None:
    """The answer to one offer; None for an unknown or repeated parameter, or an invalid value."""
    if len(dict(parameters)) < len(parameters):
        return None
    answer = f"{NAME}; server_no_context_takeover; client_no_context_takeover"
    window_bits = WINDOW_BITS
    for parameter in parameters:
        match parameter:
            case "server_no_context_takeover" | "client_no_context_takeover" | "client_max_window_bits", None:
                pass
            case "client_max_window_bits", bits if bits in _CLIENT_BITS:
                pass
            case "server_max_window_bits", str(bits) if bits in _SERVER_BITS:
                window_bits = min(int(bits), WINDOW_BITS)
                answer += f"; server_max_window_bits={window_bits}"
            case _:
                return None
    return Agreement(answer, window_bits)


# Messages


def deflated(payload: bytes, window_bits: int = WINDOW_BITS) -> bytes | None:
    """The compressed message; None if it should be sent uncompressed."""
    if len(payload) < SMALL_BYTES:
        return None
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, -window_bits, _MEMORY_LEVEL)
    message = (deflater.compress(payload) + deflater.flush(zlib.Z_SYNC_FLUSH)).removesuffix(_FLUSH_TAIL)
    return message if len(message) < len(payload) else None


class NotDeflated(ValueError):
    """A message is not valid DEFLATE data."""


class Inflater:
    """Decompresses one message, which may come in pieces."""

    __slots__ = ("_stream", "_streams_left")

    def __init__(self) -> None:
        self._stream: zlib._Decompress | None = None
        self._streams_left = _STREAMS_MAX

    def read(self, piece: bytes, bytes_max: int, *, is_last: bool) -> bytes:
        """The content of a piece, cut off after `bytes_max` + 1 bytes if it is too large."""
        read = self._read(piece, bytes_max)
        if is_last and len(read) <= bytes_max:
            read += self._read(_FLUSH_TAIL + _LAST_BLOCK, bytes_max - len(read))
            if self._stream is not None:
                raise NotDeflated("a compressed message is truncated")
        return read

    def _read(self, rest: bytes, bytes_max: int) -> bytes:
        read = b""
        while rest and len(read) <= bytes_max:
            stream = self._stream or self._next_stream()
            try:
                # One byte more than allowed shows that there is more; nothing beyond it is decompressed.
                read += stream.decompress(rest, bytes_max + 1 - len(read))
            except zlib.error:
                raise NotDeflated("a compressed message is not valid DEFLATE data") from None
            # There is a rest only after the end of a stream.
            rest = stream.unused_data
            self._stream = None if stream.eof else stream
        return read

    def _next_stream(self) -> "zlib._Decompress":
        self._streams_left -= 1
        if self._streams_left < 0:
            raise NotDeflated(f"a compressed message may have at most {_STREAMS_MAX} streams")
        return zlib.decompressobj(-_CLIENT_WINDOW_BITS)
