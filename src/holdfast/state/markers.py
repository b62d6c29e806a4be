"""What a field's type says about who may see it, and how it travels: `Private[T]`, `Hidden[T]`, `Areas[T]`, `F32`.

The markers are msgspec's own metadata, so that a marked field is encoded, decoded and saved like any other.
"""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")

PRIVATE = "holdfast_private"
HIDDEN = "holdfast_hidden"
FLOAT32 = "holdfast_float32"
AREAS = "holdfast_areas"
PARTS = "holdfast_parts"

Private = Annotated[T, msgspec.Meta(extra={PRIVATE: True})]
"""A field that only its own player sees. It needs a default: it is what everybody else has in its place."""

Hidden = Annotated[T, msgspec.Meta(extra={HIDDEN: True})]
"""A field that no player sees. It needs a default: it is what every client has in its place."""

F32 = Annotated[float, msgspec.Meta(extra={FLOAT32: True})]
"""A float that clients have with single precision, which takes 5 bytes instead of 9 in MessagePack."""

Areas = Annotated[dict[str, T], msgspec.Meta(extra={AREAS: True})]
"""A dict of a room's state of which each player sees the entries in some areas only: see `Room.area`, `Room.sees`."""


def has_marker(extra: Mapping[str, Any] | None, marker: str) -> bool:
    """Whether the metadata of a type has this marker."""
    return extra is not None and marker in extra
