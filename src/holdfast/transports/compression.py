"""Payloads made smaller, over any transport: a dialect with ".deflate" behind its name, agreed on like any other.

Each payload travels behind one byte. 0: it follows as it is. 1: it follows as raw DEFLATE (RFC 1951), a stream that
goes on from payload to payload in its direction, flushed to a byte boundary after each, without the last four bytes of
the flush (RFC 7692, 7.2.1, does the same). Nothing is compressed before both ends have said something: the first
payloads carry secrets, and a secret must not share a stream with what others write, for the sizes would tell it.
"""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from holdfast.core.silence import Traffic
from holdfast.transports.port import BROKEN, TOO_BIG, Accept, Dialect, Receiver, Transport, TransportLimits

SUFFIX: Final = ".deflate"

# Both ends need this window to read what the other writes; with 32 KiB, the most there is, a link would cost 300 KiB.
WINDOW_BITS: Final = 12
# What a deflater may remember beside its window, as a power of two: less costs ratio, more is not noticed with it.
_MEMORY_LEVEL: Final = 4
# The fastest: the window does most of the work, for games repeat themselves.
_LEVEL: Final = 1
LINK_BYTES: Final = 48 * 1024
"""What compression costs in memory for one link, both directions, at most: a test measures it."""

# Below this there is little to gain, and a call of zlib costs as much as the rest of the way.
SMALL_BYTES: Final = 48

_RAW_BYTE: Final = b"\x00"
_DEFLATED_BYTE: Final = b"\x01"
_FLUSH_TAIL: Final = b"\x00\x00\xff\xff"


def wire_bytes_max(payload_bytes_max: int) -> int:
    """The most that a payload of this size becomes: its mark, and DEFLATE's own cost for what cannot be compressed."""
    return 1 + payload_bytes_max + payload_bytes_max // 16 + 16


def compressed(dialect: Dialect) -> Dialect:
    """The same dialect with compression: binary, whatever it was."""
    return Dialect(dialect.name + SUFFIX, text=False)


class Offer:
    """What to listen or dial with, for who would like compression but does not need it."""

    def __init__(self, dialects: Sequence[Dialect], limits: TransportLimits) -> None:
        self.dialects: Sequence[Dialect] = [*map(compressed, dialects), *dialects]
        self.limits = replace(limits, payload_bytes_max=wire_bytes_max(limits.payload_bytes_max))
        """For the wire; what is too big once it has been read is refused behind it."""
        self._payload_bytes_max = limits.payload_bytes_max
        self._plain = {compressed(dialect).name: dialect for dialect in dialects}

    def accepting(self, accept: Accept) -> Accept:
        """Accept links of either kind."""
        return lambda: self.receiver(accept())

    def receiver(self, receiver: Receiver) -> "OfferReceiver":
        """Between a link of either kind and who receives it."""
        return OfferReceiver(receiver, self._plain, self._payload_bytes_max)


class OfferReceiver:
    """Hears a link for another: through a `CompressedTransport` if that was agreed on, else as it is."""

    transport: Transport

    def __init__(self, receiver: Receiver, plain: dict[str, Dialect], payload_bytes_max: int) -> None:
        self._receiver = receiver
        self._plain = plain
        self._payload_bytes_max = payload_bytes_max
        self._link: CompressedTransport | None = None

    def opened(self, transport: Transport) -> None:
        """See the port."""
        self.transport = transport
        dialect = self._plain.get(transport.dialect.name)
        if dialect is not None:
            self.transport = self._link = CompressedTransport(transport, dialect, self._payload_bytes_max)
        self._receiver.opened(self.transport)

    def received(self, payload: bytes) -> None:
        """See the port."""
        if self._link is not None:
            read = self._link.read(payload)
            if read is not None:
                self._receiver.received(read)
        elif len(payload) <= self._payload_bytes_max:
            self._receiver.received(payload)
        else:
            self.transport.close(TOO_BIG, f"a payload may have {self._payload_bytes_max} bytes")

    def kept_busy(self) -> None:
        """See the port."""
        self._receiver.kept_busy()

    def congested(self) -> None:
        """See the port."""
        self._receiver.congested()

    def drained(self) -> None:
        """See the port."""
        self._receiver.drained()

    def lost(self, code: int, reason: str) -> None:
        """See the port."""
        if self._link is not None:
            self._link.forget()
        self._receiver.lost(code, reason)


