"""A room's state in the store: in the record while it is small, beside it when it is large, and `Parts` one by one."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from holdfast.core.parts import Parts, parts_of
from holdfast.core.records import digest
from holdfast.core.tokens import printable
from holdfast.server.durability.beside import Beside, BesideChange
from holdfast.server.durability.images import parts_fields, state_reader

# How many saves of a large state are read again to see whether they can be: that costs more than to write it.
_LARGE_READ_MAX = 8
# Longer names of parts are found by their hash: a key of the store is short.
_PART_NAME_BYTES_MAX = 60

_encode = msgspec.msgpack.Encoder().encode


class StateKeep:
    """What the store has of one room's state beside its record."""

    def __init__(self, kind: Any, beside: Beside, *, inline_bytes_max: int) -> None:
        self._beside = beside
        self._is_untyped = kind is Any
        self._inline_bytes_max = inline_bytes_max
        self._encode = msgspec.msgpack.Encoder(enc_hook=self._without_parts).encode
        self._read = state_reader(kind)
        self._read_part: dict[str, Callable[[bytes], Any]] = {}
        self._large_reads = 0
        self._encoded = b""
        self._fields: dict[str, Parts[Any]] = {}
        """The mappings that were saved; another in the place of one is saved anew."""
        self._cutting: dict[str, Parts[Any]] = {}

    def restored(self, state: Any) -> None:
        """Go on from what a former node has left."""
        self._fields = parts_of(state)

    def cut(self, state: Any, change: BesideChange) -> Raw | None:
        """The state as it goes into the record (None: beside it); what changes there goes into `change`.

        Raises if it cannot be saved: what could not be read again is found now, not after the crash.
        """
        if self._is_untyped and isinstance(state, msgspec.Struct):
            raise TypeError(f"say of which type the room's state is, as in `state: {type(state).__name__}`")
        fields = self._cutting = parts_of(state)
        self._check_fields(state, fields)
        for field in {**self._fields, **fields}:
            self._cut_parts(change, field, fields.get(field))
        encoded = self._encode(state)
        is_large = len(encoded) > self._inline_bytes_max
        if encoded != self._encoded:
            if not is_large or self._large_reads < _LARGE_READ_MAX:
                self._large_reads += is_large
                self._read(encoded)
            self._beside.put(change, "state", encoded if is_large else None)
        # Nothing can fail from here on.
        self._encoded = encoded
        self._fields = fields
        for parts in fields.values():
            parts.taken()
        return None if is_large else Raw(encoded)

    def _check_fields(self, state: Any, fields: dict[str, Parts[Any]]) -> None:
        if fields and not self._read_part:
            self._read_part = {field: state_reader(kind) for field, kind in parts_fields(type(state)).items()}
        for field in fields:
            if field not in self._read_part:
                raise TypeError(f"say of which type {field} is, as in `{field}: Parts[Chunk]`")

    def _without_parts(self, value: Any) -> None:
        """Parts are saved beside the record that the state is in: in its place is nothing."""
        if not any(value is parts for parts in self._cutting.values()):
            where = "as a field of the state's own" if isinstance(value, Parts) else "with snapshot() and restore()"
            raise NotImplementedError(f"a {type(value).__name__} can only be saved {where}")

    def _cut_parts(self, change: BesideChange, field: str, parts: Parts[Any] | None) -> None:
        if parts is not None and parts is self._fields.get(field):
            changed = parts.touched()
        else:
            # Another mapping in the place of the one that was saved, or none: whatever it does not have is gone.
            changed = {name: parts.peek(name) for name in parts} if parts is not None else {}
            kept = {_part_name(field, name) for name in changed}
            for name in self._beside.names(field):
                if name not in kept:
                    self._beside.put(change, name, None)
        for name, value in changed.items():
            self._beside.put(change, _part_name(field, name), self._part(field, name, value))

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
