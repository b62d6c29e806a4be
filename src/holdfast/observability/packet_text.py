"""A payload as text for people: its frames by name and field, then its bytes; without secrets.

Frames are lists as they were decoded, so that additional fields of a client are shown too. Empty strings, booleans and
None are never secret. Of a payload with a secret, and of one that cannot be decoded, only the first few bytes are
shown: they identify it, and cannot be part of a secret.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple, get_args

import msgspec

from holdfast.core.codec import DECODE_ERRORS, Codec
from holdfast.core.errors import ProtocolError
from holdfast.core.limits import Limits
from holdfast.core.messages import ASK, MessageAnswered
from holdfast.logs.lines import HIDDEN, is_secret
from holdfast.schemas.frames import Data, Frame, FromClient, FromServer, Request

_FRAMES: dict[str, type[Frame]] = {frame.name: frame for frame in get_args(FromClient) + get_args(FromServer)}

# Nothing else of a hello is shown: a faulty client may put its credential anywhere.
_SHOWN_OF_HELLO = frozenset(
    {"auth", "scheme", "resume", "session", "positions", "channel", "generation", "received", "acked", "client"}
)
_HIDDEN_OF_HELLO = frozenset({"credential", "token"})

# The beginning of every payload: the heads of its arrays, and the name of a frame.
_NAMES = [spelling for name in _FRAMES for spelling in (msgspec.msgpack.encode(name), msgspec.json.encode(name))]
_OPENING = re.compile(rb"[\x90-\x9f\[\s]{0,4}(?:%b)?" % b"|".join(map(re.escape, _NAMES)))
_ROW_BYTES = 16
_TOO_LONG = "(too long to be decoded)"

Mask = Callable[[Any], Any]
"""Returns the replacement for a secret."""


def masked_view(frames: Sequence[Sequence[Any]], mask: Mask, *, is_before_sign_in: bool) -> list[list[Any]]:
    """The same frames without their secrets; `is_before_sign_in` until the client is authenticated."""
    return [[frame[0], *_fields(frame[0], frame[1:], mask, is_before_sign_in=is_before_sign_in)] for frame in frames]


def secrets_in(codec: Codec, request: Request) -> list[str]:
    """The secret strings in the arguments of a request."""
    found: list[Any] = []
    with suppress(*DECODE_ERRORS):
        _by_name(codec.plain_request(request), found.append)
    return [each for each in found if isinstance(each, str)]


def _fields(name: str, values: Sequence[Any], mask: Mask, *, is_before_sign_in: bool) -> list[Any]:
    names = _FRAMES[name].__struct_fields__
    # Fields that a later version of the protocol adds.
    unknown = ("",) * (len(values) - len(names))
    view = [
        _field(name, field, value, mask, is_before_sign_in=is_before_sign_in)
        for field, value in zip(chain(names, unknown), values, strict=False)
    ]
    if name == Data.name:
        type_, body = names.index("type"), names.index("body")
        view[type_ : body + 1] = _of_data(values[type_ : body + 1], mask)
    return view


def _field(frame: str, field: str, value: Any, mask: Mask, *, is_before_sign_in: bool) -> Any:
    if not field or is_secret(field):
        return _masked(value, mask)
    match frame, field:
        case "hello", "player_name":
            # The welcome shows it.
            return _masked(value, mask)
        case "hello", _:
            return _of_hello(value, mask)
        case "close", "message" if is_before_sign_in:
            # It may quote the client's data, which may be anything.
            return _masked(value, mask)
        case (("data" | "latest"), "body"):
            return _of_message(value, mask)
        case "block", "messages":
            return [_of_data(message, mask) for message in value]
        case _:
            return _by_name(value, mask)


def _of_data(said: Sequence[Any], mask: Mask) -> list[Any]:
    """A message: its type and its body, and what a later version of the protocol adds."""
    match said:
        case [wire_name, [str() as asked, inner]] if wire_name == ASK:
            return [wire_name, [asked, _of_message(inner, mask)]]
        case [MessageAnswered.wire_name, {"body": inner}]:
            view = _by_name(said[1], mask)
            view["body"] = _of_message(inner, mask)
            return [MessageAnswered.wire_name, view]
        case [wire_name, body, *added]:
            return [wire_name, _of_message(body, mask), *(_masked(each, mask) for each in added)]
        case _:
            return [_masked(each, mask) for each in said]


def _of_message(body: Any, mask: Mask) -> Any:
    # A list has fields without names.
    return _masked(body, mask, only_text=True) if isinstance(body, list) else _by_name(body, mask)


def _of_hello(value: Any, mask: Mask) -> Any:
    match value:
        case dict():
            view: dict[Any, Any] = {}
            for name, each in value.items():
                if name in _SHOWN_OF_HELLO:
                    view[name] = _of_hello(each, mask)
                else:
                    view[name if name in _HIDDEN_OF_HELLO else mask(name)] = _masked(each, mask)
            return view
        case list():
            return [_of_hello(each, mask) for each in value]
        case _:
            return value


def _by_name(value: Any, mask: Mask) -> Any:
    match value:
        case dict():
            return {
                name: _masked(each, mask) if _is_secret_in(value, name) else _by_name(each, mask)
                for name, each in value.items()
            }
        case list():
            return [_by_name(each, mask) for each in value]
        case _:
            return value


def _is_secret_in(around: dict[Any, Any], name: Any) -> bool:
    if not isinstance(name, str):
        return False
    # A room's code admits anybody who has it; the code of a refusal has a message beside it.
    return is_secret(name) or (name == "code" and isinstance(around[name], str) and "message" not in around)


def _masked(value: Any, mask: Mask, *, only_text: bool = False) -> Any:
    match value:
        case None | bool() | "" | b"":
            return value
        case dict():
            return {mask(name): _masked(each, mask, only_text=only_text) for name, each in value.items()}
        case list():
            return [_masked(each, mask, only_text=only_text) for each in value]
        case int() | float() if only_text:
            return value
        case _:
            return mask(value)


class PacketText(NamedTuple):
    """What is shown of a payload."""

    frames: list[str]
    dump: list[str]


class PacketReader:
    """Reads the payloads of one connection."""

    def __init__(self, codec: Codec, limits: Limits) -> None:
        self._codec = codec
        self._limits = limits

    def read(self, payload: bytes, *, is_from_client: bool, is_before_sign_in: bool) -> PacketText:
        """A payload in either direction; `is_before_sign_in` until the client is authenticated."""
        limits = self._limits
        if len(payload) > limits.packet_read_bytes_max:
            return PacketText([_TOO_LONG], self._opening(payload))
        try:
            if is_from_client:
                self._codec.from_client(payload)
            frames = self._codec.plain_frames(payload)
            if len(frames) > limits.packet_read_frames_max:
                return PacketText([_TOO_LONG], self._opening(payload))
            view = masked_view(frames, hide, is_before_sign_in=is_before_sign_in)
            shown = [self._frame(*each) for each in view[: limits.packet_frames_max]]
            is_open = (
                view == frames
                and not self._codec.has_opaque_bodies
                and not (is_from_client and self._may_hide_more(payload, frames))
            )
        except (ProtocolError, *DECODE_ERRORS):
            return PacketText(["(not a payload of frames)"], self._opening(payload))
        if len(frames) > len(shown):
            shown.append(f"… {len(frames) - len(shown)} more frames")
        return PacketText(shown, self._rows(payload) if is_open else self._opening(payload))

    def _frame(self, name: str, *values: Any) -> str:
        fields = zip(_FRAMES[name].__struct_fields__, values, strict=False)
        return " ".join([name, *(f"{field}={self._value(value)}" for field, value in fields)])

    def _value(self, value: Any) -> str:
        # In ASCII: what players write must not control a terminal.
        text, most = json.dumps(with_text_keys(value), default=repr), self._limits.packet_bytes_max
        return text if len(text) <= most else f"{text[:most]}…"

    def _may_hide_more(self, payload: bytes, frames: list[list[Any]]) -> bool:
        """Whether the bytes may contain a secret that the frames do not: of a duplicate key, only one value is
        decoded."""
        has_secret_name = is_secret(payload.decode("latin-1")) or any(name == "hello" for name, *_ in frames)
        return has_secret_name and self._codec.encode(frames) != payload

    def _rows(self, payload: bytes) -> list[str]:
        shown = payload[: self._limits.packet_bytes_max]
        rows = [_row(start, shown[start : start + _ROW_BYTES]) for start in range(0, len(shown), _ROW_BYTES)]
        if len(payload) > len(shown):
            rows.append(f"… {len(payload) - len(shown)} more bytes")
        return rows

    def _opening(self, payload: bytes) -> list[str]:
        found = _OPENING.match(payload)
        opening = found[0] if found is not None else b""
        rows = [_row(0, opening)] if opening else []
        return [*rows, f"… {len(payload) - len(opening)} bytes are not shown: there may be a secret among them"]


def hide(_: Any) -> str:
    """Replace every secret with the same word."""
    return HIDDEN


def with_text_keys(value: Any) -> Any:
    """The same with keys that JSON allows: in MessagePack anything may be a key of a map."""
    match value:
        case dict():
            return {key if isinstance(key, str) else repr(key): with_text_keys(each) for key, each in value.items()}
        case list():
            return [with_text_keys(each) for each in value]
        case msgspec.msgpack.Ext():
            return f"(extension {value.code}, {memoryview(value.data).nbytes} bytes)"
        case _:
            return value


def _row(start: int, row: bytes) -> str:
    letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)  # noqa: PLR2004 - what ASCII can print
    return f"{start:04x}  {row.hex(' '):<{_ROW_BYTES * 3}} |{letters}|"
