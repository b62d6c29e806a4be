"""What operators can do with a running server, composed from its parts, and the type of the API that exposes it."""

from collections.abc import Awaitable
from typing import Protocol

from holdfast.core.session import Session
from holdfast.observability.exposition import holdfast_version
from holdfast.schemas.node import SettingsInfo
from holdfast.server.compose import ServerParts
from holdfast.server.operate.elsewhere import RequestForwarder
from holdfast.server.operate.events import EventOperations
from holdfast.server.operate.everywhere import Everywhere
from holdfast.server.operate.node import NodeOverview, limits_in_force, store_kind
from holdfast.server.operate.nodes import NodeOperations
from holdfast.server.operate.overview import OverviewOperations
from holdfast.server.operate.recordings import RecordingOperations
from holdfast.server.operate.rooms import RoomOperations
from holdfast.server.operate.sessions import AccountOperations, PlayerOperations, SessionOperations
from holdfast.server.operate.timelines import TimelineOperations
from holdfast.transports.listeners import Listeners, Tls


class Operations:
    """One node, for its operators: private rooms and codes are shown too. Every refusal is a `holdfast.Refused`."""

    def __init__(self, parts: ServerParts, listeners: Listeners) -> None:
        settings, started_at = parts.settings, parts.clock.wall_clock()

        def saved_end(session: Session) -> Awaitable[None] | None:
            writer = parts.committer.sessions.of(session) if parts.committer is not None else None
            return writer.ended() if writer is not None else None

        def settings_info() -> SettingsInfo:
            return SettingsInfo(
                version=holdfast_version(),
                started_at=started_at,
                urls=dict(listeners.urls),
                origins=list(listeners.origins),
                auth=sorted(settings.authenticators),
                store=store_kind(settings.store),
                grace_s=settings.grace_s,
                too_many_sessions=settings.limits.sessions_policy,
                limits=limits_in_force(settings.limits),
            )

        node = parts.cluster.node if parts.cluster is not None else None
        name = parts.name if node is not None else ""
        self.rooms = RoomOperations(parts.context, parts.rooms, parts.messages.read)
        self.recordings = RecordingOperations(parts.context, parts.rooms, parts.lifecycle, parts.recordings)
        self.sessions = SessionOperations(
            parts.context,
            parts.lifecycle,
            parts.stored,
            saved_end=saved_end,
            messages=parts.session_messages,
            node=name,
        )
        self.players = PlayerOperations(parts.sessions, parts.rooms, parts.access, name)
        self.timelines = TimelineOperations(
            parts.context,
            node,
            name,
            sessions=parts.sessions,
            stored=parts.stored,
            timelines=parts.timelines,
        )
        self.everywhere = Everywhere(
            parts.context, node, name, rooms=self.rooms, sessions=self.sessions, players=self.players
        )
        self.nodes = NodeOperations(parts.context, parts.cluster, life=parts.incarnation, this_one=parts.health.info)
        self.elsewhere = RequestForwarder(parts.context, parts.cluster) if parts.cluster is not None else None
        self.access = parts.access
        self.bans = parts.access.bans
        self.accounts = AccountOperations(settings.authenticators, parts.access.sign_out)
        self.placements = parts.placement_desk
        self.node = NodeOverview(
            parts.clock,
            sessions=parts.sessions,
            directory=parts.rooms,
            health=parts.health,
            metrics=parts.metrics,
            settings=settings_info,
        )
        self.events = EventOperations(parts.context, node, name, parts.events)
        self.overview = OverviewOperations(
            parts.context,
            node,
            name,
            here=self.node.overview,
            settings=settings_info,
            events=self.events,
        )
        self.health = parts.health
        self.packets = parts.packets
        self.metrics = parts.exposition


class OperatorApi(Protocol):
    """An API through which a node is operated: `holdfast.http.api.HttpApi`. The server does not import it."""

    @property
    def scheme(self) -> str:
        """The scheme of its URL: "http" or "https"."""

    @property
    def tls(self) -> Tls | None:
        """Its certificate, if it has one: the server reloads it when its files change."""

    async def open(self, operations: Operations) -> tuple[str, int]:
        """Start serving; returns the address."""

    async def close(self) -> None:
        """Stop serving."""
