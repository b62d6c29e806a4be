"""A room's entry in the directory: what is known of it from outside, beside the game's own state."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from math import isfinite
from typing import Any, SupportsIndex

import msgspec
from msgspec import Struct

from holdfast.core.codec import JSON, MSGPACK
from holdfast.core.errors import Invalid
from holdfast.core.tables import Table, TableEnum
from holdfast.schemas.frames import NAME_CHARS_MAX
from holdfast.schemas.room import PROPERTIES_MAX, CreationKey, JoinPolicy, PasswordHash, Visibility

CODE_LETTERS = "3479BCDFGHJKMNPQRSTVWXYZ"
"""The letters of join codes: none looks like another, and without vowels they make no words."""
CODE_LENGTH = 6
# Digits and letters that people read instead of one of those.
_LOOK_ALIKES = str.maketrans("2568U", "ZSGBV")


class RoomStatus(StrEnum):
    """The states of a room."""

    CREATING = "creating"
    ACTIVE = "active"
    ENDING = "ending"
    ENDED = "ended"
    FAILED = "failed"


class RoomStep(TableEnum):
    """The events of a room."""

    ACTIVATED = "activated"
    CLOSED = "closed"
    DESTROYED = "destroyed"
    BROKEN = "broken"


_S, _E = RoomStatus, RoomStep

ROOM_TABLE = Table(
    "room",
    _S.CREATING,
    {
        _S.CREATING: {_E.ACTIVATED: _S.ACTIVE, _E.CLOSED: _S.ENDING, _E.BROKEN: _S.FAILED},
        _S.ACTIVE: {_E.CLOSED: _S.ENDING, _E.BROKEN: _S.FAILED},
        _S.ENDING: {_E.DESTROYED: _S.ENDED, _E.BROKEN: _S.FAILED},
        _S.ENDED: {},
        _S.FAILED: {},
    },
)


class PropertyDict(dict[str, Any]):
    """A room's properties: a dict that reports changes. Assign values: a list changed in place is not noticed."""

    def __init__(self, values: Mapping[str, Any], changed: Callable[[], None]) -> None:
        super().__init__(values)
        self._changed = changed

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._changed()

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._changed()

    def __ior__(self, other: Any) -> "PropertyDict":  # type: ignore[override, misc]
        self.update(other)
        return self

    def update(self, *args: Any, **kwargs: Any) -> None:
        super().update(*args, **kwargs)
        self._changed()

    def replace(self, values: Mapping[str, Any]) -> None:
        """Replace all of them, as one change."""
        super().clear()
        self.update(values)

    def restore(self, values: Mapping[str, Any]) -> None:
        """What they were before a turn that is undone: that is no change."""
        super().clear()
        super().update(values)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str, *default: Any) -> Any:
        was_there = key in self
        result = super().pop(key, *default)
        if was_there:
            self._changed()
        return result

    def popitem(self) -> tuple[str, Any]:
        result = super().popitem()
        self._changed()
        return result

    def clear(self) -> None:
        super().clear()
        self._changed()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        # A copy is a plain dict: changing it does not change the room.
        return dict, (dict(self),)


def check_request(request: Struct) -> None:
    """Refuse a request made in Python that could not have come over the wire, where decoding would have checked it."""
    try:
        msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=type(request))
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Invalid(str(error)) from None


_SCALARS = (str, int, float, bool)
_LISTS = (list, tuple)


def check_properties(properties: Mapping[Any, Any], bytes_max: int) -> None:
    """Refuse what cannot be searched for, or shown to every client in its own codec."""
    if len(properties) > PROPERTIES_MAX:
        raise Invalid(f"properties: {len(properties)} are more than the {PROPERTIES_MAX} that a room may have")
    for name, value in properties.items():
        if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARS_MAX:
            raise Invalid(f"properties: a name is text of 1 to {NAME_CHARS_MAX} characters; got {name!r}")
        for each in value if isinstance(value, _LISTS) else (value,):
            if not isinstance(each, _SCALARS):
                raise Invalid(f"properties: {name!r} must be text, a number, true or false, or a list of these")
            # JSON cannot say them, and nothing is more or less than `nan`.
            if isinstance(each, float) and not isfinite(each):
                raise Invalid(f"properties: {name!r} must be a number, and neither infinite nor nan")
    for codec in (MSGPACK, JSON):
        try:
            size = len(codec.encode(dict(properties)))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise Invalid(f"properties: use text, 64-bit numbers, true, false and lists of them ({error})") from None
        if size > bytes_max:
            raise Invalid(f"properties: {size} bytes are more than the {bytes_max} that a room may have")


def checked_config(config: Mapping[str, Any], bytes_max: int) -> dict[str, Any]:
    """A copy of a new room's config, as a client would have sent it: the game may change and keep it."""
    if not config:
        return {}
    try:
        encoded = msgspec.msgpack.encode(config)
        copy = msgspec.msgpack.decode(encoded, type=dict[str, Any])
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Invalid(f"config: use plain data, as in {{'map': 'dust'}} ({error})") from None
    if len(encoded) > bytes_max:
        raise Invalid(f"config: {len(encoded)} bytes are more than the {bytes_max} that a room may be given")
    return copy


class RoomListing(Struct, kw_only=True, eq=False):
    """What the directory keeps of one room, beside what the room itself knows; `RoomSchema` has both."""

    created_at: float = 0.0
    name: str = ""
    visibility: Visibility = "public"
    password: PasswordHash | None = None
    proven: tuple[PasswordHash, bytes] | None = None
    """The password that was last proven, and a keyed hash of it; never saved."""
    creator: str = ""
    code: str = ""
    creation_key: CreationKey | None = None
    join_policy: JoinPolicy = "accept_all"
    version: int = 1
    status: RoomStatus = ROOM_TABLE.start
    reason: str = ""

    def happened(self, step: RoomStep, reason: str = "") -> None:
        self.status = ROOM_TABLE.after(self.status, step)
        self.reason = reason or self.reason

    @property
    def is_over(self) -> bool:
        """Whether the room has ended, in order or not."""
        return not ROOM_TABLE.rows[self.status]


def join_code(picks: Iterable[int]) -> str:
    """A code, from one number for each letter."""
    return "".join(CODE_LETTERS[pick % len(CODE_LETTERS)] for pick in picks)


def spelled(code: str) -> str:
    """A code that a person typed, as it is stored."""
    return "".join(letter for letter in code.upper().translate(_LOOK_ALIKES) if letter in CODE_LETTERS)
