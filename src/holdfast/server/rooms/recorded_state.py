"""What a recording sees of a room after each turn: all that is saved of it, under four roots.

    state      the room's `snapshot()`
    players    the players' data, by the key of their seat: their id, or `id#number` for a second seat
    seats      who sits there
    room       the engine's half: phase, host, properties, timers, objects, groups, random numbers

Typed values are compared as shared state is. What that cannot handle (a state without a type, a value of another type
than declared) is compared and recorded as a whole.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Raw, Struct

from holdfast.core.room import Room, player_data_type
from holdfast.core.room_context import RoomContext, Timer
from holdfast.core.saved_types import saved_type
from holdfast.core.session import Seat
from holdfast.server.rooms.splitmix64 import SplitMix64
from holdfast.state import Audience, Node, Parts, Shadow, SharedPlan, encode_msgpack

ROOTS = ("state", "players", "seats", "room")
_encode = msgspec.msgpack.Encoder().encode


class SeatView(Struct):
    """A seat as it is recorded."""

    player: str
    number: int
    state: str
    name: str = ""
    agent: str = ""
    options: Any = None


class TimerView(Struct):
    """A pending timer as it is recorded; `due_at` is on the room's clock."""

    method: str
    due_at: float
    name: str = ""
    every_s: float = 0.0
    arguments: bytes = b""
    """As they are saved, in MessagePack."""


class EngineView(Struct):
    """What the engine knows of the room, as it is recorded."""

    phase: str
    status: str
    is_locked: bool
    max_players: int
    name: str
    host: str
    """The key of a seat."""
    successor: str
    properties: Any
    owners: dict[str, str]
    """Of objects: the key of the owner's seat; empty for the server."""
    groups: dict[str, list[str]]
    timers: dict[str, TimerView]
    spectators: list[str]
    random: str
    """The state of the generator, in hexadecimal: a number of 64 bits."""


def seat_keys(seats: Iterable[Seat]) -> dict[Seat, str]:
    """By what each seat goes."""
    keys: dict[Seat, str] = {}
    taken: set[str] = set()
    for seat in seats:
        key = seat.player_id if seat.player_id not in taken else f"{seat.player_id}#{seat.number}"
        taken.add(key)
        keys[seat] = key
    return keys


def engine_view(room: Room[Any], context: RoomContext, timers: list[Timer], keys: Mapping[Seat, str]) -> EngineView:
    """The engine's half of the room as it is now."""
    # The seats of players are keys: one who was just kicked may still own something.
    by_player = {seat.player: key for seat, key in keys.items()}
    grouping, spectators, host = context.grouping, context.spectators, context.host
    return EngineView(
        phase=context.phase,
        status=context.listing.status.value,
        is_locked=context.is_locked,
        max_players=room.max_players,
        name=context.listing.name,
        host=by_player.get(host, "") if host is not None else "",
        successor=context.successor,
        properties=dict(context.properties),
        owners={
            object_id: "" if owner is None else by_player.get(owner, owner.id)
            for object_id, owner in context.objects.owners.items()
        },
        groups={}
        if grouping is None
        else {
            name: [keys[seat] for seat in members.seats if seat in keys] for name, members in grouping.groups.items()
        },
        timers={
            str(timer.number): TimerView(
                timer.method, timer.due_at, timer.name, timer.every_s, _encode(timer.arguments)
            )
            for timer in timers
        },
        spectators=[place.player_id for place in spectators.occupied] if spectators is not None else [],
        random=hex(context.random.position) if isinstance(context.random, SplitMix64) else "",
    )


def plain(value: Any) -> Any:
    """A value of the game's as plain data; raises for what cannot be saved."""
    return msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=True, enc_hook=_parts)


def _parts(value: Any) -> Any:
    if isinstance(value, Parts):
        # `peek`: looking must not mark every part for saving.
        return {name: value.peek(name) for name in value}
    raise TypeError(f"{type(value).__name__} objects cannot be recorded")


class NotedRoom(NamedTuple):
    """What was noted of a room at the end of a turn."""

    shadow: Shadow
    wholes: dict[str, bytes]
    """Roots that are recorded as a whole."""


class RecordedPlan:
    """How rooms of one type are recorded."""

    def __init__(self, room_type: type[Room[Any]], *, is_typed: bool = True) -> None:
        kinds: dict[str, Any] = {"seats": dict[str, SeatView], "room": EngineView}
        own: dict[str, Any] = {"state": saved_type(room_type), "players": dict[str, player_data_type(room_type)]}  # type: ignore[misc]  # known at run time only
        if own["state"] is not Any:
            # None until the game has set it up.
            own["state"] = own["state"] | None
        if is_typed:
            kinds |= {name: kind for name, kind in own.items() if kind is not Any and _can_be_compared(name, kind)}
        self.typed = [name for name in ROOTS if name in kinds]
        self.untyped = [name for name in ROOTS if name not in kinds]
        self._plan = SharedPlan({name: kinds[name] for name in self.typed}, Audience.RECORDING)

    def take(self, values: Mapping[str, Any]) -> NotedRoom:
        """Note the values of the roots; raises anything for what cannot be recorded."""
        shadow = self._plan.take(*(values[name] for name in self.typed))
        return NotedRoom(shadow, {name: _encode(plain(values[name])) for name in self.untyped})

    def diff(self, old: NotedRoom, new: NotedRoom) -> bytes | None:
        """The encoded node that leads from one to the other; None if they are the same."""
        node: Node | None = self._plan.diff(old.shadow, new.shadow)
        return _with(node, {name: each for name, each in new.wholes.items() if each != old.wholes[name]})

    def whole(self, seen: NotedRoom) -> bytes:
        """The encoded node that leads there from nothing."""
        node = _with(self._plan.whole(seen.shadow), seen.wholes)
        assert node is not None
        return node


def _with(node: Node | None, wholes: Mapping[str, bytes]) -> bytes | None:
    if wholes:
        sets = [part for name, value in wholes.items() for part in (name, Raw(value))]
        node = [[*node[0], *sets], *node[1:]] if node is not None else [sets]
    return encode_msgpack(node) if node is not None else None


def _can_be_compared(name: str, kind: Any) -> bool:
    try:
        SharedPlan({name: kind}, Audience.RECORDING)
    except Exception:  # noqa: BLE001 - whatever is wrong with the type: it is recorded as a whole
        return False
    return True


_plans: WeakKeyDictionary[type[Room[Any]], RecordedPlan] = WeakKeyDictionary()


def recorded_plan(room_type: type[Room[Any]]) -> RecordedPlan:
    """The plan of a room's type; compiling it is slow."""
    if room_type not in _plans:
        _plans[room_type] = RecordedPlan(room_type)
    return _plans[room_type]
