"""What clients see of a room, noted at the end of its turns; and the messages that lead from one view to another.

What everybody sees is noted, compared and encoded once; so is what spectators see in its place. What is made for a
player (the room's `view`, the private fields of their data) is a second node in the same message. Of a field that is
`Areas`, each client gets the areas that it sees.
"""

from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from msgspec import Raw

from holdfast.core.block import Block, Entry
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.limits import Limits
from holdfast.core.messages import STATE
from holdfast.core.room import Room
from holdfast.core.room_context import RoomContext
from holdfast.core.session import Player, Seat
from holdfast.schemas.frames import FRAME_HEAD_BYTES
from holdfast.server.rooms.shared_plan import RoomPlan
from holdfast.server.rooms.turn_tasks import of_something_else
from holdfast.state import (
    AS_JSON,
    AS_MSGPACK,
    FORGET_FIRST,
    MORE_FOLLOWS,
    AreaEncoder,
    Dialect,
    Node,
    NotedAreas,
    Shadow,
    SharedPlan,
    Unshareable,
    split_whole,
)

# Two nodes, those for everybody and for one client, fit into one message.
_BOTH = 2
# From here on a change is compared with the whole view, which may be smaller: most of a large dict has gone.
_LARGE_CHANGE_BYTES = 2048
# Not if it is this many times smaller than the last whole view: to encode that would take longer than all the rest.
_SURELY_SMALLER = 4
# A field of the state around a node of its own.
_AROUND_BYTES = 300
# A node with no change: what is made for one client has changed, and nothing else.
_NO_CHANGE: Node = [[]]
_DIALECTS: dict[Codec, Dialect] = {MSGPACK: AS_MSGPACK, JSON: AS_JSON}

T = TypeVar("T")


class HookFailed(Exception):
    """A hook that says what is shared has raised; the cause is what it raised."""

    def __init__(self, hook: str) -> None:
        super().__init__(hook)
        self.hook = hook


class FailedBefore(Exception):
    """What has failed for another client fails for this one too; it is in the log already."""


class NotedView:
    """What was noted for some clients at the end of a turn."""

    __slots__ = ("is_checked", "is_for_many", "number", "shadow", "worlds")

    def __init__(self, shadow: Shadow, worlds: list[NotedAreas] | None = None, *, is_for_many: bool = True) -> None:
        self.shadow = shadow
        self.worlds = worlds or []
        """Of each field that is `Areas`, all its entries."""
        self.is_for_many = is_for_many
        self.is_checked = False
        """Whether all of it can be encoded: it was before, or what has changed since then was compared."""
        self.number = 0


class Seen(NamedTuple):
    """All that one client sees."""

    view: NotedView
    own: NotedView | None
    """What is made for it alone, or for all spectators."""
    worlds: list[NotedAreas]
    """Of each field that is `Areas`, the areas that it sees."""


