"""The stream of events: every event is in it, under its name and with all of its fields."""

import asyncio
from typing import Any

import msgspec
from msgspec.structs import fields

from holdfast.observability.bus import EventLog
from holdfast.schemas import events
from holdfast.schemas.events import Event
from holdfast.schemas.projection import whole
from holdfast.schemas.room import RoomInfo

DAY_ONE = 1_800_000_000.0
ROOM = RoomInfo("r", "arena", 2, 4, "lobby", {"map": "mill"}, name="The Mill", host="ada")
EXAMPLES: dict[Any, object] = {
    str: "x",
    float: 1.5,
    float | None: 1.5,
    int: 7,
    bool: True,
    list[str]: ["a", "b"],
    RoomInfo | None: ROOM,
}
BASES = {events.Event, events.SessionEvent, events.RoomEvent}
KINDS = [
    kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind.__module__ == events.__name__ and kind not in BASES
]


def _made(kind: type[Event], *, with_defaults: bool) -> Event:
    said: dict[str, Any] = {
        field.name: EXAMPLES[field.type] for field in fields(kind) if field.required or not with_defaults
    }
    return kind(**{**said, "at": DAY_ONE})


async def test_every_event_is_told_with_its_name_its_time_and_all_of_its_fields() -> None:
    for kind in KINDS:
        for with_defaults in (True, False):
            await _is_told(kind, with_defaults=with_defaults)


async def _is_told(kind: type[Event], *, with_defaults: bool) -> None:
    log = EventLog(asyncio.get_running_loop(), wall_clock=lambda: DAY_ONE, kept_max=10)
    event = _made(kind, with_defaults=with_defaults)
    reader = log.read(None)

    log.record(event)
    told = await anext(reader)

    assert (told.type, told.at) == (str(kind.__struct_config__.tag), DAY_ONE)
    assert list(told.body) == [name for name in kind.__struct_fields__ if name != "at"]
    sent = msgspec.json.decode(msgspec.json.encode(whole(told)))
    assert msgspec.convert({**sent["body"], "at": sent["at"], "type": sent["type"]}, kind) == event
