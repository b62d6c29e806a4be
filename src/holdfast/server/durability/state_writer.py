"""A room's state in the store: in its record while it is small, else a part; each entry of `Parts` is a part."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from holdfast.core.records import digest
from holdfast.core.saved_types import parts_fields, parts_of, state_reader
from holdfast.core.tokens import printable
from holdfast.server.durability.record_parts import PartChanges, RecordParts
from holdfast.state import Parts

# Saves of a large state that are decoded again as a check, which costs more than to write them.
_LARGE_READ_MAX = 8
# Longer names of parts are replaced by their hash: a key of the store is short.
_PART_NAME_BYTES_MAX = 60

_encode = msgspec.msgpack.Encoder().encode


class StateWriter:
    """Turns the state of one room into what a commit writes of it."""

    def __init__(self, kind: Any, parts: RecordParts, *, inline_bytes_max: int) -> None:
        self._parts = parts
        self._is_untyped = kind is Any
        self._inline_bytes_max = inline_bytes_max
        self._encode = msgspec.msgpack.Encoder(enc_hook=self._without_parts).encode
        self._read = state_reader(kind)
        self._read_part: dict[str, Callable[[bytes], Any]] = {}
        self._large_reads = 0
        self._encoded = b""
        self._fields: dict[str, Parts[Any]] = {}
        """The mappings that were saved; if a field holds another one, that is saved whole."""
        self._cutting: dict[str, Parts[Any]] = {}

    def restored(self, state: Any) -> None:
        """Continue from what a former server has saved."""
        self._fields = parts_of(state)

    def cut(self, state: Any, changes: PartChanges) -> Raw | None:
        """The state as it goes into the record (None: it is a part of its own); changed parts go into `changes`.

        Raises if it cannot be saved or could not be read again: better now than after the crash.
        """
        if self._is_untyped and isinstance(state, msgspec.Struct):
            raise TypeError(f"say of which type the room's state is, as in `state: {type(state).__name__}`")
        fields = self._cutting = parts_of(state)
        self._check_fields(state, fields)
        for field in {**self._fields, **fields}:
            self._cut_parts(changes, field, fields.get(field))
        encoded = self._encode(state)
        is_large = len(encoded) > self._inline_bytes_max
        if encoded != self._encoded:
            if not is_large or self._large_reads < _LARGE_READ_MAX:
                self._large_reads += is_large
                self._read(encoded)
            self._parts.put(changes, "state", encoded if is_large else None)
        # Nothing can fail from here on.
        self._encoded = encoded
        self._fields = fields
        for mapping in fields.values():
            mapping.taken()
        return None if is_large else Raw(encoded)

    def _check_fields(self, state: Any, fields: dict[str, Parts[Any]]) -> None:
        if fields and not self._read_part:
            self._read_part = {field: state_reader(kind) for field, kind in parts_fields(type(state)).items()}
        for field in fields:
            if field not in self._read_part:
                raise TypeError(f"say of which type {field} is, as in `{field}: Parts[Chunk]`")

    def _without_parts(self, value: Any) -> None:
        """Encode nothing in the place of `Parts`, which are saved apart from the state."""
        if not any(value is mapping for mapping in self._cutting.values()):
            where = "as a field of the state's own" if isinstance(value, Parts) else "with snapshot() and restore()"
            raise NotImplementedError(f"a {type(value).__name__} can only be saved {where}")

    def _cut_parts(self, changes: PartChanges, field: str, mapping: Parts[Any] | None) -> None:
        if mapping is not None and mapping is self._fields.get(field):
            changed = mapping.touched()
        else:
            # Not the mapping that was saved, or none: delete the entries that it does not have.
            changed = {name: mapping.peek(name) for name in mapping} if mapping is not None else {}
            kept = {_part_name(field, name) for name in changed}
            for name in self._parts.names(field):
                if name not in kept:
                    self._parts.put(changes, name, None)
        for name, value in changed.items():
            self._parts.put(changes, _part_name(field, name), self._part(field, name, value))

    def _part(self, field: str, name: str, value: Any) -> bytes | None:
        if value is None:
            return None
        encoded = _encode(value)
        self._read_part[field](encoded)
        return _encode((name, Raw(encoded)))


def _part_name(field: str, name: str) -> str:
    encoded = name.encode()
    if len(encoded) > _PART_NAME_BYTES_MAX:
        encoded = digest(encoded)
    return f"{field}/{printable(encoded)}"
