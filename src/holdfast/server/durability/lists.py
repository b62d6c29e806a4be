"""The lists of a room's record: its seats, its objects and its timers, of which only what changed is encoded again."""

from typing import Any

from msgspec import Raw

from holdfast.core.ownership import Ownership
from holdfast.core.records import SERVER, encode_listed
from holdfast.schemas.room import ObjectsRecord, TimerRecord
from holdfast.server.durability.beside import Beside, BesideChange
from holdfast.server.durability.spilling import SpillingList
from holdfast.server.rooms.timers import RoomTimer
from holdfast.stores.port import Entry


class RoomLists:
    """What the store has of one room's lists."""

    def __init__(self, beside: Beside, *, inline_bytes_max: int) -> None:
        self._seats = SpillingList("@seats", beside, inline_bytes_max=inline_bytes_max)
        self._objects = SpillingList("@objects", beside, inline_bytes_max=inline_bytes_max)
        self._timers = SpillingList("@timers", beside, inline_bytes_max=inline_bytes_max)
        self._encoded_groups: dict[int, tuple[int, bytes]] = {}
        self._encoded_timers: dict[RoomTimer, bytes] = {}

    def restored(self, room_key: str, beside: list[Entry]) -> None:
        """Go on from what a former node has left."""
        values = {each.key.removeprefix(f"{room_key}/"): each.value for each in beside}
        for each in (self._seats, self._objects, self._timers):
            each.restored(values)

    def cut_seats(self, encoded: dict[int, bytes], change: BesideChange) -> list[Raw]:
        """The seats that go into the record; what changes beside it goes into `change`."""
        return _raw(self._seats.cut(encoded, change))

    def cut_objects(self, objects: Ownership[Any], change: BesideChange) -> list[Raw]:
        """The same of the objects."""
        self._encoded_groups = {group: self._group(objects, group, version) for group, version in objects.groups}
        return _raw(self._objects.cut({group: encoded for group, (_, encoded) in self._encoded_groups.items()}, change))

    def _group(self, objects: Ownership[Any], group: int, version: int) -> tuple[int, bytes]:
        known = self._encoded_groups.get(group)
        if known is not None and known[0] == version:
            return known
        owners = objects.owners_in(group).items()
        numbers = {object_id: SERVER if owner is None else owner.number for object_id, owner in owners}
        return version, encode_listed(ObjectsRecord(group, numbers))

    def cut_timers(self, timers: list[RoomTimer], change: BesideChange) -> list[Raw]:
        """The same of the timers."""
        known = self._encoded_timers
        self._encoded_timers = {timer: known.get(timer) or _encode_timer(timer) for timer in timers}
        return _raw(self._timers.cut({timer.number: each for timer, each in self._encoded_timers.items()}, change))


def _encode_timer(timer: RoomTimer) -> bytes:
    return encode_listed(TimerRecord(timer.number, timer.due_at, timer.method, timer.arguments))


def _raw(encoded: list[bytes]) -> list[Raw]:
    return [Raw(each) for each in encoded]
