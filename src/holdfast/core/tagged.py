"""Any MessagePack value as JSON that a person can read and edit, and back without loss.

Text, numbers, true, false, null, arrays and objects are themselves. The rest is an object with one key:

    {"$bytes": "aGVsbG8="}                        binary data, in base64
    {"$int": "9223372036854775807"}               an integer beyond 2^53, which many tools would round
    {"$float": "nan"}                             nan, inf or -inf
    {"$time": "2026-11-15T12:00:00.500000Z"}      a point in time
    {"$ext": [5, "aGVsbG8="]}                     any other extension, by its number
    {"$map": [[1, "one"], ["$bytes", "text"]]}    an object with a key that is not text, or begins with "$"
"""

import base64
import binascii
from collections.abc import Callable
from math import isfinite
from typing import Any

import msgspec
from msgspec.msgpack import Ext

from holdfast.schemas.room import TimeText

# Up to here, floats represent every integer.
_INT_EXACT = 2**53
# The epoch, used with MessagePack's timestamp extension: a `datetime` without importing a clock.
_EPOCH = msgspec.msgpack.decode(b"\xd6\xff\x00\x00\x00\x00")


class NotTagged(ValueError):
    """Invalid tagged JSON: where it is, and what is wrong with it."""


def to_json(value: Any) -> Any:
    """A value decoded from MessagePack, for JSON."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) <= _INT_EXACT else {"$int": str(value)}
        case float():
            return value if isfinite(value) else {"$float": str(value)}
        case bytes():
            return {"$bytes": _to_base64(value)}
        case list() | tuple():
            return [to_json(each) for each in value]
        case dict():
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return {key: to_json(each) for key, each in value.items()}
            return {"$map": [[to_json(key), to_json(each)] for key, each in value.items()]}
        case Ext():
            return {"$ext": [value.code, _to_base64(bytes(value.data))]}
        case _:
            return {"$time": time_text(value)}


def from_json(value: Any, where: str) -> Any:
    """The value that `to_json` was given, or `NotTagged`; `where` is how to name this value in words."""
    match value:
        case list():
            return [from_json(each, f"{where}[{number}]") for number, each in enumerate(value)]
        case dict():
            tag = next((key for key in value if key.startswith("$")), None)
            if tag is None:
                return {key: from_json(each, f"{where}.{key}") for key, each in value.items()}
            if len(value) > 1:
                raise NotTagged(f'{where}: {tag!r} must be the only key; an object with such a key is a "$map"')
            return _untagged(tag, value[tag], where)
        case _:
            return value


def _untagged(tag: str, content: Any, where: str) -> Any:
    read = _TAGS.get(tag)
    if read is None:
        raise NotTagged(f"{where}: unknown tag {tag!r}; use one of {', '.join(_TAGS)}")
    try:
        return read(content, where)
    except NotTagged:
        raise
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise NotTagged(f"{where}: invalid {tag!r}: {error}") from None


def _map(pairs: Any, where: str) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for number, (key, value) in enumerate(pairs):
        found[_hashable(from_json(key, f"{where}[{number}]"))] = from_json(value, f"{where}[{number}]")
    return found


def _hashable(key: Any) -> Any:
    return tuple(_hashable(each) for each in key) if isinstance(key, list) else key


def _ext(content: Any, _: str) -> Ext:
    code, data = content
    return Ext(code, _from_base64(data))


def _from_base64(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"it is not base64 ({error})") from None


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


_TAGS: dict[str, Callable[[Any, str], Any]] = {
    "$bytes": lambda text, _: _from_base64(text),
    "$int": lambda text, _: int(text),
    "$float": lambda text, _: float(text),
    "$time": lambda text, _: _time(text),
    "$ext": _ext,
    "$map": _map,
}


# Times by the wall clock: seconds since 1970 in a record, text in a file.


def seconds_text(seconds: float) -> TimeText:
    """A time, to the microsecond."""
    return TimeText(time_text(type(_EPOCH).fromtimestamp(seconds, _EPOCH.tzinfo)))


def seconds_of(text: str) -> float:
    """The time that a text names; `ValueError` if it is invalid."""
    seconds: float = _time(text).timestamp()
    return seconds


def time_text(time: Any) -> str:
    """A `datetime` as text."""
    text: str = msgspec.to_builtins(time)
    return text


def _time(text: Any) -> Any:
    time = msgspec.convert(text, type(_EPOCH))
    if time.tzinfo is None:
        raise ValueError("a time needs a time zone, as in 2026-11-15T12:00:00Z")
    return time
