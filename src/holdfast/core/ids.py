"""Ids of rooms, sessions and placements, which people read, paste and type."""

from holdfast.core.tokens import printable


def new_id(entropy: bytes) -> str:
    """An id in URL-safe signs. The first is a letter, or commands would take one in 64 ids for an option."""
    return printable(bytes((entropy[0] & 0x7F, *entropy[1:])))
