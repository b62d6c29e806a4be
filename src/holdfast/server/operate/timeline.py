"""The half of a node's operator that knows what happened to a session."""

from typing import TYPE_CHECKING

from holdfast.core.errors import NotFound
from holdfast.observability.explain import describe, explain
from holdfast.schemas.session import TimelineEntry, TimelineInfo

if TYPE_CHECKING:
    from holdfast.server.node import Node


class TimelineOperator:
    """See `holdfast.http.port.Backend`."""

    _node: "Node"

    def session_timeline(self, session_id: str) -> TimelineInfo:
        """What happened to a session that is here, or was a while ago."""
        node = self._node
        if node.recovery is not None:
            node.recovery.restore_session(session_id)
        session = node.sessions.get(session_id)
        timeline = node.timelines.get(session_id, session.player_id if session is not None else "")
        if timeline is None:
            raise NotFound(
                f"nothing is known of session {session_id!r}: there was none here, or it was over more than "
                f"{node.limits.timeline_kept_s:g} s ago and is forgotten"
            )
        explanation = explain(timeline.events)
        return TimelineInfo(
            session=session_id,
            player=timeline.player,
            status=session.status if session is not None else timeline.status,
            explanation=explanation.verdict,
            entries=[TimelineEntry(event.at, event.name, describe(event), event.body) for event in timeline.events],
            advice=explanation.advice,
            reason=explanation.reason or "",
            forgotten=timeline.forgotten,
        )

    def player_timeline(self, player_id: str) -> TimelineInfo:
        """The same of a player's latest session: the newest that is here, else the one that was over last."""
        sessions = self._node.sessions.of_player(player_id)
        latest = sessions[-1].id if sessions else self._node.timelines.last_of(player_id)
        if latest is None:
            raise NotFound(f"player {player_id!r} has no session here, and none that is remembered")
        return self.session_timeline(latest)
