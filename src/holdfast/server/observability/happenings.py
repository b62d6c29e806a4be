"""What is told of a connection's end and of a seat: events, made from what the node knows at that moment."""

from typing import Any

from holdfast.core.connection import Connection
from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.core.session import Session
from holdfast.schemas.events import ConnectionRefused, Dropped, PlayerJoined, PlayerLeft
from holdfast.schemas.frames import sentence
from holdfast.server.connection.connection import LiveConnection


def refused(connection: Connection, reason: Reason) -> ConnectionRefused:
    """A stranger is turned away."""
    return ConnectionRefused(
        connection=connection.id, transport=connection.transport_kind, reason=reason, address=connection.address
    )


def dropped(session: Session, connection: Connection, now: float) -> Dropped:
    """A session has lost its connection."""
    latency = session.latency
    return Dropped(
        session=session.id,
        player=session.player_id,
        connection=connection.id,
        reason=connection.end_reason or Reason.DROPPED,
        grace_s=session.grace_s,
        silent_s=round(now - connection.heard_at, 3),
        pings=connection.pings_unanswered if isinstance(connection, LiveConnection) else 0,
        latency_ms=round(latency.smoothed_ms, 3),
        last_ms=round(latency.last_ms, 3),
        worst_ms=round(latency.worst_ms, 3),
        code=connection.end_code,
    )


def joined(session: Session, room: Room[Any]) -> PlayerJoined:
    """A session's player has a seat."""
    return PlayerJoined(session=session.id, player=session.player_id, room=room.id, kind=room.kind)


def left(session: Session, room: Room[Any], reason: Reason, message: str) -> PlayerLeft:
    """A session's player has the seat no more."""
    return PlayerLeft(
        session=session.id, player=session.player_id, room=room.id, reason=reason, message=sentence(message)
    )
