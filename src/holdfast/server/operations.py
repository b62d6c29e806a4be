"""What operators can do with a running server, composed from its parts."""

from collections.abc import Awaitable

from holdfast.core.session import Session
from holdfast.observability.exposition import holdfast_version
from holdfast.schemas.node import SettingsInfo
from holdfast.server.compose import ServerParts
from holdfast.server.operate.accounts import AccountOperations
from holdfast.server.operate.node import NodeOverview, limits_in_force, store_kind
from holdfast.server.operate.operations import Operations
from holdfast.server.operate.players import PlayerOperations
from holdfast.server.operate.rooms import RoomOperations
from holdfast.server.operate.sessions import SessionOperations
from holdfast.transports.listeners import Listeners


def operations_of(parts: ServerParts, listeners: Listeners) -> Operations:
    """Everything that can be operated on this server."""
    settings, clock, started_at = parts.settings, parts.clock, parts.clock.wall_clock()

    def saved_end(session: Session) -> Awaitable[None] | None:
        writer = parts.committer.sessions.of(session) if parts.committer is not None else None
        return writer.ended() if writer is not None else None

    def raised(error: Exception, where: str) -> None:
        # Looked up at each call: a test replaces it on a running server.
        parts.faults.on_error(error, where)

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

    return Operations(
        rooms=RoomOperations(
            parts.rooms,
            now=clock.now,
            limits=settings.limits,
            read_messages=parts.messages.read,
            raised=raised,
        ),
        sessions=SessionOperations(
            parts.sessions,
            timelines=parts.timelines,
            restore=parts.stored.restore,
            end=parts.lifecycle.end_session,
            saved_end=saved_end,
            disconnect=parts.lifecycle.disconnect,
            now=clock.now,
            limits=settings.limits,
        ),
        players=PlayerOperations(parts.sessions, parts.rooms),
        access=parts.access,
        accounts=AccountOperations(settings.authenticators, parts.access.sign_out),
        placements=parts.placements,
        node=NodeOverview(
            sessions=parts.sessions,
            directory=parts.rooms,
            health=parts.health,
            metrics=parts.metrics,
            events=parts.events,
            now=clock.now,
            wall_clock=clock.wall_clock,
            settings=settings_info,
        ),
        health=parts.health,
        events=parts.events,
        packets=parts.packets,
        metrics=parts.exposition,
    )
