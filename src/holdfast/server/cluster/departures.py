"""Sessions that are being handed over to another node: what happens to them meanwhile waits for the outcome.

The record that the other node gets is of one moment. An end, a message or a client that returns after it would be lost
with the copy that stays here. So ends, messages and notices are kept, and given to whichever node has the session in
the end; clients that return wait until that is known.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from holdfast.cluster.port import BusError
from holdfast.core.errors import Refused
from holdfast.core.reasons import Reason
from holdfast.core.session import Session, SessionState
from holdfast.logs import get_logger
from holdfast.schemas.cluster import SessionNews
from holdfast.schemas.frames import Notice
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.context import Context
from holdfast.server.session_messages import SessionMessages
from holdfast.server.sessions import Notices, SessionLifecycle

log = get_logger("holdfast.cluster")

_NEWS = "session_news"

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.decode


@dataclass(slots=True)
class _Departure:
    """What has happened to one session since its record was made."""

    decided: asyncio.Future[None]
    messages: list[tuple[str, bytes]] = field(default_factory=list)
    messages_bytes: int = 0
    notices: list[Notice] = field(default_factory=list)
    end: tuple[Reason, str] | None = None


class Departures:
    """The sessions of this node that another one is about to have."""

    def __init__(
        self,
        context: Context,
        node: ClusterNode,
        lifecycle: SessionLifecycle,
        messages: SessionMessages,
        notices: Notices,
    ) -> None:
        self._loop = context.clock.loop
        self._limits = context.limits
        self._node = node
        self._lifecycle = lifecycle
        self._messages = messages
        self._notices = notices
        self._leaving: dict[Session, _Departure] = {}
        self._by_id: dict[str, _Departure] = {}
        self._telling: set[asyncio.Task[None]] = set()
        lifecycle.postpones = self._postpones
        messages.divert = self._divert
        node.questions.answer(_NEWS, SessionNews, self._told)

    def stop(self) -> None:
        for task in self._telling:
            task.cancel()

    def is_leaving(self, session_id: str) -> bool:
        """Whether it is not decided which node has this session."""
        return session_id in self._by_id

    async def decided(self, session_id: str) -> None:
        """Wait until it is known which node has this session."""
        if (departure := self._by_id.get(session_id)) is not None:
            await asyncio.shield(departure.decided)

    def begin(self, sessions: Iterable[Session]) -> None:
        """These sessions are about to be handed over."""
        for session in sessions:
            if session not in self._leaving:
                self._leaving[session] = self._by_id[session.id] = _Departure(self._loop.create_future())

    def stay(self, sessions: Iterable[Session]) -> None:
        """They go on here: what has happened meanwhile happens now."""
        for session in sessions:
            if (departure := self._ended(session)) is None:
                continue
            for name, body in departure.messages:
                self._messages.push(session, name, body)
            for notice in departure.notices:
                self._notices.send(session, notice)
            if departure.end is not None:
                self._lifecycle.end_session(session, *departure.end)

    def gone(self, sessions: Iterable[Session], life: str) -> dict[Session, tuple[Reason, str]]:
        """That node has them: it is told what has happened meanwhile. Returns those that have ended, and why."""
        ended: dict[Session, tuple[Reason, str]] = {}
        for session in sessions:
            departure = self._ended(session)
            if departure is None or not (departure.messages or departure.notices or departure.end):
                continue
            if departure.end is not None:
                ended[session] = departure.end
            reason, message = departure.end or ("", "")
            notices = [(each.topic, each.key, _encode(each.body)) for each in departure.notices]
            news = SessionNews(session.id, departure.messages, str(reason), message, notices)
            task = self._loop.create_task(self._tell(life, news))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
        return ended

    def _ended(self, session: Session) -> _Departure | None:
        departure = self._leaving.pop(session, None)
        if departure is not None:
            del self._by_id[session.id]
            departure.decided.set_result(None)
        return departure

    # Meanwhile

    def _postpones(self, session: Session, reason: Reason, message: str) -> bool:
        departure = self._leaving.get(session)
        if departure is None:
            return False
        departure.end = departure.end or (reason, message)
        return True

    def _divert(self, session: Session, name: str, body: bytes) -> bool:
        departure = self._leaving.get(session)
        if departure is None or session.state is SessionState.ENDED:
            return False
        departure.messages_bytes += len(body)
        if departure.messages_bytes > self._limits.sends_waiting_bytes_max:
            # As for a client that does not read: it will be resynced.
            return False
        departure.messages.append((name, body))
        return True

    def keeps(self, session: Session, notice: Notice) -> bool:
        """Whether a notice is kept until it is known which node has the session."""
        departure = self._leaving.get(session)
        if departure is None or session.connection is None:
            return False
        if len(departure.notices) < self._limits.notices_kept_max:
            departure.notices.append(notice)
        return True

    # To the other node, and from it

    async def _tell(self, life: str, news: SessionNews) -> None:
        while self._node.may_live(life):
            try:
                await self._node.questions.ask(life, _NEWS, news, bool)
                return
            except Refused as refusal:
                log.warning("a session has gone on to a third node", session=news.session, why=str(refusal))
                return
            except BusError:
                await asyncio.sleep(self._limits.probe_s)

    def _told(self, news: SessionNews) -> bool:
        session = self._lifecycle.registry.get(news.session)
        if session is None:
            return False
        for name, body in news.messages:
            self._messages.push(session, name, body)
        for topic, key, notice in news.notices:
            self._notices.send(session, Notice(topic, key, _decode(notice)))
        if news.end_reason:
            self._lifecycle.end_session(session, Reason(news.end_reason), news.end_message)
        return True
