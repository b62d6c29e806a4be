"""A message that comes in pieces: put together again, within bounds that count for the whole of it."""

import codecs

from holdfast.transports.deflate import Inflater, NotDeflated, wire_bytes_max
from holdfast.transports.port import BROKEN, NOT_TEXT, TOO_BIG, TransportLimits

_Utf8Decoder = codecs.getincrementaldecoder("utf-8")


class Unacceptable(Exception):
    """A message that is not taken, with the code and the reason to close with."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Fragments:
    """The pieces of one message, from its first to its last. Text is refused with the first byte that cannot be any."""

    def __init__(self, limits: TransportLimits, *, is_text: bool, inflater: Inflater | None = None) -> None:
        """With an inflater, the message is deflated."""
        self._limits = limits
        self._wire_bytes_max = (
            limits.payload_bytes_max if inflater is None else wire_bytes_max(limits.payload_bytes_max)
        )
        self._decoder = _Utf8Decoder() if is_text else None
        self._inflater = inflater
        self._payload = bytearray()
        self._count = 0
        self._wire_bytes = 0

    def add(self, piece: bytes, *, is_last: bool) -> None:
        """Take the next piece; `Unacceptable` if the message cannot become one that we take."""
        self._count += 1
        # Empty pieces are legal and cost time: without this bound they could go on for ever.
        if self._count > self._limits.fragments_max:
            raise Unacceptable(TOO_BIG, f"a message may have {self._limits.fragments_max} fragments")
        # Both sizes count, before and after it is inflated: a deflated message can be long and say nothing.
        self._wire_bytes += len(piece)
        is_too_big = self._wire_bytes > self._wire_bytes_max
        if self._inflater is not None and not is_too_big:
            piece = self._inflated(self._inflater, piece, is_last=is_last)
        if is_too_big or len(self._payload) + len(piece) > self._limits.payload_bytes_max:
            raise Unacceptable(TOO_BIG, f"a payload may have {self._limits.payload_bytes_max} bytes")
        if self._decoder is not None:
            try:
                self._decoder.decode(piece, is_last)
            except UnicodeDecodeError:
                raise Unacceptable(NOT_TEXT, "the text is not UTF-8") from None
        self._payload += piece

    def _inflated(self, inflater: Inflater, piece: bytes, *, is_last: bool) -> bytes:
        try:
            return inflater.read(piece, self._limits.payload_bytes_max - len(self._payload), is_last=is_last)
        except NotDeflated as error:
            raise Unacceptable(BROKEN, str(error)) from None

    @property
    def payload(self) -> bytes:
        """The whole of it, after its last piece."""
        return bytes(self._payload)
