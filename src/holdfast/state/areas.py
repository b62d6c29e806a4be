"""Areas of interest: of a large dict, each client has the entries in the areas that it sees.

The entries are noted area by area. An area that has changed is compared and encoded once, for all who saw it before and
see it now; what a client is sent is joined from that. An entry that goes from one area to another is gone for who sees
only the first, new for who sees only the second, and has changed for who sees both.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec.inspect as mi

from holdfast.state.encoding import Dialect
from holdfast.state.errors import Unshareable, a
from holdfast.state.plan import area_fields, entry_shape
from holdfast.state.shapes import REPLACED


class Area:
    """The entries of one area, as they were noted. Never changed: an area that has not changed is the same object."""

    __slots__ = ("rows",)

    def __init__(self, rows: dict[str, Any]) -> None:
        self.rows = rows


NotedAreas = Mapping[str, Area]
"""All areas that have entries; or those of them that somebody sees."""

_EMPTY = Area({})


class AreaPlan:
    """How the entries of one `Areas` field of a state are noted."""

    def __init__(self, field: mi.Field) -> None:
        self.attribute = field.name
        self.name = field.encode_name
        assert isinstance(field.type, mi.Metadata)
        assert isinstance(field.type.type, mi.DictType)
        self.item = entry_shape(field.type.type.value_type)

    def entries(self, state: Any) -> dict[str, Any]:
        """The field of this state."""
        entries = getattr(state, self.attribute, None)
        if not isinstance(entries, dict):
            raise Unshareable(f"{a(entries)} is not a dict", ("state", self.name))
        return entries

    def take(self, entries: Mapping[str, Any], names: Iterable[str], before: NotedAreas) -> NotedAreas:
        """Note the entries, given the area of each; `Unshareable` if one of them is not of its type."""
        try:
            rows = list(map(self.item.take, entries.values()))
        except Exception:
            self._check(entries)
            raise
        groups: dict[str, dict[str, Any]] = {}
        for key, name, row in zip(entries, names, rows, strict=True):
            group = groups.get(name)
            if group is None:
                group = groups[name] = {}
            group[key] = row
        world: dict[str, Area] = {}
        for name, group in groups.items():
            old = before.get(name)
            world[name] = old if old is not None and old.rows == group else Area(group)
        return world

    def _check(self, entries: Mapping[str, Any]) -> None:
        for key, value in entries.items():
            try:
                self.item.check(value)
            except Unshareable as error:
                raise error.under(key).under(self.name).under("state") from None


def area_plans(kind: Any) -> list[AreaPlan]:
    """Those of the fields of a state of this type."""
    plans = []
    for field in area_fields(mi.type_info(kind)):
        try:
            plans.append(AreaPlan(field))
        except Unshareable as error:
            raise error.under(field.name).under("state") from None
    return plans


class AreaChange:
    """What has changed in some entries: encoded keys, and what follows each."""

    __slots__ = ("gone", "into", "sets")

    def __init__(self) -> None:
        self.sets: dict[str, tuple[bytes, bytes]] = {}
        self.into: list[bytes] = []
        self.gone: dict[str, bytes] = {}


class AreaEncoder:
    """Encodes the changes of one `Areas` field in one dialect, once for all clients. Forget it with the world."""

    def __init__(self, plan: AreaPlan, dialect: Dialect) -> None:
        self._plan = plan
        self.name = plan.name
        self._encode = dialect.encode
        self._array = dialect.array
        self._changes: dict[tuple[Area, Area], AreaChange] = {}
        self._moves: dict[tuple[Area, Area, str], AreaChange] = {}

    def change(self, old: NotedAreas, new: NotedAreas) -> bytes | None:
        """The node that leads from what a client has seen to what it sees now; None if that is the same."""
        changes: list[tuple[Area, Area, AreaChange]] = []
        for name, area in new.items():
            before = old.get(name, _EMPTY)
            if before is not area:
                changes.append((before, area, self._change(before, area)))
        for name, area in old.items():
            if name not in new:
                changes.append((area, _EMPTY, self._change(area, _EMPTY)))
        return self._joined(changes) if changes else None

    def whole(self, world: NotedAreas, bytes_max: int) -> list[bytes]:
        """The nodes that lead there from an empty dict, each of at most this size."""
        nodes: list[bytes] = []
        pieces: list[bytes] = []
        filled = 0
        for area in world.values():
            for key, piece in self._change(_EMPTY, area).sets.items():
                size = sum(map(len, piece)) + 2
                if size > bytes_max:
                    raise Unshareable(f"{size} bytes do not fit into a message of {bytes_max}", (key,))
                if filled + size > bytes_max:
                    nodes.append(self._array([self._array(pieces)]))
                    pieces, filled = [], 0
                pieces += piece
                filled += size
        if pieces:
            nodes.append(self._array([self._array(pieces)]))
        return nodes

    def _change(self, old: Area, new: Area) -> AreaChange:
        known = self._changes.get((old, new))
        if known is None:
            known = self._changes[old, new] = self._compared(old.rows, new.rows)
        return known

    def _compared(self, old: dict[str, Any], new: dict[str, Any]) -> AreaChange:
        found = AreaChange()
        encode = self._encode
        for key, row in new.items():
            if key not in old:
                found.sets[key] = (encode(key), self._image(key, row))
            elif old[key] != row:
                self._note(found, key, old[key], row)
        found.gone = {key: encode(key) for key in old if key not in new}
        return found

    def _note(self, found: AreaChange, key: str, old: Any, new: Any) -> None:
        try:
            node = self._plan.item.change(old, new)
        except Unshareable as error:
            raise error.under(key).under(self._plan.name).under("state") from None
        if node is REPLACED:
            found.sets[key] = (self._encode(key), self._image(key, new))
        elif node is not None:
            found.into += (self._encode(key), self._encode(node))

    def _image(self, key: str, row: Any) -> bytes:
        try:
            return self._encode(self._plan.item.image(row))
        except Unshareable as error:
            raise error.under(key).under(self._plan.name).under("state") from None

    def _joined(self, changes: Sequence[tuple[Area, Area, AreaChange]]) -> bytes | None:
        left = {key: old for old, _, change in changes for key in change.gone}
        came = {key: new for _, new, change in changes for key in change.sets if key in left} if left else {}
        moved = [self._moved(left[key], new, key) for key, new in came.items()]
        sets: list[bytes] = []
        into: list[bytes] = []
        gone: list[bytes] = []
        for _, _, change in changes:
            kept = change.sets.items() if not came else [each for each in change.sets.items() if each[0] not in came]
            sets += chain.from_iterable(piece for _, piece in kept)
            into += change.into
            gone += [name for key, name in change.gone.items() if key not in came]
        for change in moved:
            sets += chain.from_iterable(change.sets.values())
            into += change.into
        parts = [sets, into, gone]
        while parts and not parts[-1]:
            parts.pop()
        return self._array([self._array(part) for part in parts]) if parts else None

    def _moved(self, old: Area, new: Area, key: str) -> AreaChange:
        """What has changed in an entry on its way from one area to another."""
        known = self._moves.get((old, new, key))
        if known is None:
            known = self._moves[old, new, key] = AreaChange()
            before, row = old.rows[key], new.rows[key]
            if before != row:
                self._note(known, key, before, row)
        return known
