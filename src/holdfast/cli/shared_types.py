"""What a room shares, as types: of its state and of players' data, the fields that leave."""

from collections.abc import Iterable
from typing import Any, Literal, get_type_hints

import msgspec.inspect as mi

from holdfast.core.handlers import annotation_of
from holdfast.core.room import Room, player_data_type
from holdfast.server.messages import RECORDS, Direction, Named, Record, inner_types
from holdfast.server.rooms.shared_plan import plan_of
from holdfast.state import fields_of, has_private, is_seen

Side = Direction | Literal["shared", "own"]
"""Who has a value: one end of a message, every client of a room, or the player whose data it is."""
SHARED: tuple[Side, ...] = ("shared", "own")
Seen = tuple[Any, Side]
"""A class, and who sees it."""


def shared_parts(room: type[Room[Any]]) -> dict[str, tuple[mi.Type, Side]]:
    """The members of the interface of a room's messages that say what it shares; `Unshareable` if it cannot be."""
    plan = plan_of(room)
    parts: dict[str, tuple[mi.Type, Side]] = {}
    if plan is None:
        return parts
    if "state" in room.shares:
        kind = annotation_of(room, room.view, "return") if plan.has_view else get_type_hints(room)["state"]
        parts["state"] = mi.type_info(kind), "shared"
    if "players" in room.shares:
        data = player_data_type(room)
        parts["player"] = mi.type_info(data), "shared"
        if has_private(data):
            parts["mine"] = mi.type_info(data), "own"
    return parts


def side_of(cls: Any, side: Side) -> Side:
    """What a player sees of their own data is what everybody sees, where nothing of it is private."""
    return "own" if side == "own" and has_private(cls) else "shared"


def seen_fields(record: Record, side: Side) -> list[mi.Field]:
    """The fields that leave."""
    if side not in SHARED:
        return list(record.fields)
    fields = fields_of(record) if isinstance(record, mi.StructType) else record.fields
    return [field for field in fields if is_seen(field, is_own=side == "own")]


def seen_types(parts: Iterable[tuple[mi.Type, Side]]) -> dict[Seen, Named]:
    """The named types in these, and who sees them."""
    found: dict[Seen, Named] = {}
    waiting = list(parts)
    while waiting:
        info, side = waiting.pop()
        if isinstance(info, (*RECORDS, mi.EnumType)):
            key = info.cls, side_of(info.cls, side)
            if key in found:
                continue
            found[key] = info
        inner = [each.type for each in seen_fields(info, side)] if isinstance(info, RECORDS) else inner_types(info)
        waiting += [(each, side) for each in inner]
    return found
