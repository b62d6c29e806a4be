"""The parts of a room's record: values under keys of their own, written when they change, in the record's batch.

The record carries the sum of their digests, so a reader of the room can tell that none is missing or damaged.
"""

from collections.abc import Iterator

import msgspec

from holdfast.core.records import PARTS_NONE, part_digest, parts_changed
from holdfast.stores.port import ABSENT, VALUE_BYTES_MAX, Entry, Write

# The digest and the revision of a part that the store does not have.
_NO_PART = (0, ABSENT)


class PartChanges(msgspec.Struct):
    """The parts that one commit changes, by key, each with its digest; and the sum over all parts after it."""

    sum: bytes
    parts: dict[str, tuple[bytes | None, int]] = {}


class RecordParts:
    """The parts of one room's record as the store has them."""

    def __init__(self, room_key: str) -> None:
        self._key = room_key
        self._sum = PARTS_NONE
        self._parts: dict[str, tuple[int, int]] = {}
        """The digest and the revision of each."""

    def restored(self, total: bytes, entries: list[Entry]) -> None:
        """Continue from what a former server has saved."""
        self._sum = total
        self._parts = {each.key: (part_digest(each.key, each.value), each.revision) for each in entries}

    def names(self, folder: str) -> list[str]:
        """The parts in one folder, by the names that `put` takes."""
        start = f"{self._key}/"
        return [key.removeprefix(start) for key in self._parts if key.startswith(f"{start}{folder}/")]

    def unchanged(self) -> PartChanges:
        """The start of a commit."""
        return PartChanges(self._sum)

    def put(self, changes: PartChanges, name: str, value: bytes | None) -> None:
        """Write a part with the commit if it differs from what the store has, or delete it (None)."""
        key = f"{self._key}/{name}"
        former, _ = self._parts.get(key, _NO_PART)
        if value is not None and len(value) > VALUE_BYTES_MAX:
            raise ValueError(f"{name} has {len(value)} bytes, and {VALUE_BYTES_MAX} are the most that can be saved")
        number = part_digest(key, value) if value is not None else 0
        if number != former:
            changes.parts[key] = (value, number)
            changes.sum = parts_changed(changes.sum, added=number, removed=former)

    def deletions(self) -> PartChanges:
        """The room has ended: delete every part."""
        return PartChanges(PARTS_NONE, dict.fromkeys(self._parts, (None, 0)))

    def writes(self, changes: PartChanges) -> Iterator[Write]:
        """The changes as the store takes them."""
        for key, (value, _) in changes.parts.items():
            yield Write(key, value, self._parts.get(key, _NO_PART)[1])

    def committed(self, changes: PartChanges, revisions: Iterator[int]) -> None:
        """The store has the changes, at these revisions."""
        self._sum = changes.sum
        for key, (value, number) in changes.parts.items():
            revision = next(revisions)
            if value is None:
                del self._parts[key]
            else:
                self._parts[key] = (number, revision)
