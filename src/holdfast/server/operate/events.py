"""The events of all nodes in one stream, as operators read them.

Each node numbers its own events, so a position in the stream is one number for each node. What a node has not told is
never left out silently: a "missing" names a node that does not answer, and a "gap" one whose events are lost.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.cluster.membership import MemberChange
from holdfast.cluster.port import BusError
from holdfast.core.errors import Invalid, Refused
from holdfast.core.limits import Limits
from holdfast.observability.bus import EventLog
from holdfast.schemas.cluster import EventsFound, EventsWanted
from holdfast.schemas.node import EventInfo
from holdfast.schemas.projection import whole
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.context import Context

_EVENTS = "events"
# Instead of the id of an event: what happens from now on, and all that is kept.
_FROM_NOW: Final = -1
_FROM_START: Final = 0
_AT_ONCE = 256
# Events that wait for a reader: nodes are asked for no more until it has taken them.
_WAITING_MAX = 256

Position = dict[str, int]
"""By the life of a node: the id of its last event that was read."""


class EventOperations:
    """The events of this node, or of all nodes of its cluster."""

    def __init__(self, context: Context, node: ClusterNode | None, name: str, events: EventLog) -> None:
        """`name` is that of this node of a cluster."""
        self._limits: Limits = context.limits
        self._wall_clock = context.clock.wall_clock
        self._node = node
        self._name = name
        self._events = events
        self._readers: set[_ClusterReader] = set()
        if node is not None:
            node.questions.answer(_EVENTS, EventsWanted, self._asked)
            node.watch.on_change.append(self._changed)

    def read(self, after: str = "") -> AsyncIterator[EventInfo]:
        """The events from now on, or after the id of an event of this node, or after a position in this stream.

        `Invalid` if it is neither.
        """
        own_life = self._node.life if self._node is not None else ""
        position = _parsed(after, own_life)
        own = self._events.read(position.get(own_life) if position is not None else None)
        return own if self._node is None else self._read(self._node, own, position)

    async def _read(
        self, node: ClusterNode, own: AsyncIterator[EventInfo], position: Position | None
    ) -> AsyncGenerator[EventInfo]:
        began_at = {node.life: self._events.last_id} | (position or {})
        reader = _ClusterReader(node, self._limits, self._wall_clock, began_at)
        if began_at.keys() == {node.life}:
            await reader.begin_now()
        self._readers.add(reader)
        try:
            async for event in reader.read(own, self._name):
                yield event
        finally:
            self._readers.discard(reader)

    def _changed(self, _: MemberChange) -> None:
        for reader in self._readers:
            reader.follow_all()

    async def _asked(self, wanted: EventsWanted) -> EventsFound:
        """What has happened here since, or happens soon; an empty answer says that nothing has."""
        log = self._events
        if wanted.after == _FROM_NOW:
            return EventsFound(log.last_id)
        after = log.first_id if wanted.after == _FROM_START else wanted.after
        try:
            async with asyncio.timeout(self._limits.answer_s / 2):
                await log.happened(after)
        except TimeoutError:
            return EventsFound(after)
        found: list[EventInfo] = []
        size = 0
        for event in log.next(after, _AT_ONCE):
            shown = replace(event, body=whole(event.body))
            size += len(msgspec.msgpack.encode(shown))
            if found and size > self._limits.forwarded_bytes_max:
                break
            found.append(shown)
        return EventsFound(found[-1].id if found else after, found)


class _ClusterReader:
    """One reader of the events of all nodes."""

    def __init__(self, node: ClusterNode, limits: Limits, wall_clock: Callable[[], float], position: Position) -> None:
        self._node = node
        self._limits = limits
        self._wall_clock = wall_clock
        self._position = position
        self._happened: asyncio.Queue[tuple[str, EventInfo] | None] = asyncio.Queue(_WAITING_MAX)
        self._following: dict[str, asyncio.Task[None]] = {}

    async def begin_now(self) -> None:
        """Read what happens on the other nodes from now on."""
        asked = await self._node.questions.ask_all(
            _EVENTS, EventsWanted(_FROM_NOW), EventsFound, self._limits.operator_answer_s
        )
        self._position |= {life: found.position for life, found in asked.by_life.items()}
        self._position |= dict.fromkeys(asked.missing, _FROM_NOW)

    async def read(self, own: AsyncIterator[EventInfo], name: str) -> AsyncGenerator[EventInfo]:
        """All of them in the order in which they are heard, those of one node in theirs; until this node stops."""
        lost = [life for life in self._position if life != self._node.life and not self._node.may_live(life)]
        self._following[self._node.life] = asyncio.create_task(self._follow_own(own, name))
        self.follow_all()
        try:
            for life in lost:
                yield self._placed(life, self._gone(life, self._node.name_of(life)))
            while (happened := await self._happened.get()) is not None:
                yield self._placed(*happened)
        finally:
            for task in self._following.values():
                task.cancel()
            await asyncio.wait(self._following.values())

    def _placed(self, life: str, event: EventInfo) -> EventInfo:
        if event.id:
            self._position[life] = event.id
        else:
            self._position.pop(life, None)
        return replace(event, position=",".join(f"{life}:{number}" for life, number in self._position.items()))

    def follow_all(self) -> None:
        """Follow every node that may be alive: some may have come since."""
        for life in self._node.watch.membership.members:
            task = self._following.get(life)
            if self._node.may_live(life) and (task is None or task.done()):
                self._following[life] = asyncio.create_task(self._follow(life))

    async def _follow_own(self, own: AsyncIterator[EventInfo], name: str) -> None:
        async for event in own:
            await self._happened.put((self._node.life, replace(event, node=name)))
        await self._happened.put(None)

    async def _follow(self, life: str) -> None:
        after, name = self._position.get(life, _FROM_START), self._node.name_of(life)
        is_missing = False
        while True:
            try:
                found = await self._node.questions.ask(life, _EVENTS, EventsWanted(after), EventsFound)
            except (BusError, Refused) as error:
                if not self._node.may_live(life):
                    await self._happened.put((life, self._gone(life, name)))
                    return
                if not is_missing:
                    is_missing = True
                    await self._happened.put((life, self._said(after, "missing", name, str(error))))
                await asyncio.sleep(self._limits.probe_s)
                continue
            is_missing = False
            for event in found.events:
                await self._happened.put((life, replace(event, node=name)))
            after = found.position

    def _gone(self, life: str, name: str) -> EventInfo:
        known = self._node.watch.membership.members.get(life)
        how = known.state.value if known is not None else "gone"
        return self._said(0, "gap", name, f"the node is {how}: what it has not told is lost")

    def _said(self, number: int, kind: str, name: str, why: str) -> EventInfo:
        return EventInfo(number, kind, self._wall_clock(), {"why": why}, node=name)


def _parsed(after: str, own_life: str) -> Position | None:
    """None: from now on."""
    if not after:
        return None
    try:
        if after.isdecimal():
            return {own_life: int(after)}
        parts = (each.partition(":") for each in after.split(","))
        return {life: int(number) for life, _, number in parts}
    except ValueError:
        raise Invalid(f"no event and no position is called {after[:40]!r}") from None
