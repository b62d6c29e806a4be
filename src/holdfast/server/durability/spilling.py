"""A list of a room's record: what changed lately is in the record, the rest lies beside it, entry by entry.

A commit then writes what has changed, not what there is: a room of a thousand players in which one speaks writes one
seat. A small list is in the record whole, and so is one whose every entry changes all the time, as seats do in a room
that broadcasts: one large value costs less than many small ones.
"""

from collections.abc import Mapping
from itertools import islice

from holdfast.core.records import ListName
from holdfast.server.durability.beside import Beside, BesideChange

# An entry that was not changed by so many commits has settled.
_SETTLED_COMMITS = 8
# So many are laid beside the record in one commit: a room that falls quiet spreads the work.
_LAID_MAX = 64


class SpillingList:
    """What the store has of one list. Entries have numbers, and are bytes."""

    def __init__(self, name: ListName, beside: Beside, *, inline_bytes_max: int) -> None:
        self._name = name
        self._store = beside
        self._inline_bytes_max = inline_bytes_max
        self._commits = 0
        self._inline: dict[int, tuple[bytes, int]] = {}
        """The entries in the record, each with the commit that changed it; those that changed longest ago first."""
        self._inline_bytes = 0
        self._settled: dict[int, bytes] = {}
        """The entries that are not in the record: beside it they are as they are now."""
        self._beside: set[int] = set()
        """The numbers that have a value beside the record, if perhaps an old one."""

    def restored(self, beside: Mapping[str, bytes]) -> None:
        """Go on from what a former node has left, by key."""
        for name in self._store.names(self._name):
            number = int(name.rpartition("/")[2])
            self._beside.add(number)
            self._settled[number] = beside[name]

    def cut(self, entries: Mapping[int, bytes], change: BesideChange) -> list[bytes]:
        """The list as the next commit has it: what goes into the record; what changes beside it goes into `change`."""
        self._commits += 1
        for number, encoded in entries.items():
            known = self._inline.get(number)
            if known is not None:
                if known[0] == encoded:
                    continue
                self._drop(number)
            elif self._settled.get(number) == encoded:
                continue
            self._settled.pop(number, None)
            # As the last one: this is the order in which they settle.
            self._inline[number] = (encoded, self._commits)
            self._inline_bytes += len(encoded)
        if len(self._inline) + len(self._settled) > len(entries):
            self._forget_all_but(entries, change)
        self._settle(change)
        return [encoded for encoded, _ in self._inline.values()]

    def _drop(self, number: int) -> None:
        encoded, _ = self._inline.pop(number)
        self._inline_bytes -= len(encoded)

    def _forget_all_but(self, entries: Mapping[int, bytes], change: BesideChange) -> None:
        for number in self._inline.keys() - entries.keys():
            self._drop(number)
        for number in self._settled.keys() - entries.keys():
            del self._settled[number]
        for number in self._beside - entries.keys():
            self._beside.discard(number)
            self._store.put(change, f"{self._name}/{number}", None)

    def _settle(self, change: BesideChange) -> None:
        if self._inline_bytes <= self._inline_bytes_max:
            return
        for number, (encoded, changed) in list(islice(self._inline.items(), _LAID_MAX)):
            if self._inline_bytes <= self._inline_bytes_max or self._commits - changed < _SETTLED_COMMITS:
                return
            self._drop(number)
            self._settled[number] = encoded
            self._beside.add(number)
            self._store.put(change, f"{self._name}/{number}", encoded)
