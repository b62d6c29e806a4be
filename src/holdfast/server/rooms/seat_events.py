"""The events of players who take and leave seats."""

from typing import Any

from holdfast.core.reasons import Reason
from holdfast.core.room import Room
from holdfast.core.session import Session
from holdfast.schemas.events import PlayerJoined, PlayerLeft
from holdfast.schemas.frames import sentence


def joined(session: Session, room: Room[Any]) -> PlayerJoined:
    """The session's player took a seat in the room."""
    return PlayerJoined(
        session=session.id, player=session.player_id, player_name=session.name, room=room.id, kind=room.kind
    )


def left(session: Session, room: Room[Any], reason: Reason, message: str) -> PlayerLeft:
    """The session's player gave up the seat, or lost it; `message` is what they are told."""
    return PlayerLeft(
        session=session.id,
        player=session.player_id,
        player_name=session.name,
        room=room.id,
        reason=reason,
        message=sentence(message),
    )
