"""Cursors: where a page ended, as URL-safe text that goes on the same search only, and is checked like any input."""

from base64 import b64decode
from math import isfinite

import msgspec

from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.errors import Invalid
from holdfast.core.query.ast import Value
from holdfast.core.query.order import Position
from holdfast.core.query.values import MISSING, key_of
from holdfast.core.tokens import printable


class _Mark(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A position as it travels."""

    fingerprint: bytes
    keys: list[Value | None]
    created_at: float
    id: str


_DECODER = msgspec.msgpack.Decoder(_Mark)


def write_cursor(position: Position, fingerprint: bytes) -> str:
    """A position in the search with this fingerprint."""
    values = [None if key is MISSING else key[1] for key in position.keys]
    return printable(msgspec.msgpack.encode(_Mark(fingerprint, values, *position.birth)))


def read_cursor(text: str, fingerprint: bytes, keys: int) -> Position:
    """The position in the search with this fingerprint and so many keys, or `Invalid`."""
    try:
        mark = _DECODER.decode(b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except DECODE_ERRORS:
        raise Invalid("cursor: this is none; begin again without one") from None
    if mark.fingerprint != fingerprint or len(mark.keys) != keys or not isfinite(mark.created_at):
        raise Invalid("cursor: it is of another search; a cursor goes on the search that it came from")
    return Position(tuple(key_of(value) for value in mark.keys), (mark.created_at, mark.id))
