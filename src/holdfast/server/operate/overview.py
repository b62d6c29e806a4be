"""The numbers of all nodes together, once or every second, with the newest events: what a dashboard shows first.

Each node answers for itself. A node that does not answer in time is named.
"""

import asyncio
import math
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import TypeVar

from msgspec.structs import replace

from holdfast.cluster.port import BusError
from holdfast.core.errors import NotFound, Throttled
from holdfast.core.limits import Limits
from holdfast.schemas.node import EventInfo, LimitHit, NodeNumbers, OverviewInfo, SettingsInfo, SpreadInfo
from holdfast.schemas.projection import whole
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.context import Context
from holdfast.server.operate.events import EventOperations

T = TypeVar("T")

OVERVIEW_S = 1.0
"""How often the overview is sent to watchers."""
# How long an overview is shared among readers. Shorter than the interval: no reader gets the same one twice.
_SHARED_S = 0.9 * OVERVIEW_S
# How many events are sent with each overview: nobody could read all of a storm's.
_EVENTS_MAX = 100
_OVERVIEW, _SETTINGS = "overview", "settings"
_TOTALS = ("messages_applied", "frames_received", "frames_sent", "drops", "resumed", "resynced", "reset")


class OverviewOperations:
    """The overview of this node, or of all nodes of its cluster."""

    def __init__(
        self,
        context: Context,
        node: ClusterNode | None,
        name: str,
        *,
        here: Callable[[], Awaitable[OverviewInfo]],
        settings: Callable[[], SettingsInfo],
        events: EventOperations,
    ) -> None:
        """`here` counts what is on this node, whose name in the cluster is `name`, and `settings` are its own."""
        self._limits: Limits = context.limits
        self._node = node
        self._name = name
        self._settings = settings
        self._events = events
        self._here = _Shared(here, context.clock.now)
        self._everywhere = _Shared(self.overview, context.clock.now)
        if node is not None:
            node.questions.answer(_OVERVIEW, bool, lambda _: self._here.get())
            node.questions.answer(_SETTINGS, bool, lambda _: settings())

    # Of one node

    async def of(self, name: str) -> OverviewInfo:
        """The current numbers of the node with this name; `NotFound` if there is none."""
        life = self._life_of(name)
        return await (self._here.make() if life is None else self._ask(life, _OVERVIEW, OverviewInfo))

    async def settings_of(self, name: str) -> SettingsInfo:
        """How the node with this name was set up; an empty one is this node's."""
        life = self._life_of(name) if name else None
        return self._settings() if life is None else await self._ask(life, _SETTINGS, SettingsInfo)

    def _life_of(self, name: str) -> str | None:
        """None for this node."""
        if self._node is None:
            raise NotFound(f"there is no node {name!r}: this server is not a node of a cluster")
        life = self._node.life_of(name)
        return life if life != self._node.life else None

    async def _ask(self, life: str, question: str, kind: type[T]) -> T:
        assert self._node is not None
        try:
            return await self._node.questions.ask(life, question, True, kind)
        except BusError:
            raise Throttled(f"the node {self._node.name_of(life)} does not answer; try again") from None

    # Of all

    async def overview(self) -> OverviewInfo:
        """The current numbers of all nodes."""
        own = await self._here.make()
        if (node := self._node) is None:
            return own
        replies = await node.questions.ask_all(_OVERVIEW, True, OverviewInfo, self._limits.operator_answer_s)
        found = {node.life: own, **replies.by_life}
        numbers = [_numbers(each, life, node.name_of(life)) for life, each in found.items()]
        return replace(
            _sum(own, list(found.values())),
            nodes=sorted(numbers, key=lambda each: (each.name, each.life)),
            missing=sorted(map(node.name_of, replies.missing)),
        )

    async def watch(self) -> AsyncGenerator[EventInfo]:
        """An overview every second, each followed by the newest events since the last; until the reader stops."""
        happened: deque[EventInfo] = deque(maxlen=_EVENTS_MAX)
        reading = asyncio.create_task(_collect(self._events.read(), happened))
        number = 0
        try:
            while True:
                number += 1
                overview = await self._everywhere.get()
                yield EventInfo(number, "overview", overview.at, whole(overview), self._name)
                # What has just happened is still on its way to the task that reads it.
                await asyncio.sleep(0)
                newest = list(happened)
                happened.clear()
                for event in newest:
                    yield event
                await asyncio.sleep(OVERVIEW_S)
        finally:
            reading.cancel()
            await asyncio.wait([reading])


class _Shared:
    """An overview that all who ask within a second share: sessions are not counted again for each of them."""

    def __init__(self, make: Callable[[], Awaitable[OverviewInfo]], now: Callable[[], float]) -> None:
        self.make = make
        self._now = now
        self._lock = asyncio.Lock()
        self._made_at = -math.inf
        self._made: OverviewInfo | None = None

    async def get(self) -> OverviewInfo:
        async with self._lock:
            now = self._now()
            if self._made is None or now - self._made_at >= _SHARED_S:
                self._made_at = now
                self._made = await self.make()
            return self._made


async def _collect(events: AsyncIterator[EventInfo], happened: deque[EventInfo]) -> None:
    if isinstance(events, AsyncGenerator):
        async with aclosing(events):
            async for event in events:
                happened.append(event)


def _numbers(overview: OverviewInfo, life: str, name: str) -> NodeNumbers:
    return NodeNumbers(
        at=overview.at,
        name=name,
        life=life,
        is_ready=overview.node.is_ready,
        is_healthy=overview.node.is_healthy,
        reasons=overview.node.reasons,
        players=overview.players,
        sessions=overview.sessions,
        rooms=sum(overview.rooms.values()),
        totals={total: overview.totals.get(total, 0) for total in _TOTALS},
    )


def _sum(own: OverviewInfo, all_of_them: list[OverviewInfo]) -> OverviewInfo:
    """All of them together, seen from the node whose overview is `own`."""
    hits: Counter[tuple[str, str]] = Counter()
    for each in all_of_them:
        hits.update({(hit.limit, hit.action): hit.times for hit in each.limits})
    return replace(
        own,
        players=sum(each.players for each in all_of_them),
        sessions=_added(each.sessions for each in all_of_them),
        rooms=_added(each.rooms for each in all_of_them),
        totals=_added(each.totals for each in all_of_them),
        drops=_added(each.drops for each in all_of_them),
        spreads={name: _together(name, all_of_them) for name in own.spreads},
        limits=[LimitHit(limit, action, times) for (limit, action), times in sorted(hits.items())],
    )


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    added: Counter[str] = Counter()
    for each in counts:
        # A counter's own update keeps what is zero.
        added.update(each)
    return dict(added)


def _together(name: str, all_of_them: Iterable[OverviewInfo]) -> SpreadInfo:
    spreads = [each.spreads[name] for each in all_of_them if name in each.spreads]
    # One that has measured nothing has no bounds yet; a node of another version may have others.
    bounds = max((each.bounds for each in spreads), key=len)
    alike = [each for each in spreads if each.bounds == bounds]
    counts = [sum(column) for column in zip(*(each.counts for each in alike), strict=True)]
    return SpreadInfo(bounds, counts, sum(each.sum for each in alike))
