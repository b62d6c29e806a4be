"""The parts of a room's record: values under keys of their own, written when they change, in the record's batch.

The record carries the sum of their digests, so a reader of the room can tell that none is missing or damaged.

The record's lists (seats, objects, timers, groups, spectators) use parts, too: recent changes are inline, the rest is
spilled to parts. A commit then writes what has changed, not what there is: a room of a thousand players in which one
speaks writes one seat. A small list stays in the record whole, and so does one whose every entry changes all the time,
as seats do in a room that broadcasts: one large value costs less than many small ones.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from msgspec import Raw

from holdfast.core.grouping import Grouping, Members
from holdfast.core.ownership import Ownership
from holdfast.core.records import PARTS_NONE, SERVER, ListName, encode_listed, part_digest, parts_changed
from holdfast.core.room_context import Timer
from holdfast.core.session import seat_of
from holdfast.schemas.room import GroupRecord, ObjectsRecord, TimerRecord
from holdfast.stores.port import ABSENT, VALUE_BYTES_MAX, Entry, Write

# An entry may be spilled once this many commits have not changed it.
_SETTLED_COMMITS = 8
# At most this many entries are spilled per commit: a room that falls quiet spreads the work.
_SPILLED_MAX = 64

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


class SpillingList:
    """One list as the store has it. Entries have numbers, and are bytes."""

    def __init__(self, name: ListName, parts: RecordParts, *, inline_bytes_max: int) -> None:
        self._name = name
        self._parts = parts
        self._inline_bytes_max = inline_bytes_max
        self._commits = 0
        self._inline: dict[int, bytes] = {}
        """The entries in the record; in a list that is too long for it, the longest unchanged first."""
        self._inline_bytes = 0
        self._changed: dict[int, int] = {}
        """The last commit that changed an entry, for those of the last few commits; empty unless the list is long."""
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

    def get(self, number: int) -> bytes | None:
        """An entry as it was last cut."""
        return self._inline.get(number) or self._spilled.get(number)

    def cut(self, entries: Mapping[int, bytes], changes: PartChanges) -> list[Raw]:
        """The entries that the next record has inline; what is spilled or deleted goes into `changes`."""
        self._commits += 1
        if not entries and not self._inline and not self._spilled:
            return []
        is_long = self._inline_bytes > self._inline_bytes_max
        for number, encoded in entries.items():
            known = self._inline.get(number)
            if known == encoded or (known is None and self._spilled.get(number) == encoded):
                continue
            if is_long:
                # Moved to the end: entries are spilled in the order of their last change.
                self._inline.pop(number, None)
                self._changed.pop(number, None)
                self._changed[number] = self._commits
            self._spilled.pop(number, None)
            self._inline[number] = encoded
            self._inline_bytes += len(encoded) - (len(known) if known is not None else 0)
        if len(self._inline) + len(self._spilled) > len(entries):
            self._forget_all_but(entries, changes)
        if is_long:
            self._spill(changes)
        elif self._inline_bytes > self._inline_bytes_max:
            # From now on the order matters.
            self._changed = dict.fromkeys(self._inline, self._commits)
        return [Raw(encoded) for encoded in self._inline.values()]

    def _forget_all_but(self, entries: Mapping[int, bytes], changes: PartChanges) -> None:
        for number in self._inline.keys() - entries.keys():
            self._inline_bytes -= len(self._inline.pop(number))
        for number in self._spilled.keys() - entries.keys():
            del self._spilled[number]
        for number in self._with_part - entries.keys():
            self._with_part.discard(number)
            self._parts.put(changes, f"{self._name}/{number}", None)

    def _spill(self, changes: PartChanges) -> None:
        settled = self._commits - _SETTLED_COMMITS
        self._changed = {number: commit for number, commit in self._changed.items() if commit > settled}
        for number, encoded in list(islice(self._inline.items(), _SPILLED_MAX)):
            if self._inline_bytes <= self._inline_bytes_max or number in self._changed:
                return
            self._inline_bytes -= len(self._inline.pop(number))
            self._spilled[number] = encoded
            self._with_part.add(number)
            self._parts.put(changes, f"{self._name}/{number}", encoded)


class RecordLists:
    """The lists of one room's record. Buckets of objects, timers and groups are encoded again only when they change."""

    def __init__(self, parts: RecordParts, *, inline_bytes_max: int) -> None:
        self.seats = SpillingList("@seats", parts, inline_bytes_max=inline_bytes_max)
        self._objects = SpillingList("@objects", parts, inline_bytes_max=inline_bytes_max)
        self._timers = SpillingList("@timers", parts, inline_bytes_max=inline_bytes_max)
        # Most rooms have none of these.
        self._groups: SpillingList | None = None
        self._spectators: SpillingList | None = None
        self._make = partial(SpillingList, parts=parts, inline_bytes_max=inline_bytes_max)
        self._encoded_buckets: dict[int, tuple[int, bytes]] = {}
        self._encoded_timers: dict[Timer, tuple[float, bytes]] = {}
        self._encoded_groups: dict[Members, tuple[int, bytes]] = {}

    def restored(self, room_key: str, parts: list[Entry]) -> None:
        """Continue from what a former server has saved."""
        values = {each.key.removeprefix(f"{room_key}/"): each.value for each in parts}
        for each in (self.seats, self._objects, self._timers):
            each.restored(values)
        if any(name.startswith("@groups/") for name in values):
            self.groups.restored(values)
        if any(name.startswith("@spectators/") for name in values):
            self.spectators.restored(values)

    @property
    def groups(self) -> SpillingList:
        if self._groups is None:
            self._groups = self._make("@groups")
        return self._groups

    @property
    def spectators(self) -> SpillingList:
        if self._spectators is None:
            self._spectators = self._make("@spectators")
        return self._spectators

    def cut_objects(self, objects: Ownership[Any], changes: PartChanges) -> list[Raw]:
        """The buckets of objects that the record has inline; the others go into `changes`."""
        self._encoded_buckets = {bucket: self._bucket(objects, bucket, version) for bucket, version in objects.buckets}
        return self._objects.cut({bucket: encoded for bucket, (_, encoded) in self._encoded_buckets.items()}, changes)

    def _bucket(self, objects: Ownership[Any], bucket: int, version: int) -> tuple[int, bytes]:
        known = self._encoded_buckets.get(bucket)
        if known is not None and known[0] == version:
            return known
        owners = objects.owners_in(bucket).items()
        numbers = {object_id: SERVER if owner is None else seat_of(owner).number for object_id, owner in owners}
        return version, encode_listed(ObjectsRecord(bucket, numbers))

    def cut_timers(self, timers: list[Timer], changes: PartChanges) -> list[Raw]:
        """The same for timers."""
        self._encoded_timers = {timer: self._timer(timer) for timer in timers}
        return self._timers.cut({timer.number: each for timer, (_, each) in self._encoded_timers.items()}, changes)

    def _timer(self, timer: Timer) -> tuple[float, bytes]:
        known = self._encoded_timers.get(timer)
        # Only a repeated call changes: the next one is due at another time.
        if known is not None and known[0] == timer.due_at:
            return known
        record = TimerRecord(
            timer.number, timer.due_at, timer.method, timer.arguments, name=timer.name, every_s=timer.every_s
        )
        return timer.due_at, encode_listed(record)

    def cut_groups(self, grouping: Grouping, changes: PartChanges) -> list[Raw]:
        """The same for the groups of players."""
        self._encoded_groups = {members: self._group(name, members) for name, members in grouping.groups.items()}
        return self.groups.cut({each.number: encoded for each, (_, encoded) in self._encoded_groups.items()}, changes)

    def _group(self, name: str, members: Members) -> tuple[int, bytes]:
        known = self._encoded_groups.get(members)
        if known is not None and known[0] == members.version:
            return known
        numbers = sorted(seat.number for seat in members.seats)
        return members.version, encode_listed(GroupRecord(members.number, name, numbers))
