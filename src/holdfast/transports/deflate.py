"""WebSocket's own compression, permessage-deflate (RFC 7692), without a socket: what is agreed on, and the messages.

Browsers offer it by themselves. Whatever they offer, nothing is kept from one message to the next, in either direction
("no context takeover"). With what zlib keeps, a link would cost 300 KiB, or 48 KiB with a small window, and every
browser would have one; without, it costs nothing between two messages. And what cannot refer to another message gives
nothing of another message away by its size. The price: what is short becomes less small than it could.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

NAME: Final = "permessage-deflate"

WINDOW_BITS: Final = 12
"""How far back a message of ours refers, as a power of two: a larger window would take longer to set up."""
SMALL_BYTES: Final = 48
"""Below this nothing is deflated: there is little to gain, and zlib costs as much as the rest of the way."""

# The fastest; and what a deflater remembers beside its window, for as long as it takes to deflate one message.
_LEVEL: Final = 1
_MEMORY_LEVEL: Final = 5
# What a client may refer to: the most there is, for it need not let us ask for less.
_CLIENT_WINDOW_BITS: Final = 15

_FLUSH_TAIL: Final = b"\x00\x00\xff\xff"
# An empty block that is the last one: it can be read only after all blocks before it.
_LAST_BLOCK: Final = b"\x03\x00"
# A message may consist of streams that end. Real clients send one; each costs time.
_STREAMS_MAX: Final = 8


def wire_bytes_max(payload_bytes_max: int) -> int:
    """The most that a payload of this size becomes: DEFLATE adds a little to what cannot be compressed."""
    return payload_bytes_max + payload_bytes_max // 16 + 16


# What is agreed on


@dataclass(frozen=True, slots=True)
class Agreement:
    """An offer that was accepted."""

    answer: str
    """What the server says to it, in the header in which it came."""
    window_bits: int = WINDOW_BITS
    """The window of what the server sends."""


_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - a word, as HTTP calls it
_EXTENSION = re.compile(rf"[ \t,]*({_TOKEN})[ \t]*")
_PARAMETER = re.compile(rf';[ \t]*({_TOKEN})[ \t]*(?:=[ \t]*(?:({_TOKEN})|"((?:[^"\\]|\\.)*)")[ \t]*)?')
_WORD = re.compile(_TOKEN)

_Parameters = list[tuple[str, str | None]]

_CLIENT_BITS: Final = frozenset(map(str, range(8, 16)))
# zlib writes no raw stream with a window of 2^8.
_SERVER_BITS: Final = frozenset(map(str, range(9, 16)))


def agreed(headers: Iterable[str]) -> Agreement | None:
    """The first offer that can be accepted, in the lines of Sec-WebSocket-Extensions; None if there is none."""
    try:
        offers = [parameters for name, parameters in _extensions(",".join(headers)) if name == NAME]
    except _Malformed:
        # Where one extension ends and the next begins cannot be told: none of them is accepted.
        return None
    return next(filter(None, map(_accepted, offers)), None)


class _Malformed(Exception):
    """A header is not what RFC 6455, 9.1, says."""


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
    """The answer to one offer; None to an unknown parameter, a wrong value, or one that is there twice."""
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
    """The message for this payload; None if it had better go as it is."""
    if len(payload) < SMALL_BYTES:
        return None
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, -window_bits, _MEMORY_LEVEL)
    message = (deflater.compress(payload) + deflater.flush(zlib.Z_SYNC_FLUSH)).removesuffix(_FLUSH_TAIL)
    return message if len(message) < len(payload) else None


class NotDeflated(ValueError):
    """A message is not what DEFLATE writes."""


class Inflater:
    """Reads one message, which may come in pieces."""

    __slots__ = ("_stream", "_streams_left")

    def __init__(self) -> None:
        self._stream: zlib._Decompress | None = None
        self._streams_left = _STREAMS_MAX

    def read(self, piece: bytes, bytes_max: int, *, is_last: bool) -> bytes:
        """What a piece says, or the first `bytes_max` + 1 bytes of it if that is too much: then it ends here."""
        read = self._read(piece, bytes_max)
        if is_last and len(read) <= bytes_max:
            read += self._read(_FLUSH_TAIL + _LAST_BLOCK, bytes_max - len(read))
            if self._stream is not None:
                raise NotDeflated("a message is cut short")
        return read

    def _read(self, rest: bytes, bytes_max: int) -> bytes:
        read = b""
        while rest and len(read) <= bytes_max:
            stream = self._stream or self._next_stream()
            try:
                # One byte more than allowed shows that there is more; no other is ever made.
                read += stream.decompress(rest, bytes_max + 1 - len(read))
            except zlib.error:
                raise NotDeflated("a message is not what DEFLATE writes") from None
            # Something is left only behind the end of a stream.
            rest = stream.unused_data
            self._stream = None if stream.eof else stream
        return read

    def _next_stream(self) -> "zlib._Decompress":
        self._streams_left -= 1
        if self._streams_left < 0:
            raise NotDeflated(f"a message may have {_STREAMS_MAX} streams")
        return zlib.decompressobj(-_CLIENT_WINDOW_BITS)
