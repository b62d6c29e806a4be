"""Which values of a payload's frames are secrets: a view of the frames with something else in their place.

Frames are taken here as they were decoded, lists that begin with a name: what a client adds to them is seen too.
Empty texts, truths and nothing are no secrets.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, get_args

from msgspec import Raw

from holdfast.core.codec import DECODE_ERRORS, Codec
from holdfast.logs.secrets import is_secret
from holdfast.schemas.frames import Frame, FromClient, FromServer

FRAMES: dict[str, type[Frame]] = {frame.name: frame for frame in get_args(FromClient) + get_args(FromServer)}
"""Every kind of frame, by its name."""

# Of a hello, no more: a client that is wrong may put its credential anywhere.
_SHOWN_OF_HELLO = frozenset(
    {"auth", "scheme", "resume", "session", "positions", "channel", "generation", "received", "acked", "client"}
)
_HIDDEN_OF_HELLO = frozenset({"credential", "token"})

Mask = Callable[[Any], Any]
"""Makes of a secret what is put in its place."""


def masked_view(frames: Sequence[Sequence[Any]], mask: Mask, *, is_stranger: bool) -> list[list[Any]]:
    """The same frames without their secrets; `is_stranger` while nobody knows who the client is."""
    return [[frame[0], *_fields(frame[0], frame[1:], mask, is_stranger=is_stranger)] for frame in frames]


def secrets_in(codec: Codec, encoded: Raw) -> list[str]:
    """The texts in the arguments of a request that nobody may read."""
    found: list[Any] = []
    with suppress(*DECODE_ERRORS):
        _by_name(codec.body_decoder(Any).decode(encoded), found.append)
    return [each for each in found if isinstance(each, str)]


def _fields(name: str, values: Sequence[Any], mask: Mask, *, is_stranger: bool) -> list[Any]:
    names = FRAMES[name].__struct_fields__
    # What a later version of the protocol adds is not known here.
    unknown = ("",) * (len(values) - len(names))
    return [
        _field(name, field, value, mask, is_stranger=is_stranger)
        for field, value in zip(chain(names, unknown), values, strict=False)
    ]


def _field(frame: str, field: str, value: Any, mask: Mask, *, is_stranger: bool) -> Any:
    if not field or is_secret(field):
        return _masked(value, mask)
    match frame, field:
        case "hello", _:
            return _of_hello(value, mask)
        case "close", "message" if is_stranger:
            # It may repeat what the client has said, and that may have been anything.
            return _masked(value, mask)
        case (("data" | "latest"), "body") if isinstance(value, list):
            # Fields without names.
            return _masked(value, mask, only_text=True)
        case _:
            return _by_name(value, mask)


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
    # A room's code lets in whoever knows it; the code of a refusal has a sentence beside it.
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
