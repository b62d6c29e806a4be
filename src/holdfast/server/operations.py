"""Composes what operators can do with a node from the node's parts."""

from collections.abc import Awaitable

from holdfast.core.session import Session
from holdfast.observability.exposition import holdfast_version
from holdfast.schemas.node import SettingsInfo
from holdfast.server.node import Node
from holdfast.server.operate.accounts import AccountOperations
from holdfast.server.operate.node import NodeOverview, limits_in_force, store_kind
from holdfast.server.operate.operations import Operations
from holdfast.server.operate.players import PlayerOperations
from holdfast.server.operate.rooms import RoomOperations
from holdfast.server.operate.sessions import SessionOperations
from holdfast.transports.listeners import Listeners


def operations_of(node: Node, listeners: Listeners) -> Operations:
    """Everything that can be operated on a running node."""
    recovery, committer, started_at = node.recovery, node.committer, node.wall_clock()

    def restore(session_id: str) -> None:
        if recovery is not None:
            recovery.restore_session(session_id)

    def saved_end(session: Session) -> Awaitable[None] | None:
        writer = committer.sessions.of(session) if committer is not None else None
        return writer.ended() if writer is not None else None

    def raised(error: Exception, where: str) -> None:
        # Looked up when it is called: a test replaces it on a running server.
        node.faults.on_error(error, where)

    def settings() -> SettingsInfo:
        return SettingsInfo(
            version=holdfast_version(),
            started_at=started_at,
            urls=dict(listeners.urls),
            origins=listeners.origins,
            auth=sorted(node.authenticators),
            store=store_kind(committer.store if committer is not None else None),
            grace_s=node.grace_s,
            too_many_sessions=node.limits.sessions_policy,
            limits=limits_in_force(node.limits),
        )

    return Operations(
        rooms=RoomOperations(
            node.rooms,
            now=node.now,
            limits=node.limits,
            read_messages=node.messages.read,
            raised=raised,
        ),
        sessions=SessionOperations(
            node.sessions,
            timelines=node.timelines,
            restore=restore,
            end=node.lifecycle.end_session,
            saved_end=saved_end,
            disconnect=node.lifecycle.disconnect,
            now=node.now,
            limits=node.limits,
        ),
        players=PlayerOperations(node.sessions, node.rooms),
        access=node.access,
        accounts=AccountOperations(node.authenticators, node.access.sign_out),
        placements=node.placements,
        node=NodeOverview(
            sessions=node.sessions,
            directory=node.rooms,
            health=node.health,
            metrics=node.metrics,
            events=node.events,
            now=node.now,
            wall_clock=node.wall_clock,
            settings=settings,
        ),
        health=node.health,
        events=node.events,
        packets=node.packets,
        metrics=node.exposition,
    )
