"""Where authenticators keep records: a small part of a store, and one in memory for servers that have none.

A write names the revision of each record that it takes the place of, and is done whole or not at all.
"""

import hashlib
from typing import NamedTuple, Protocol

from holdfast.core.tokens import printable
from holdfast.identity.port import Busy

ABSENT = 0
"""The revision of a record that does not exist."""

# It is not going to change by itself soon.
_FULL_S = 60.0


class Record(NamedTuple):
    """A record as the shelf has it."""

    value: bytes
    revision: int


class Change(NamedTuple):
    """Put a value, or take the record away (None), if it has this revision still."""

    key: str
    value: bytes | None
    revision: int


class Overtaken(Exception):
    """Somebody else has written one of the records: look again. Nothing was written."""


class ShelfFull(Busy):
    """No more records can be kept in memory. Nothing was written."""

    def __init__(self, records_max: int) -> None:
        super().__init__(f"{records_max} records are kept in memory, and no more; give the server a store", _FULL_S)


class Shelf(Protocol):
    """What authenticators need of a store. Both may raise `Busy`: the store cannot be asked, or is full."""

    async def get(self, key: str) -> Record | None:
        """One record, or None."""

    async def write(self, *changes: Change) -> None:
        """Do all of this, or nothing and raise `Overtaken`."""


def key_of(kind: str, *names: str) -> str:
    """The key of a record, fit for any store whatever the names are: they may be long, and anything but ASCII."""
    digest = hashlib.sha256()
    for name in names:
        encoded = name.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return f"{kind}/{printable(digest.digest())}"


class MemoryShelf:
    """Keeps records while the process lives."""

    def __init__(self, records_max: int) -> None:
        self._records: dict[str, Record] = {}
        self._records_max = records_max
        self._revision = ABSENT

    async def get(self, key: str) -> Record | None:
        """One record, or None."""
        return self._records.get(key)

    async def write(self, *changes: Change) -> None:
        """Do all of this, or nothing."""
        for key, _, revision in changes:
            known = self._records.get(key)
            if (known.revision if known is not None else ABSENT) != revision:
                raise Overtaken
        new = sum(change.revision == ABSENT for change in changes)
        if new and len(self._records) + new > self._records_max:
            raise ShelfFull(self._records_max)
        for key, value, _ in changes:
            if value is None:
                self._records.pop(key, None)
            else:
                self._revision += 1
                self._records[key] = Record(value, self._revision)