class _Unreadable(Exception):
    """What came is no payload."""


class CompressedTransport:
    """A transport whose payloads are made smaller. The rest is the transport's underneath."""

    is_compressed: Final = True

    def __init__(self, transport: Transport, dialect: Dialect, payload_bytes_max: int) -> None:
        self.kind = transport.kind
        self.peer = transport.peer
        self.dialect = dialect
        self.is_encrypted = transport.is_encrypted
        self._transport = transport
        self._payload_bytes_max = payload_bytes_max
        # Made when they are needed: a stranger costs nothing.
        self._deflater: zlib._Compress | None = None
        self._inflater: zlib._Decompress | None = None
        self._has_sent = False
        self._has_received = False

    @property
    def buffered_bytes(self) -> int:
        """See the port."""
        return self._transport.buffered_bytes

    @property
    def is_up(self) -> bool:
        """See the port."""
        return self._transport.is_up

    @property
    def traffic(self) -> Traffic:
        """See the port."""
        return self._transport.traffic

    def send(self, payload: bytes) -> None:
        """See the port."""
        if len(payload) >= SMALL_BYTES and self._has_sent and self._has_received:
            if self._deflater is None:
                self._deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, -WINDOW_BITS, _MEMORY_LEVEL)
            deflated = self._deflater.compress(payload) + self._deflater.flush(zlib.Z_SYNC_FLUSH)
            self._transport.send(_DEFLATED_BYTE + deflated[: -len(_FLUSH_TAIL)])
        else:
            self._has_sent = True
            self._transport.send(_RAW_BYTE + payload)

    def read(self, message: bytes) -> bytes | None:
        """The payload that came; None if it was none, and the link is closed."""
        try:
            payload = self._inflated(message) if message[:1] == _DEFLATED_BYTE else self._raw(message)
        except _Unreadable as error:
            self._transport.close(BROKEN, str(error))
            return None
        if len(payload) > self._payload_bytes_max:
            self._transport.close(TOO_BIG, f"a payload may have {self._payload_bytes_max} bytes")
            return None
        return payload

    def _raw(self, message: bytes) -> bytes:
        if message[:1] != _RAW_BYTE:
            raise _Unreadable("a payload begins with 0, as it is, or 1, deflated")
        self._has_received = True
        return message[1:]

    def _inflated(self, message: bytes) -> bytes:
        if not (self._has_sent and self._has_received):
            raise _Unreadable("the first payloads are not compressed")
        if self._inflater is None:
            self._inflater = zlib.decompressobj(-WINDOW_BITS)
        try:
            # One byte more than allowed shows that there is more; no other is ever made.
            payload = self._inflater.decompress(message[1:] + _FLUSH_TAIL, self._payload_bytes_max + 1)
        except zlib.error:
            raise _Unreadable("a payload is not what DEFLATE writes") from None
        if self._inflater.eof:
            # Whatever came behind the end of a stream would be kept.
            raise _Unreadable("a stream ends with its link")
        return payload

    def forget(self) -> None:
        """The link is gone: give the memory back, whoever still holds on to it."""
        self._has_received = False
        self._deflater = self._inflater = None

    def close(self, code: int, reason: str) -> None:
        """See the port."""
        self._transport.close(code, reason)

    def abort(self) -> None:
        """See the port."""
        self._transport.abort()

    def pause_reading(self) -> None:
        """See the port."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """See the port."""
        self._transport.resume_reading()
