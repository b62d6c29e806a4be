"""The events of sessions that begin and are resumed."""

from holdfast.core.connection import Connection
from holdfast.core.session import Session
from holdfast.schemas.events import Resumed, SessionOpened


def opened(session: Session, connection: Connection, *, is_reset: bool = False) -> SessionOpened:
    """The session began with this connection; `is_reset` if its client tried to resume another one."""
    return SessionOpened(
        session=session.id,
        player=session.player_id,
        player_name=session.name,
        connection=connection.id,
        transport=connection.transport_kind,
        peer=connection.peer,
        is_reset=is_reset,
    )


def resumed(session: Session, connection: Connection, outcome: str, *, away_s: float, replayed: int = 0) -> Resumed:
    """The session goes on with this connection; so many messages are sent to it again."""
    return Resumed(
        session=session.id,
        player=session.player_id,
        player_name=session.name,
        connection=connection.id,
        transport=connection.transport_kind,
        outcome=outcome,
        replayed=replayed,
        away_s=round(away_s, 3),
        peer=connection.peer,
    )
