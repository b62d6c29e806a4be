"""The rooms of a store at a glance."""

from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from holdfast.cli.operate.showing import span
from holdfast.cli.rooms.stored import StoredRoom
from holdfast.core.records import Unreadable
from holdfast.core.tagged import seconds_text

_KIB = 1024


def facts_of(room: StoredRoom) -> dict[str, Any]:
    """What is worth knowing of a room without opening it up."""
    try:
        record, seats = room.record, room.seats
    except Unreadable as error:
        return {"id": room.id, "problem": str(error), "bytes": room.size}
    return {
        "id": room.id,
        "kind": record.kind,
        "phase": record.phase,
        "seats": len(seats),
        "max_players": record.max_players,
        "epoch": record.epoch,
        "index": record.index,
        "saved_at": seconds_text(record.saved_at),
        "bytes": room.size,
    }


def table_of(rooms: list[StoredRoom], *, now: float) -> Table:
    """A row for each room; `now` by the wall clock."""
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("phase", no_wrap=True)
    for name in ("seats", "index", "saved", "size"):
        table.add_column(name, justify="right", no_wrap=True)
    for room in rooms:
        fact, size = facts_of(room), _size(room.size)
        if "problem" in fact:
            table.add_row(room.id, Text("cannot be read", style="red"), "", "", "", "", size)
        else:
            seats = f"{fact['seats']} of {fact['max_players']}"
            age = f"{span(now - room.record.saved_at)} ago"
            table.add_row(room.id, fact["kind"], fact["phase"], seats, str(fact["index"]), age, size)
    return table


def _size(size: float) -> str:
    if size < _KIB:
        return f"{size} B"
    return f"{size / _KIB:.1f} KiB" if size < _KIB * _KIB else f"{size / _KIB / _KIB:.1f} MiB"
