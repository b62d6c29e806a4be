"""Which node is next to own a room, without asking anybody: all nodes with the same list agree.

Each node has a number for each room, as if drawn; the highest wins. When a node goes, only its rooms move, and to all
others alike. If two nodes have different lists, both may try: the store's condition settles it.
"""

from collections.abc import Iterable
from hashlib import blake2b


def next_owner(room_id: str, lives: Iterable[str]) -> str | None:
    """The life that should own the room; None if there is none."""
    return max(lives, key=lambda life: (_drawn(room_id, life), life), default=None)


def _drawn(room_id: str, life: str) -> bytes:
    return blake2b(f"{room_id}\0{life}".encode(), digest_size=8).digest()