class SharedViews:
    """Notes one room, and encodes what clients see of it."""

    def __init__(self, room: Room[Any], plan: RoomPlan, context: RoomContext, limits: Limits) -> None:
        self._room = room
        self._plan = plan
        self._seats = context.seats
        self._state_bytes_max = limits.state_bytes_max
        # The rest is for the flags and the heads of a message's parts.
        self._node_bytes_max = limits.payload_bytes_max - FRAME_HEAD_BYTES - 16
        self.now: NotedView | None = None
        """What everybody sees since `look` was called last; None before the game has set up its state."""
        self._changed: tuple[NotedView, NotedView, Node | None] | None = None
        self._spectators: NotedView | None = None
        self._spectators_failed = False
        # Of views for many, encoded once until the next look.
        self._changes: dict[tuple[NotedView, NotedView, Codec], bytes | None] = {}
        self._wholes: dict[tuple[NotedView, Codec], list[bytes]] = {}
        # The size of a whole view when it was last encoded for its size.
        self._whole_bytes = 0
        self._areas: dict[Codec, list[AreaEncoder]] = {}
        self._common: Seen | None = None
        # The messages for those who see what everybody does, by what they have.
        self._messages: dict[tuple[NotedView | None, Codec], list[Entry]] = {}
        # What cannot be encoded for many: finding out why takes long.
        self._failed: set[tuple[Any, ...]] = set()
        self.has_view = plan.has_view
        self.is_common = plan.is_common
        """Whether everybody sees the same."""
        self.is_looking = False
        """Whether a hook of the game is asked: it may only look."""

    # Looking

    def look(self, newcomers: Iterable[Codec] = ()) -> None:
        """Note the room as it is now, and encode all of it for newcomers who read these codecs.

        If this raises, nothing has changed.
        """
        room, plan = self._room, self._plan
        if "state" in room.shares and room.state is None:
            # The game has not set it up yet.
            return
        values: dict[str, Any] = {"state": room.state}
        if "players" in plan.roots:
            # A newcomer is there once `on_join` has set them up.
            there = (seat for seat in self._seats.occupied if not seat.is_joining)
            values["players"] = {seat.player_id: seat.player.data for seat in there}
        before = self.now
        noted = [values[root] for root in plan.roots]
        view = NotedView(plan.common.take(*noted), self._worlds(before))
        self._spectators, self._spectators_failed = None, False
        change = None
        if before is not None:
            change = plan.common.diff(before.shadow, view.shadow)
            if change is None and _are_same(before.worlds, view.worlds):
                # What everybody sees is encoded; what is made for some may have changed.
                self._changes.clear()
                self._wholes.clear()
                self._areas.clear()
                self._failed.clear()
                self._encode_for(newcomers, before, noted)
                return
            view.number = before.number + 1
            view.is_checked = before.is_checked
        self.now = view
        self._forget()
        if before is not None:
            # Most clients come from there.
            self._changed = before, view, change
        self._encode_for(newcomers, view, noted)

    def _encode_for(self, newcomers: Iterable[Codec], view: NotedView, values: list[Any]) -> None:
        """Encode a view from the values while they are as they were noted: it is several times as fast."""
        if view.is_checked:
            # If it fails, it fails again when it is needed, and is reported then.
            with suppress(Unshareable):
                for codec in newcomers:
                    self._whole_of(self._plan.common, view, codec, *values)

    def _forget(self) -> None:
        self._changed = None
        self._changes.clear()
        self._wholes.clear()
        self._areas.clear()
        self._messages.clear()
        self._failed.clear()
        self._common = None

    def _worlds(self, before: NotedView | None) -> list[NotedAreas]:
        worlds: list[NotedAreas] = []
        for place, areas in enumerate(self._plan.areas):
            entries = areas.entries(self._room.state)
            names = self._asked("area", partial(_each, self._room.area, entries.values()))
            worlds.append(areas.take(entries, names, before.worlds[place] if before is not None else {}))
        return worlds

    def _asked(self, hook: str, ask: Callable[[], T]) -> T:
        self.is_looking = True
        try:
            return ask()
        except Exception as error:
            raise HookFailed(hook) from error
        except CancelledError as cancelled:
            raise HookFailed(hook) from of_something_else(cancelled)
        finally:
            self.is_looking = False

    def seen_from(self, seat: Seat, view: NotedView) -> Seen:
        """What the client of a seat, or of a spectator's place, sees."""
        if self._plan.is_common:
            if self._common is None:
                self._common = Seen(view, None, [])
            return self._common
        player = seat.player if seat.purpose == "seat" else None
        own = self._seen_by_spectators() if player is None else self._made_for(self._plan.players, player)
        worlds: list[NotedAreas] = []
        if self._plan.areas:
            names = self._asked("sees", lambda: _names(self._room.sees(player)))
            worlds = [{name: world[name] for name in names if name in world} for world in view.worlds]
        return Seen(view, own, worlds)

    def _made_for(self, plan: SharedPlan | None, player: Player[Any] | None) -> NotedView | None:
        if plan is None:
            return None
        values = [self._asked("view", lambda: self._room.view(player))] if self._plan.has_view else []
        if player is not None:
            values.append(player.data)
        return NotedView(plan.take(*values), is_for_many=player is None)

    def _seen_by_spectators(self) -> NotedView | None:
        if self._spectators is None and self._plan.spectators is not None:
            if self._spectators_failed:
                raise FailedBefore
            self._spectators_failed = True
            self._spectators = self._made_for(self._plan.spectators, None)
            self._spectators_failed = False
        return self._spectators

    def size_of(self, kept: Iterable[Seen]) -> int:
        """At most how large what these clients have seen is when encoded: each view once, and not the present one."""
        views: dict[NotedView, SharedPlan] = {}
        for seen in kept:
            if seen.view is not self.now:
                views[seen.view] = self._plan.common
            if seen.own is not None:
                views[seen.own] = self._plan_of(seen.own)
        encoders = self._area_encoders(MSGPACK)
        size = 0
        for view, plan in views.items():
            size += len(AS_MSGPACK.encode(plan.whole(view.shadow)))
            for encoder, world in zip(encoders, view.worlds, strict=False):
                size += sum(map(len, encoder.whole(world, self._node_bytes_max)))
        return size

    def _plan_of(self, own: NotedView) -> SharedPlan:
        """The plan of what is made for one client, or for all spectators."""
        plan = self._plan.spectators if own.is_for_many else self._plan.players
        assert plan is not None
        return plan

    # Writing

    def messages(self, old: Seen | None, new: Seen, codec: Codec) -> list[Entry]:
        """The messages that lead a client from what it has to what it sees; from nothing if it has nothing."""
        if not self._plan.is_common:
            return [(STATE, body) for body in self._bodies(old, new, codec)]
        step = (None if old is None else old.view, codec)
        messages = self._messages.get(step)
        if messages is None:
            with self._once(step):
                messages = [Block(codec, (STATE, body)) for body in self._bodies(old, new, codec)]
            self._messages[step] = messages
        return messages

    @contextmanager
    def _once(self, step: tuple[Any, ...]) -> Iterator[None]:
        """What fails for one client is not tried for the next one."""
        if step in self._failed:
            raise FailedBefore
        self._failed.add(step)
        yield
        self._failed.discard(step)

    def _bodies(self, old: Seen | None, new: Seen, codec: Codec) -> list[bytes]:
        if old is not None:
            nodes = self._change(old, new, codec)
            if not nodes:
                return []
            size = sum(map(len, nodes))
            if size <= self._node_bytes_max and self._is_small(size, new, codec):
                return [codec.encode([0, *map(Raw, nodes)])]
        wholes = self._whole(new, codec)
        flags = [MORE_FOLLOWS] * (len(wholes) - 1) + [0]
        flags[0] |= FORGET_FIRST
        return [codec.encode([flag, *map(Raw, nodes)]) for flag, nodes in zip(flags, wholes, strict=True)]

    def _change(self, old: Seen, new: Seen, codec: Codec) -> list[bytes]:
        """The node for everybody, and that for one client; nothing if it sees no change."""
        common = self._encoded(self._plan.common, old.view, new.view, codec)
        own = self._own_change(old, new, codec)
        if common is None and own is None:
            return []
        common = common or _DIALECTS[codec].encode(_NO_CHANGE)
        return [common] if own is None else [common, own]

    def _encoded(self, plan: SharedPlan, old: NotedView, new: NotedView, codec: Codec) -> bytes | None:
        if old is new:
            return None
        step = old, new, codec
        if step not in self._changes:
            with self._once(step):
                is_noted = self._changed is not None and self._changed[:2] == (old, new)
                node = self._changed[2] if is_noted and self._changed else plan.diff(old.shadow, new.shadow)
                self._changes[step] = None if node is None else _DIALECTS[codec].encode(node)
        return self._changes[step]

    def _own_change(self, old: Seen, new: Seen, codec: Codec) -> bytes | None:
        node: Node | None = None
        if old.own is not None and new.own is not None:
            plan = self._plan_of(new.own)
            if new.own.is_for_many:
                return self._encoded(plan, old.own, new.own, codec)
            node = plan.diff(old.own.shadow, new.own.shadow)
        fields: list[Any] = []
        for encoder, before, world in zip(self._area_encoders(codec), old.worlds, new.worlds, strict=True):
            if before != world and (changed := encoder.change(before, world)) is not None:
                fields += (encoder.name, Raw(changed))
        if fields:
            node = node or [[]]
            node += ([] for _ in range(_BOTH - len(node)))
            node[1] += ("state", [[], fields])
        return None if node is None else _DIALECTS[codec].encode(node)

    def _area_encoders(self, codec: Codec) -> list[AreaEncoder]:
        found = self._areas.get(codec)
        if found is None:
            found = self._areas[codec] = [AreaEncoder(areas, _DIALECTS[codec]) for areas in self._plan.areas]
        return found

    # Whole views

    def _whole(self, seen: Seen, codec: Codec) -> list[list[bytes]]:
        """The nodes of each message."""
        nodes = list(self._whole_of(self._plan.common, seen.view, codec))
        common = len(nodes)
        own = seen.own
        if own is not None:
            nodes += self._whole_of(self._plan_of(own), own, codec)
        dialect = _DIALECTS[codec]
        for encoder, world in zip(self._area_encoders(codec), seen.worlds, strict=True):
            for part in encoder.whole(world, self._node_bytes_max - _AROUND_BYTES):
                nodes.append(dialect.encode([[], ["state", [[], [encoder.name, Raw(part)]]]]))
        size = sum(map(len, nodes))
        if size > self._state_bytes_max:
            raise Unshareable(f"{size} bytes are more than Limits.state_bytes_max ({self._state_bytes_max})")
        if len(nodes) == _BOTH and common == 1 and size <= self._node_bytes_max:
            return [nodes]
        return [[node] for node in nodes]

    def _is_small(self, size: int, seen: Seen, codec: Codec) -> bool:
        """Whether a change of this size is smaller than the whole view."""
        if size < _LARGE_CHANGE_BYTES or size * _SURELY_SMALLER <= self._whole_bytes:
            return True
        self._whole_bytes = sum(len(node) for nodes in self._whole(seen, codec) for node in nodes)
        return size <= self._whole_bytes

    def _whole_of(self, plan: SharedPlan, view: NotedView, codec: Codec, *values: Any) -> list[bytes]:
        nodes = self._wholes.get((view, codec))
        if nodes is None:
            encode = _DIALECTS[codec].encode
            whole = plan.whole(view.shadow, *values)
            nodes = [encode(whole)]
            if len(nodes[0]) > self._node_bytes_max:
                nodes = list(map(encode, split_whole(whole, self._node_bytes_max, encode)))
            view.is_checked = True
            if view.is_for_many:
                self._wholes[view, codec] = nodes
        return nodes


def _each(call: Callable[[Any], str], values: Iterable[Any]) -> list[str]:
    return list(map(call, values))


def _names(names: Iterable[str]) -> dict[str, None]:
    if isinstance(names, str):
        raise TypeError(f"sees returns several areas, as in [{names!r}]; got {names!r}")
    return dict.fromkeys(names)


def _are_same(old: list[NotedAreas], new: list[NotedAreas]) -> bool:
    """Whether these are the same areas, unchanged."""
    return all(before == world for before, world in zip(old, new, strict=True))
