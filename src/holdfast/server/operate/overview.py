"""The half of a node's operator that shows the node at a glance: its numbers, its settings, its kinds of rooms."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.limits import Limits
from holdfast.core.room import Room
from holdfast.core.session import SessionState
from holdfast.observability.exposition import holdfast_version, slices
from holdfast.observability.metrics import spread_of
from holdfast.schemas.node import (
    EventInfo,
    KindInfo,
    LimitHit,
    LimitInfo,
    MessageKind,
    OverviewInfo,
    SettingsInfo,
)
from holdfast.stores.port import Store

if TYPE_CHECKING:
    from holdfast.server.admission.doors import Doors
    from holdfast.server.node import Node

OVERVIEW_S = 1.0
"""How often who watches is shown the numbers."""
# How long a look serves others who watch. Less than the above: nobody is shown the same look twice.
_SHARED_S = 0.9 * OVERVIEW_S
# And how many events with them: in a storm nobody reads all.
_EVENTS_MAX = 100

# What can be set for a kind of rooms, as its class says it.
_SETTINGS = [name for name in Room.__annotations__ if name not in {"kind", "state", "handlers", "data_type"}]
_STATES = (SessionState.PRECONNECT, SessionState.CONNECTED, SessionState.DISCONNECTED)


class SharedLook:
    """The newest overview: counting all sessions is not done for each who watches."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._at = -math.inf
        self._look: OverviewInfo | None = None

    async def get(self, now: Callable[[], float], look: Callable[[], Awaitable[OverviewInfo]]) -> OverviewInfo:
        """The one that there is, unless it is too old."""
        async with self._lock:
            if self._look is None or now() - self._at >= _SHARED_S:
                self._at = now()
                self._look = await look()
            return self._look


class OverviewOperator:
    """See `holdfast.http.port.Backend`."""

    _node: "Node"
    _doors: "Doors | None"
    _started_at: float
    _shared_look: SharedLook

    async def overview(self) -> OverviewInfo:
        """The numbers of now. Sessions and rooms are counted in slices: the games do not wait for it."""
        node, metrics = self._node, self._node.metrics
        sessions: Counter[SessionState] = Counter()
        players: set[str] = set()
        async for some in slices(node.sessions):
            players.update(session.player_id for session in some)
            sessions.update(session.state for session in some)
        rooms = Counter(dict.fromkeys(node.rooms.kinds, 0))
        async for runners in slices(node.rooms.runners()):
            rooms.update(runner.room.kind for runner in runners)
        return OverviewInfo(
            at=node.wall_clock(),
            node=node.health.info(),
            players=len(players),
            sessions={state.value: sessions[state] for state in _STATES},
            rooms=dict(rooms),
            totals=asdict(node.counters),
            drops={reason: times for (reason,), times in metrics.drops.items() if times},
            spreads={
                "round_trip": spread_of(metrics.round_trip),
                "commit": spread_of(metrics.commit),
                "loop_lag": spread_of(metrics.loop_lag),
                "turn": spread_of(metrics.turn),
            },
            limits=[LimitHit(limit, action, times) for (limit, action), times in sorted(metrics.limits.items())],
        )

    async def overviews(self) -> AsyncIterator[EventInfo]:
        """The same, again and again, and the newest of what happened in between; until the reader has had enough."""
        events = self._node.events
        number, position = 0, events.last_id
        while True:
            number += 1
            overview = await self._shared_look.get(self._node.now, self.overview)
            yield EventInfo(number, "overview", overview.at, msgspec.to_builtins(overview))
            happened, position = events.since(position, _EVENTS_MAX), events.last_id
            for event in happened:
                yield event
            await asyncio.sleep(OVERVIEW_S)

    def settings(self) -> SettingsInfo:
        """How this node was set up."""
        node, doors = self._node, self._doors
        default = Limits()
        return SettingsInfo(
            version=holdfast_version(),
            started_at=self._started_at,
            urls=dict(doors.urls) if doors is not None else {},
            origins=list(doors.settings.origins) if doors is not None else [],
            auth=sorted(node.authenticators),
            store=_store_kind(node.committer.store) if node.committer is not None else "",
            grace_s=node.grace_s,
            too_many_sessions=node.too_many_sessions,
            limits=[
                LimitInfo(each.name, getattr(node.limits, each.name), getattr(default, each.name))
                for each in fields(Limits)
            ],
        )

    def kinds(self) -> list[KindInfo]:
        """The kinds of rooms, and what players may say in each."""
        types = [self._node.rooms.type_of(kind) for kind in self._node.rooms.kinds]
        return [_kind(room_type) for room_type in types if room_type is not None]


def _kind(room_type: type[Room[Any]]) -> KindInfo:
    messages = [
        MessageKind(name, handler.role, _schema(handler.message_type))
        for name, handler in sorted(room_type.handlers.items())
    ]
    return KindInfo(room_type.kind, {name: getattr(room_type, name) for name in _SETTINGS}, messages)


def _schema(message_type: type[msgspec.Struct]) -> dict[str, Any]:
    try:
        return msgspec.json.schema(message_type, schema_hook=lambda _: {})
    except TypeError:
        # A type that JSON Schema has no word for: whoever wants to send it has to know.
        return {}


def _store_kind(store: Store) -> str:
    return type(store).__name__.removesuffix("Store").lower()
