"""Frames to bytes and back: the same structs as MessagePack (`holdfast.v1.msgpack`) or JSON (`holdfast.v1.json`).

Decoding never raises anything but `ProtocolError`, whatever the bytes.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.core.errors import ProtocolError
from holdfast.core.frames import Frame, FromClient, FromServer

# What msgspec raises for bytes it does not like: RecursionError for input nested deeper than the interpreter allows,
# ValueError for text that is not Unicode.
DECODE_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)


def _not_frames(error: Exception) -> ProtocolError:
    return ProtocolError(f"not a payload of frames: {error}")


class BodyDecoder(Protocol):
    """Decodes one type of message body."""

    def decode(self, body: Any, /) -> Any:
        """The message, or one of `DECODE_ERRORS`."""


class Codec:
    """One encoding of the wire. Instances are stateless and shared."""

    def __init__(
        self,
        name: str,
        *,
        text: bool,
        module: Any,
        pack: Callable[[Sequence[bytes]], bytes],
    ) -> None:
        self.name = name
        self.text = text
        self.pack = pack
        """Joins encoded frames into one payload."""
        self.encode: Callable[[Any], bytes] = module.Encoder().encode
        """Encodes one frame or one message body."""
        self._module = module
        self._from_client: Callable[[bytes], list[FromClient]] = module.Decoder(list[FromClient]).decode
        self._from_server: Callable[[bytes], list[FromServer]] = module.Decoder(list[FromServer]).decode

    def body_decoder(self, kind: Any) -> BodyDecoder:
        """A decoder for bodies of one type; make it once and keep it."""
        decoder: BodyDecoder = self._module.Decoder(kind)
        return decoder

    def from_client(self, payload: bytes) -> list[FromClient]:
        """What a client said, checked."""
        try:
            return self._from_client(payload)
        except DECODE_ERRORS as error:
            raise _not_frames(error) from None

    def from_server(self, payload: bytes) -> list[FromServer]:
        """What a server said, checked."""
        try:
            return self._from_server(payload)
        except DECODE_ERRORS as error:
            raise _not_frames(error) from None

    def payload(self, *frames: Frame) -> bytes:
        """A whole payload of these frames."""
        return self.pack([self.encode(frame) for frame in frames])

    def payloads(self, frames: list[bytes], bytes_max: int) -> list[bytes]:
        """Encoded frames as payloads of at most this size, in order: one, unless they do not fit."""
        if sum(map(len, frames)) + len(frames) + _PACK_BYTES <= bytes_max:
            return [self.pack(frames)]
        payloads: list[bytes] = []
        batch: list[bytes] = []
        size = _PACK_BYTES
        for frame in frames:
            if batch and size + len(frame) + 1 > bytes_max:
                payloads.append(self.pack(batch))
                batch, size = [], _PACK_BYTES
            batch.append(frame)
            size += len(frame) + 1
        payloads.append(self.pack(batch))
        return payloads

    def __repr__(self) -> str:
        return f"<Codec {self.name}>"


def _pack_msgpack(frames: Sequence[bytes]) -> bytes:
    count = len(frames)
    if count == 1:
        return b"\x91" + frames[0]
    if count < len(_FIXARRAY):
        head = _FIXARRAY[count]
    elif count <= _ARRAY16_MAX:
        head = b"\xdc" + count.to_bytes(2, "big")
    else:
        head = b"\xdd" + count.to_bytes(4, "big")
    return head + b"".join(frames)


def _pack_json(frames: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(frames) + b"]"


# The most that packing adds to the frames themselves, beside JSON's comma after each.
_PACK_BYTES = 5
_ARRAY16_MAX = 0xFFFF
_FIXARRAY = [bytes([0x90 | count]) for count in range(16)]

MSGPACK = Codec("holdfast.v1.msgpack", text=False, module=msgspec.msgpack, pack=_pack_msgpack)
JSON = Codec("holdfast.v1.json", text=True, module=msgspec.json, pack=_pack_json)
CODECS = {codec.name: codec for codec in (MSGPACK, JSON)}
