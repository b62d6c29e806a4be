"""The node at a glance: its numbers, its settings, its kinds of rooms."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

import msgspec

from holdfast.core.limits import Limits
from holdfast.core.registry import SessionRegistry
from holdfast.core.room import Room, room_handlers
from holdfast.core.session import SessionState
from holdfast.observability.exposition import slices
from holdfast.observability.metrics import Metrics, spread_of
from holdfast.schemas.node import KindInfo, LimitHit, LimitInfo, MessageKind, OverviewInfo, SettingsInfo
from holdfast.server.context import Clock
from holdfast.server.directory.directory import Directory
from holdfast.server.health import HealthMonitor
from holdfast.stores.port import Store

# Settings of a kind of rooms, named as in its class.
# Not what is no setting, and not classes: what a player joins with is shown as a schema.
_NOT_SHOWN = {"kind", "state", "sends", "join_options"}
_SETTINGS = [name for name in Room.__annotations__ if name not in _NOT_SHOWN and not name.startswith("_")]
_STATES = (SessionState.PRECONNECT, SessionState.CONNECTED, SessionState.DISCONNECTED)


class NodeOverview:
    """The numbers and settings of one node."""

    def __init__(
        self,
        clock: Clock,
        *,
        sessions: SessionRegistry,
        directory: Directory,
        health: HealthMonitor,
        metrics: Metrics,
        settings: Callable[[], SettingsInfo],
    ) -> None:
        self._sessions = sessions
        self._directory = directory
        self._health = health
        self._metrics = metrics
        self._wall_clock = clock.wall_clock
        self.settings = settings
        """How the node was set up."""

    async def overview(self) -> OverviewInfo:
        """The current numbers. Sessions and rooms are counted in slices, without blocking the event loop."""
        metrics = self._metrics
        sessions: Counter[SessionState] = Counter()
        players: set[str] = set()
        async for some in slices(self._sessions):
            players.update(session.player_id for session in some)
            sessions.update(session.state for session in some)
        rooms = Counter(dict.fromkeys(self._directory.types, 0))
        async for runners in slices(self._directory.runners()):
            rooms.update(runner.room.kind for runner in runners)
        return OverviewInfo(
            at=self._wall_clock(),
            node=self._health.info(),
            players=len(players),
            sessions={state.value: sessions[state] for state in _STATES},
            rooms=dict(rooms),
            totals=asdict(metrics.counters),
            drops={reason: times for (reason,), times in metrics.drops.items() if times},
            spreads={
                "round_trip": spread_of(metrics.round_trip),
                "commit": spread_of(metrics.commit),
                "loop_lag": spread_of(metrics.loop_lag),
                "turn": spread_of(metrics.turn),
            },
            limits=[LimitHit(limit, action, times) for (limit, action), times in sorted(metrics.limits.items())],
        )

    def kinds(self) -> list[KindInfo]:
        """The kinds of rooms, and the messages that players may send in each."""
        return [_kind(room_type) for room_type in self._directory.types.values()]


def limits_in_force(limits: Limits) -> list[LimitInfo]:
    """Every limit, with its default; one of a role is "gm.messages_per_s", and its default the limit of everybody."""
    default = Limits()
    names = [each.name for each in fields(Limits) if each.name != "by_role"]
    everybody = [LimitInfo(name, _shown(limits, name), _shown(default, name)) for name in names]
    by_role = [
        LimitInfo(f"{role}.{name}", value, _shown(limits, name))
        for role, of_role in limits.by_role.items()
        for name, value in of_role.values().items()
    ]
    return everybody + by_role


def _kind(room_type: type[Room[Any]]) -> KindInfo:
    messages = [
        MessageKind(name, handler.role, _schema(handler.message_type))
        for name, handler in sorted(room_handlers(room_type).items())
    ]
    options = room_type.join_options
    sends = room_type.sends
    settings = {name: getattr(room_type, name) for name in _SETTINGS}
    settings["sends"] = [each.wire_name for each in sends] if sends is not None else None
    return KindInfo(
        room_type.kind,
        settings,
        messages,
        _schema(options) if options is not None else None,
    )


def _schema(message_type: type[msgspec.Struct]) -> dict[str, Any]:
    try:
        return msgspec.json.schema(message_type, schema_hook=lambda _: {})
    except TypeError:
        # A type without an equivalent in JSON Schema: senders have to know it.
        return {}


def store_kind(store: Store | None) -> str:
    """The name of a store in the settings: "memory", "sqlite", or empty if there is none."""
    return type(store).__name__.removesuffix("Store").lower() if store is not None else ""


def _shown(limits: Limits, name: str) -> float | str:
    value: float | str | tuple[str, ...] = getattr(limits, name)
    return ", ".join(value) if isinstance(value, tuple) else value
