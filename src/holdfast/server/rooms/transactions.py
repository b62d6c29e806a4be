"""Undoes turns that fail, in the rooms that want it (`transactional`).

At the start of a turn the state and the players' data are noted as they are. What the game does in the turn through
its room is either noted to be undone, if the game sees it again in the same turn (timers, owners, groups, phase), or
held until the turn has succeeded (`Transaction` in core, and the turn buffer for what clients are sent). A failed turn
is undone before anybody is told that it has failed.
"""

from collections import deque
from collections.abc import Callable
from contextvars import Token
from enum import Enum
from typing import Any, get_type_hints

import msgspec
import msgspec.inspect

from holdfast.core.groups import Group, Groups
from holdfast.core.nesting import child_types
from holdfast.core.ownership import Objects
from holdfast.core.room import Room, RoomAgent, player_data_type
from holdfast.core.room_context import RoomContext, Timer
from holdfast.core.session import Player, Seat, Session, Spectator
from holdfast.core.transaction import Transaction, enter, leave
from holdfast.logs import get_logger
from holdfast.server.rooms.delivery import Failure
from holdfast.server.rooms.turn_buffer import TurnBuffer
from holdfast.state import Memento, Mementos, Parts, Restore, path_to

log = get_logger("holdfast.server")

# What a state may refer to: it has its own ways of being undone, or none.
_REFERENCES = (Player, Spectator, Session, Timer, Group, Groups, Objects, RoomAgent)
_ABSENT = object()


def check_undoable(room_type: type[Room[Any]]) -> None:
    """Raise `ValueError` for a transactional room that says by its types that it cannot be undone."""
    kinds = {"state": get_type_hints(room_type).get("state", Any), "players' data": player_data_type(room_type)}
    for what, kind in kinds.items():
        unknown = _unknown_class(kind, _REFERENCES)
        if unknown is not None:
            raise ValueError(
                f"{room_type.__name__} is transactional, but its {what} cannot be rolled back: "
                f"{unknown.__name__} is neither a Struct nor a dataclass, list, dict or set"
            )


def _unknown_class(kind: Any, known: tuple[type, ...]) -> type | None:
    """The first class in a type whose objects a memento cannot restore."""
    todo, seen = [_type_info(kind)], set[int]()
    while todo:
        info = todo.pop()
        if info is None or id(info) in seen:
            continue
        seen.add(id(info))
        if isinstance(info, msgspec.inspect.CustomType):
            if not issubclass(info.cls, (*known, Parts, deque, Enum)):
                return info.cls
        else:
            todo += [child for _, child in child_types(info)]
    return None


def _type_info(kind: Any) -> msgspec.inspect.Type | None:
    """None for a type that msgspec does not know: what is in it is found when it is first met."""
    try:
        return msgspec.inspect.type_info(kind)
    except (TypeError, NameError):
        return None


