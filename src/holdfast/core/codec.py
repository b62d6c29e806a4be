"""Frames to bytes and back: the same structs as MessagePack (`holdfast.v1.msgpack`) or JSON (`holdfast.v1.json`).
`core/protobuf.py` has a third codec.

Decoding never raises anything but `ProtocolError`, whatever the bytes.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import msgspec

from holdfast.core.errors import ProtocolError
from holdfast.schemas.frames import Frame, FromClient, FromServer, Request

# What msgspec raises for invalid bytes: RecursionError for input nested deeper than the interpreter allows, ValueError
# for text that is not Unicode.
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
        **decoding: Any,
    ) -> None:
        self.name = name
        self.text = text
        self.encode: Callable[[Any], bytes] = module.Encoder().encode
        """Encodes one frame, one message body, or a payload (a list of frames)."""
        self._module = module
        self._decoding = decoding
        self._from_client: Callable[[bytes], list[FromClient]] = module.Decoder(list[FromClient]).decode
        self._from_server: Callable[[bytes], list[FromServer]] = module.Decoder(list[FromServer]).decode
        self._plain_frames: Callable[[bytes], list[list[Any]]] = module.Decoder(list[list[Any]]).decode

    def body_decoder(self, kind: Any) -> BodyDecoder:
        """A decoder for bodies of one type; create it once and reuse it."""
        decoder: BodyDecoder = self._module.Decoder(kind, **self._decoding)
        return decoder

    def from_client(self, payload: bytes) -> list[FromClient]:
        try:
            return self._from_client(payload)
        except DECODE_ERRORS as error:
            raise _not_frames(error) from None

    def from_server(self, payload: bytes) -> list[FromServer]:
        try:
            return self._from_server(payload)
        except DECODE_ERRORS as error:
            raise _not_frames(error) from None

    def plain_frames(self, payload: bytes) -> list[list[Any]]:
        """The frames of a payload as lists that begin with their name, unchecked; one of `DECODE_ERRORS` otherwise."""
        return self._plain_frames(payload)

    def encode_request(self, operation: str, arguments: Any) -> bytes:
        """The arguments of a request, as a mapping."""
        return self.encode(arguments)

    has_opaque_bodies = False
    """Whether a body cannot be read by someone who does not know its type."""

    def plain_request(self, request: Request) -> Any:
        """The arguments of a request, unchecked; one of `DECODE_ERRORS` otherwise."""
        return self._module.decode(request.arguments)

    def encode_any(self, value: Any) -> bytes:
        """A value whose type the receiver does not know."""
        return self.encode(value)

    @property
    def for_state(self) -> "Codec":
        """The codec in which the changes of shared state travel."""
        return self

    def payload(self, *frames: Frame) -> bytes:
        return self.encode(frames)

    def payloads(self, frames: Sequence[Frame], bytes_max: int) -> list[bytes]:
        """Frames as payloads of at most this size, in order: one if they fit. A larger frame is sent alone."""
        payload = self.encode(frames)
        if len(payload) <= bytes_max or len(frames) == 1:
            return [payload]
        # Split by average size, and again where a part is too large: encoding each frame alone takes ten times as long
        # as encoding them together.
        payloads: list[bytes] = []
        start, rest = 0, len(payload)
        while start < len(frames):
            count = max(1, (len(frames) - start) * (bytes_max - _HEAD_BYTES) // max(rest, 1))
            while len(payload := self.encode(frames[start : start + count])) > bytes_max and count > 1:
                count = max(1, min(count * 7 // 8, count * bytes_max // len(payload)))
            payloads.append(payload)
            start, rest = start + count, rest - len(payload)
        return payloads

    def __repr__(self) -> str:
        return f"<Codec {self.name}>"


# The largest overhead of a payload over its frames.
_HEAD_BYTES = 5


def _no_extension(code: int, _: memoryview) -> NoReturn:
    # JSON has no extensions, nothing here interprets them, and a game that forwards one would fail because of its
    # sender.
    raise ValueError(f"MessagePack extension type {code} is not supported; only timestamps are")


MSGPACK = Codec("holdfast.v1.msgpack", text=False, module=msgspec.msgpack, ext_hook=_no_extension)
JSON = Codec("holdfast.v1.json", text=True, module=msgspec.json)
