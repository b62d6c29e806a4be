"""The lists of a room's record, its seats, objects and timers: recent changes are inline, the rest is spilled to parts.

A commit then writes what has changed, not what there is: a room of a thousand players in which one speaks writes one
seat. A small list stays in the record whole, and so does one whose every entry changes all the time, as seats do in a
room that broadcasts: one large value costs less than many small ones.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from msgspec import Raw

from holdfast.core.ownership import Ownership
from holdfast.core.records import SERVER, ListName, encode_listed
from holdfast.core.room_context import Timer
from holdfast.core.session import seat_of
from holdfast.schemas.room import ObjectsRecord, TimerRecord
from holdfast.server.durability.record_parts import PartChanges, RecordParts
from holdfast.stores.port import Entry

# An entry may be spilled once this many commits have not changed it.
_SETTLED_COMMITS = 8
# At most this many entries are spilled per commit: a room that falls quiet spreads the work.
_SPILLED_MAX = 64


class SpillingList:
    """One list as the store has it. Entries have numbers, and are bytes."""

    def __init__(self, name: ListName, parts: RecordParts, *, inline_bytes_max: int) -> None:
        self._name = name
        self._parts = parts
        self._inline_bytes_max = inline_bytes_max
        self._commits = 0
        self._inline: dict[int, tuple[bytes, int]] = {}
        """The entries in the record, each with the commit that changed it; the longest unchanged first."""
        self._inline_bytes = 0
        self._spilled: dict[int, bytes] = {}
        """The entries that are not in the record: their parts are current."""
        self._with_part: set[int] = set()
        """The numbers that have a part, though perhaps an outdated one."""

    def restored(self, parts: Mapping[str, bytes]) -> None:
        """Continue from what a former server has saved: the values of parts by name."""
        for name in self._parts.names(self._name):
            number = int(name.rpartition("/")[2])
            self._with_part.add(number)
            self._spilled[number] = parts[name]

    def cut(self, entries: Mapping[int, bytes], changes: PartChanges) -> list[bytes]:
        """The entries that the next record has inline; what is spilled or deleted goes into `changes`."""
        self._commits += 1
        for number, encoded in entries.items():
            known = self._inline.get(number)
            if known is not None:
                if known[0] == encoded:
                    continue
                self._remove_inline(number)
            elif self._spilled.get(number) == encoded:
                continue
            self._spilled.pop(number, None)
            # At the end: the order is the one in which entries are spilled.
            self._inline[number] = (encoded, self._commits)
            self._inline_bytes += len(encoded)
        if len(self._inline) + len(self._spilled) > len(entries):
            self._forget_all_but(entries, changes)
        self._spill(changes)
        return [encoded for encoded, _ in self._inline.values()]

    def _remove_inline(self, number: int) -> None:
        encoded, _ = self._inline.pop(number)
        self._inline_bytes -= len(encoded)

    def _forget_all_but(self, entries: Mapping[int, bytes], changes: PartChanges) -> None:
        for number in self._inline.keys() - entries.keys():
            self._remove_inline(number)
        for number in self._spilled.keys() - entries.keys():
            del self._spilled[number]
        for number in self._with_part - entries.keys():
            self._with_part.discard(number)
            self._parts.put(changes, f"{self._name}/{number}", None)

    def _spill(self, changes: PartChanges) -> None:
        if self._inline_bytes <= self._inline_bytes_max:
            return
        for number, (encoded, changed) in list(islice(self._inline.items(), _SPILLED_MAX)):
            if self._inline_bytes <= self._inline_bytes_max or self._commits - changed < _SETTLED_COMMITS:
                return
            self._remove_inline(number)
            self._spilled[number] = encoded
            self._with_part.add(number)
            self._parts.put(changes, f"{self._name}/{number}", encoded)


class RecordLists:
    """The three lists of one room's record. Only entries that changed are encoded again."""

    def __init__(self, parts: RecordParts, *, inline_bytes_max: int) -> None:
        self._seats = SpillingList("@seats", parts, inline_bytes_max=inline_bytes_max)
        self._objects = SpillingList("@objects", parts, inline_bytes_max=inline_bytes_max)
        self._timers = SpillingList("@timers", parts, inline_bytes_max=inline_bytes_max)
        self._encoded_groups: dict[int, tuple[int, bytes]] = {}
        self._encoded_timers: dict[Timer, bytes] = {}

    def restored(self, room_key: str, parts: list[Entry]) -> None:
        """Continue from what a former server has saved."""
        values = {each.key.removeprefix(f"{room_key}/"): each.value for each in parts}
        for each in (self._seats, self._objects, self._timers):
            each.restored(values)

    def cut_seats(self, encoded: dict[int, bytes], changes: PartChanges) -> list[Raw]:
        """The seats that the record has inline; the others go into `changes`."""
        return _raw(self._seats.cut(encoded, changes))

    def cut_objects(self, objects: Ownership[Any], changes: PartChanges) -> list[Raw]:
        """The same for objects."""
        self._encoded_groups = {group: self._group(objects, group, version) for group, version in objects.groups}
        entries = {group: encoded for group, (_, encoded) in self._encoded_groups.items()}
        return _raw(self._objects.cut(entries, changes))

    def _group(self, objects: Ownership[Any], group: int, version: int) -> tuple[int, bytes]:
        known = self._encoded_groups.get(group)
        if known is not None and known[0] == version:
            return known
        owners = objects.owners_in(group).items()
        numbers = {object_id: SERVER if owner is None else seat_of(owner).number for object_id, owner in owners}
        return version, encode_listed(ObjectsRecord(group, numbers))

    def cut_timers(self, timers: list[Timer], changes: PartChanges) -> list[Raw]:
        """The same for timers."""
        known = self._encoded_timers
        self._encoded_timers = {timer: known.get(timer) or _encode_timer(timer) for timer in timers}
        return _raw(self._timers.cut({timer.number: each for timer, each in self._encoded_timers.items()}, changes))


def _encode_timer(timer: Timer) -> bytes:
    return encode_listed(TimerRecord(timer.number, timer.due_at, timer.method, timer.arguments))


def _raw(encoded: list[bytes]) -> list[Raw]:
    return [Raw(each) for each in encoded]
