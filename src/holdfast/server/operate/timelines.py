"""Timelines of sessions, put together from those of all nodes on which they were."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from holdfast.core.errors import NotFound
from holdfast.core.limits import Limits
from holdfast.core.registry import SessionRegistry
from holdfast.observability.explain import describe, explain
from holdfast.observability.timeline import BEGINNINGS, KINDS, Timelines
from holdfast.schemas.cluster import LatestSession, TimelinePart
from holdfast.schemas.events import Event, Restored, SessionArrived
from holdfast.schemas.session import TimelineEntry, TimelineInfo
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.context import Context
from holdfast.server.sessions import StoredSessions

_TIMELINE, _LATEST = "timeline", "latest_session"
_EVENTS = {str(kind.__struct_config__.tag): kind for kind in KINDS}


class _Happened(NamedTuple):
    """An event, and the node on which it happened."""

    event: Event
    node: str


class TimelineOperations:
    """What happened to sessions, and why. What a node knew is lost if it dies."""

    def __init__(
        self,
        context: Context,
        node: ClusterNode | None,
        name: str,
        *,
        sessions: SessionRegistry,
        stored: StoredSessions,
        timelines: Timelines,
    ) -> None:
        """`name` is that of this node of a cluster."""
        self._limits: Limits = context.limits
        self._node = node
        self._name = name
        self._sessions = sessions
        self._stored = stored
        self._timelines = timelines
        if node is not None:
            node.questions.answer(_TIMELINE, str, self._here)
            node.questions.answer(_LATEST, str, self._latest_here)

    async def of(self, session_id: str) -> TimelineInfo:
        """What happened to a session, and why; also for one that ended recently."""
        parts, missing = await self._ask(_TIMELINE, session_id, TimelinePart, self._here(session_id))
        known = {name: part for name, part in parts.items() if part.events}
        if not known:
            raise NotFound(
                f"unknown session {session_id!r}: it was never on this node{_or_cluster(self._node)}, or ended more"
                f" than {self._limits.timeline_kept_s:g} s ago{_unsure(missing)}"
            )
        events = _in_order(known)
        here = next((name for name, part in known.items() if part.is_here), "")
        newest = known[here or events[-1].node]
        explanation = explain([each.event for each in events], newest.name)
        return TimelineInfo(
            session=session_id,
            player=newest.player,
            status=newest.status,
            explanation=explanation.verdict,
            entries=[TimelineEntry(event.at, event.name, describe(event), event.body, node) for event, node in events],
            advice=explanation.advice,
            reason=explanation.reason or "",
            forgotten=sum(part.forgotten for part in known.values()),
            name=newest.name,
            node=here,
            missing=missing,
        )

    async def latest_of(self, player_id: str) -> TimelineInfo:
        """The timeline of a player's latest session: the newest open one, otherwise the one that ended last."""
        found, missing = await self._ask(_LATEST, player_id, LatestSession, self._latest_here(player_id))
        latest = max(found.values(), key=lambda each: (bool(each.session), each.is_open, each.at))
        if not latest.session:
            raise NotFound(
                f"player {player_id!r} has no session on this node{_or_cluster(self._node)}, and none ended"
                f" recently{_unsure(missing)}"
            )
        return await self.of(latest.session)

    def _here(self, session_id: str) -> TimelinePart:
        self._stored.restore(session_id)
        session = self._sessions.get(session_id)
        player_id, name = (session.player_id, session.name) if session is not None else ("", "")
        timeline = self._timelines.get(session_id, player_id, name)
        if timeline is None:
            return TimelinePart()
        return TimelinePart(
            player=timeline.player,
            name=timeline.name,
            status=session.status if session is not None else timeline.status,
            events=[(event.name, event.at, event.body) for event in timeline.events],
            forgotten=timeline.forgotten,
            is_here=session is not None,
        )

    def _latest_here(self, player_id: str) -> LatestSession:
        if sessions := self._sessions.of_player(player_id):
            return LatestSession(sessions[-1].id, is_open=True, at=sessions[-1].signed_in_at)
        ended = self._timelines.last_of(player_id)
        timeline = self._timelines.get(ended) if ended is not None else None
        return LatestSession(timeline.session, at=timeline.events[-1].at) if timeline is not None else LatestSession()

    async def _ask(self, question: str, body: str, kind: type[Any], own: Any) -> tuple[dict[str, Any], list[str]]:
        """The answers of all nodes by their names, and the names of those that did not answer."""
        if self._node is None:
            return {self._name: own}, []
        node = self._node
        replies = await node.questions.ask_all(question, body, kind, self._limits.operator_answer_s)
        answers = {node.name_of(life): answer for life, answer in replies.by_life.items()}
        return {self._name: own, **answers}, sorted(map(node.name_of, replies.missing))


def _in_order(parts: Mapping[str, TimelinePart]) -> list[_Happened]:
    """The events of all nodes. A session is on one node after the other, so whole stays are put in order, not single
    events: where it goes tells of it later than where it comes from, and their clocks may differ."""
    stays: list[list[_Happened]] = [stay for name, part in parts.items() for stay in _stays(name, part)]
    stays.sort(key=lambda stay: stay[0].event.at)
    return list(chain.from_iterable(stays))


def _stays(name: str, part: TimelinePart) -> Iterator[list[_Happened]]:
    stay: list[_Happened] = []
    for tag, at, body in part.events:
        if (kind := _EVENTS.get(tag)) is None:
            continue  # of a newer version
        event = msgspec.convert({**body, "at": at, "type": tag}, kind)
        if isinstance(event, SessionArrived) and len(stay) == 1 and isinstance(stay[0].event, Restored):
            # It moved with its room: nobody had to come back.
            stay = []
        if isinstance(event, BEGINNINGS) and stay:
            yield stay
            stay = []
        stay.append(_Happened(event, name))
    if stay:
        yield stay


def _or_cluster(node: ClusterNode | None) -> str:
    return " nor on another one" if node is not None else ""


def _unsure(missing: list[str]) -> str:
    return f"; {', '.join(missing)} did not answer" if missing else ""
