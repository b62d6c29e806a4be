"""How many sessions one player may have at a time, and what happens to one more."""

from typing import TYPE_CHECKING, Literal

from holdfast.core.reasons import Reason
from holdfast.core.session import Session

if TYPE_CHECKING:
    from holdfast.server.node import Node

TooManySessions = Literal["replace", "refuse"]
"""replace: the one that is away longest ends, or else the oldest. refuse: the new one is not let in."""


def make_space(node: "Node", player_id: str, address: str) -> bool:
    """Whether a player may have one more session: sessions end for it, if that is the server's policy."""
    if node.recovery is not None:
        # Those that wait in the store count too.
        node.recovery.restore_sessions_of(player_id)
    most = node.limits.sessions_per_player_max
    # Agents are the server's own, and a seat whose session was lost in a crash is kept for this very player.
    sessions = [session for session in node.sessions.of_player(player_id) if session.codec is not None]
    if len(sessions) < most:
        return True
    if node.too_many_sessions == "refuse":
        node.alarms.tell("sessions_per_player_max", "refused", address=address, player=player_id)
        return False
    # The oldest come first. More than one, if the limit is lower than before a restart.
    for session in sorted(sessions, key=_away_since)[: len(sessions) - most + 1]:
        node.end_session(session, Reason.SUPERSEDED, "this player has signed in too often")
    return True


def _away_since(session: Session) -> tuple[bool, float]:
    return session.dropped_at is None, session.dropped_at or 0.0
