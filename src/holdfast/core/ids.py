"""Ids of rooms, sessions and placements, which people read, paste and type."""

from holdfast.core.tokens import printable


def new_id(entropy: bytes) -> str:
    """A URL-safe id. It begins with a letter: commands would take a leading "-" for an option."""
    return printable(bytes((entropy[0] & 0x7F, *entropy[1:])))