class Transactions:
    """The transactional turns of one room, which takes one at a time."""

    def __init__(
        self,
        room: Room[Any],
        context: RoomContext,
        buffer: TurnBuffer,
        *,
        undone: Callable[[], None],
        failed: Failure,
    ) -> None:
        """`undone` is called when a turn was undone."""
        self._room = room
        self._context = context
        self._buffer = buffer
        self._undone = undone
        self._failed = failed
        others: dict[type, Callable[[Any], Restore | None]] = dict.fromkeys((*_REFERENCES, type(room)), _stays)
        others[Parts] = self._note_parts
        self._mementos = Mementos(others, self._unknown)
        self._complained: set[type] = set()
        self._turn: Transaction | None = None
        self._before: _Before | None = None
        self._parts: list[Parts[Any]] = []
        # Of entries of parts: one for all, for they may hold the same objects.
        self._entries = Memento()

    def begin(self) -> "Token[Transaction | None]":
        """A turn begins; the code that runs from now on is part of it, until `left`."""
        turn = self._turn = self._context.turn = Transaction()
        self._before = _Before(self._room, self._context)
        try:
            self._before.memento = self._mementos.take(*self._before.roots)
        except Exception as error:  # noqa: BLE001 - the game's values may be anything, and nested to any depth
            self._complain(type(error), f"the state cannot be noted: {error}", "")
        return enter(turn)

    def left(self, token: "Token[Transaction | None]") -> None:
        """What runs from now on is not part of the turn, which may go on in a task."""
        leave(token)

    def end(self, error: BaseException | None) -> None:
        """The turn is over: undo it, or do what waited for its success."""
        turn, before = self._turn, self._before
        if turn is None or before is None:
            return
        self._turn = self._before = self._context.turn = None
        was_listed = self._context.listed in turn.marks
        acts = turn.close(is_undone=error is not None)
        if error is not None:
            self._buffer.undo()
            self._call(acts)
            # What is in the parts of the state may be in the rest of it too, which was noted before.
            for restore in (self._entries.restore, before.restore):
                try:
                    restore()
                except Exception as failure:  # noqa: BLE001 - classes of the game's own may raise
                    self._complain(type(failure), f"the state cannot be restored: {failure}", "")
        if self._parts:
            for parts in self._parts:
                parts.forget()
            self._parts.clear()
            self._entries = Memento()
        if error is None:
            self._call(acts)
            return
        self._undone()
        if was_listed:
            # While the turn waited for something, others may have seen what it had changed.
            self._context.listed()

    def seat_given(self, seat: Seat) -> None:
        """A player came while a turn is being taken."""
        if self._before is not None:
            self._before.add(seat.player, self._mementos)

    def _call(self, acts: list[tuple[Callable[..., Any], tuple[Any, ...]]]) -> None:
        for act, args in acts:
            try:
                act(*args)
            except Exception as error:  # noqa: BLE001 - what was possible when it was asked for may not be any more
                self._failed(error, getattr(act, "__name__", "the end of a turn"), "")

    # What is noted

    def _note_parts(self, parts: Parts[Any]) -> Restore:
        self._parts.append(parts)
        return parts.note(self._note_entry)

    def _note_entry(self, entry: Any) -> None:
        self._mementos.add(self._entries, entry)

    def _unknown(self, value: Any) -> None:
        before, kind = self._before, type(value)
        if before is not None and kind not in self._complained:
            self._complain(kind, f"{kind.__qualname__} objects cannot be rolled back", path_to(value, before.paths()))

    def _complain(self, what: type, problem: str, path: str) -> None:
        if what in self._complained:
            return
        self._complained.add(what)
        log.error(
            "a failed turn of this room would leave something behind: use Structs, dataclasses, lists, dicts and sets",
            room=self._room.id,
            kind=self._room.kind,
            problem=problem,
            path=path,
        )


class _Before:
    """The room as it was before a turn."""

    __slots__ = (
        *("_context", "_data", "_max_players", "_properties", "_random", "_room", "_state", "memento", "roots"),
    )

    def __init__(self, room: Room[Any], context: RoomContext) -> None:
        self._room = room
        self._context = context
        self._state = room.state
        self._max_players = room.__dict__.get("max_players", _ABSENT)
        self._random = context.random.getstate()
        self._properties = properties = dict(context.properties)
        self.memento: Memento | None = None
        self.roots: list[Any] = [self._state, *properties.values()]
        """What can change in itself."""
        self._data: list[tuple[Player[Any], Any]] = []
        # Also of players whom `admit` still considers: they may get their seat while the turn waits for something.
        for seat in context.seats:
            player = seat.player
            self._data.append((player, player.data))
            self.roots += (player.data, player.options)

    def add(self, player: Player[Any], mementos: Mementos) -> None:
        self._data.append((player, player.data))
        if self.memento is not None:
            mementos.add(self.memento, player.data, player.options)

    def paths(self) -> dict[str, Any]:
        """The roots, as a game would write them."""
        paths = {"state": self._state}
        for player, data in self._data:
            paths[f"player({player.id!r}).data"] = data
            paths[f"player({player.id!r}).options"] = player.options
        return paths

    def restore(self) -> None:
        room, context = self._room, self._context
        room.state = self._state
        for player, data in self._data:
            player.data = data
        context.properties.restore(self._properties)
        if self._max_players is _ABSENT:
            room.__dict__.pop("max_players", None)
        else:
            room.max_players = self._max_players
        context.random.setstate(self._random)
        if self.memento is not None:
            self.memento.restore()


def _stays(_: Any) -> None:
    """It is not the turn's to undo."""
