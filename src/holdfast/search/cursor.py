"""Cursors: where a page ended, as URL-safe text that is valid only for the same search, and validated like any
input."""

from base64 import b64decode
from math import isnan

import msgspec

from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.errors import Invalid
from holdfast.core.tokens import printable
from holdfast.search.ast import Value
from holdfast.search.order import SortPosition
from holdfast.search.row import Birth
from holdfast.search.values import MISSING, key_of


class _CursorData(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A position as it is encoded."""

    fingerprint: bytes
    keys: list[Value | None]
    birth: Birth | None


_DECODER = msgspec.msgpack.Decoder(_CursorData)


def write_cursor(position: SortPosition, fingerprint: bytes) -> str:
    """A position in the search with this fingerprint."""
    keys = [None if key is MISSING else key[1] for key in position.keys]
    return printable(msgspec.msgpack.encode(_CursorData(fingerprint, keys, position.birth)))


def read_cursor(text: str, fingerprint: bytes, terms: int) -> SortPosition:
    """The position in the search that has this fingerprint and is ordered by so many terms, or `Invalid`."""
    try:
        mark = _DECODER.decode(b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except DECODE_ERRORS:
        raise Invalid("cursor: invalid; start again without a cursor") from None
    is_whole = len(mark.keys) == terms if mark.birth is not None else 0 < len(mark.keys) < terms
    if mark.fingerprint != fingerprint or not is_whole or (mark.birth is not None and isnan(mark.birth[0])):
        raise Invalid("cursor: it belongs to a different search; repeat the same search with it")
    return SortPosition(tuple(map(key_of, mark.keys)), mark.birth)
