"""A payload as people read it: its frames by name and field, then its bytes; with every secret struck out of both.

In the bytes, a secret is found by its position: the frames are encoded again, twice, with other letters where secrets
were, and where the two differ they are. That tells nothing if the payload was encoded in another way than ours (a
client may have its own); of such a payload, and of one that cannot be read at all, no more is shown than its first few
bytes: those that say what it is, and cannot be a part of a secret.
"""

import json
import re
from typing import Any, NamedTuple

import msgspec

from holdfast.core.codec import DECODE_ERRORS, Codec
from holdfast.core.errors import ProtocolError
from holdfast.core.limits import Limits
from holdfast.logs.secrets import HIDDEN, is_secret
from holdfast.observability.packet_secrets import FRAMES, Mask, masked_view

# What every payload begins with: the heads of its arrays, and the name of a frame.
_NAMES = [spelling for name in FRAMES for spelling in (msgspec.msgpack.encode(name), msgspec.json.encode(name))]
_OPENING = re.compile(rb"[\x90-\x9f\[\s]{0,4}(?:%b)?" % b"|".join(map(re.escape, _NAMES)))
_ROW_BYTES = 16
_TOO_LONG = "(too long to be read)"


class PacketText(NamedTuple):
    """What is shown of a payload."""

    frames: list[str]
    dump: list[str]


class _Elusive(Exception):
    """A secret that is neither text nor bytes cannot be told from what is around it."""


class PacketReader:
    """Reads the payloads of one connection."""

    def __init__(self, codec: Codec, limits: Limits) -> None:
        self._codec = codec
        self._decode = codec.body_decoder(list[list[Any]]).decode
        self._limits = limits

    def read(self, payload: bytes, *, is_from_client: bool, is_stranger: bool) -> PacketText:
        """A payload in either direction; `is_stranger` while nobody knows who the client is."""
        limits = self._limits
        if len(payload) > limits.packet_read_bytes_max:
            return PacketText([_TOO_LONG], self._opening(payload))
        try:
            if is_from_client:
                self._codec.from_client(payload)
            frames = self._decode(payload)
            if len(frames) > limits.packet_read_frames_max:
                return PacketText([_TOO_LONG], self._opening(payload))
            view = masked_view(frames[: limits.packet_frames_max], hide, is_stranger=is_stranger)
            shown = [self._frame(*each) for each in view]
            places = self._places(payload, frames, is_from_client=is_from_client, is_stranger=is_stranger)
        except (ProtocolError, *DECODE_ERRORS):
            return PacketText(["(not a payload of frames)"], self._opening(payload))
        if len(frames) > len(shown):
            shown.append(f"… {len(frames) - len(shown)} more frames")
        return PacketText(shown, self._opening(payload) if places is None else self._rows(payload, places))

    # Frames

    def _frame(self, name: str, *values: Any) -> str:
        fields = zip(FRAMES[name].__struct_fields__, values, strict=False)
        return " ".join([name, *(f"{field}={self._value(value)}" for field, value in fields)])

    def _value(self, value: Any) -> str:
        # In ASCII: what players write must not steer a terminal.
        text, most = json.dumps(with_text_keys(value), default=repr), self._limits.packet_bytes_max
        return text if len(text) <= most else f"{text[:most]}…"

    # Bytes

    def _places(
        self, payload: bytes, frames: list[list[Any]], *, is_from_client: bool, is_stranger: bool
    ) -> set[int] | None:
        """Where the secrets are; None if that cannot be told."""
        secrets: list[Any] = []
        try:
            one, other = (
                self._codec.encode(masked_view(frames, self._filling(letter, secrets), is_stranger=is_stranger))
                for letter in ("x", "y")
            )
        except _Elusive:
            return None
        if not is_from_client and len(one) != len(payload):
            # We encode structs and mappings in two ways, but texts in one.
            return self._search(payload, secrets)
        # A name that is there twice is read once, and of a hello everything counts.
        may_hide_more = is_secret(payload.decode("latin-1")) or any(name == "hello" for name, *_ in frames)
        if one == other and not may_hide_more:
            return set()
        if not len(one) == len(other) == len(payload):
            return None
        places = {place for place, (letter, another) in enumerate(zip(one, other, strict=True)) if letter != another}
        is_ours = all(place in places or one[place] == byte for place, byte in enumerate(payload))
        return places if is_ours else None

    def _filling(self, letter: str, secrets: list[Any]) -> Mask:
        def fill(value: Any) -> Any:
            secrets.append(value)
            match value:
                case str():
                    return letter * self._size(value)
                case bytes():
                    return letter.encode() * self._size(value)
                case _:
                    raise _Elusive

        return fill

    def _size(self, secret: str | bytes) -> int:
        """How many bytes it has in the payload, without its quotes or its length."""
        if self._codec.text:
            return len(self._codec.encode(secret)) - 2
        return len(secret.encode() if isinstance(secret, str) else secret)

    def _search(self, payload: bytes, secrets: list[Any]) -> set[int] | None:
        places: set[int] = set()
        for secret in secrets:
            encoded = self._codec.encode(secret)
            found = [match.span() for match in re.finditer(re.escape(encoded), payload)]
            if not found:
                return None
            quote = int(self._codec.text)
            places.update(place for _, end in found for place in range(end - quote - self._size(secret), end - quote))
        return places

    def _rows(self, payload: bytes, places: set[int]) -> list[str]:
        shown = payload[: self._limits.packet_bytes_max]
        rows = [_row(start, shown[start : start + _ROW_BYTES], places) for start in range(0, len(shown), _ROW_BYTES)]
        if len(payload) > len(shown):
            rows.append(f"… {len(payload) - len(shown)} more bytes")
        return rows

    def _opening(self, payload: bytes) -> list[str]:
        found = _OPENING.match(payload)
        opening = found[0] if found is not None else b""
        rows = [_row(0, opening, set())] if opening else []
        return [*rows, f"… {len(payload) - len(opening)} bytes are not shown: there may be a secret among them"]


def hide(_: Any) -> str:
    """What stands in the place of a secret."""
    return HIDDEN


def with_text_keys(value: Any) -> Any:
    """The same, as JSON can say it: in MessagePack anything may be a key of a map."""
    match value:
        case dict():
            return {key if isinstance(key, str) else repr(key): with_text_keys(each) for key, each in value.items()}
        case list():
            return [with_text_keys(each) for each in value]
        case msgspec.msgpack.Ext():
            return f"(extension {value.code}, {memoryview(value.data).nbytes} bytes)"
        case _:
            return value


def _row(start: int, row: bytes, places: set[int]) -> str:
    hidden = [start + place in places for place in range(len(row))]
    pairs = ["**" if is_hidden else f"{byte:02x}" for byte, is_hidden in zip(row, hidden, strict=True)]
    letters = [
        "*" if is_hidden else chr(byte) if 0x20 <= byte < 0x7F else "."  # noqa: PLR2004 - what ASCII can print
        for byte, is_hidden in zip(row, hidden, strict=True)
    ]
    return f"{start:04x}  {' '.join(pairs):<{_ROW_BYTES * 3}} |{''.join(letters)}|"
