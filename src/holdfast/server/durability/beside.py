"""What lies beside a room's record: values under keys of their own, written when they change, in the record's batch.

The record carries the sum of their digests, so whoever reads the room knows that all of them are there.
"""

from collections.abc import Iterator

import msgspec

from holdfast.core.records import PARTS_NONE, part_digest, parts_changed
from holdfast.stores.port import ABSENT, VALUE_BYTES_MAX, Entry, Write

# What the store has of a part that it does not have: no digest, no revision.
_NO_PART = (0, ABSENT)


class BesideChange(msgspec.Struct):
    """What will be so once a commit has succeeded: parts by key, with their digests, and the sum over all of them."""

    sum: bytes
    parts: dict[str, tuple[bytes | None, int]] = {}


class Beside:
    """What the store has beside one room's record."""

    def __init__(self, room_key: str) -> None:
        self._key = room_key
        self._sum = PARTS_NONE
        self._parts: dict[str, tuple[int, int]] = {}
        """The digest and the revision of each."""

    def restored(self, total: bytes, entries: list[Entry]) -> None:
        """Go on from what a former node has left."""
        self._sum = total
        self._parts = {each.key: (part_digest(each.key, each.value), each.revision) for each in entries}

    def names(self, folder: str) -> list[str]:
        """What there is in one folder, by the names that `put` takes."""
        start = f"{self._key}/"
        return [key.removeprefix(start) for key in self._parts if key.startswith(f"{start}{folder}/")]

    def unchanged(self) -> BesideChange:
        """Where a commit begins."""
        return BesideChange(self._sum)

    def put(self, change: BesideChange, name: str, value: bytes | None) -> None:
        """Write a part with the commit if it is another than the store has, or delete it (None)."""
        key = f"{self._key}/{name}"
        former, _ = self._parts.get(key, _NO_PART)
        if value is not None and len(value) > VALUE_BYTES_MAX:
            raise ValueError(f"{name} has {len(value)} bytes, and {VALUE_BYTES_MAX} are the most that can be saved")
        number = part_digest(key, value) if value is not None else 0
        if number != former:
            change.parts[key] = (value, number)
            change.sum = parts_changed(change.sum, added=number, removed=former)

    def deletions(self) -> BesideChange:
        """The room has ended: nothing of it stays."""
        return BesideChange(PARTS_NONE, dict.fromkeys(self._parts, (None, 0)))

    def writes(self, change: BesideChange) -> Iterator[Write]:
        """What the store must be told."""
        for key, (value, _) in change.parts.items():
            yield Write(key, value, self._parts.get(key, _NO_PART)[1])

    def committed(self, change: BesideChange, revisions: Iterator[int]) -> None:
        """The store has it, at these revisions."""
        self._sum = change.sum
        for key, (value, number) in change.parts.items():
            revision = next(revisions)
            if value is None:
                del self._parts[key]
            else:
                self._parts[key] = (number, revision)
