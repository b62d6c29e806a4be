"""A session without a seat goes to another node, and its connection follows: the client notices nothing.

    give     the connection stands still → the session's record, what was sent and what was asked go to the other node
             → the link is relayed there, and goes on where it stood
    take     the session is restored from the record → `follow` gives it the link → what was asked is carried out

It goes to the node of the room that it wants to join: a seat and its session are on one node, and the owner of a room
alone gives its seats. If the link cannot follow, it is closed, and the client resumes: it finds its session there.

If no answer comes, both nodes may have the session. Then the one whose client is connected has it: the other one's copy
waits for a connection, and before it counts as dropped that node asks all others who has it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from msgspec import Raw

from holdfast.cluster.port import BusError, NobodyThere
from holdfast.cluster.relay import splice
from holdfast.core.errors import NotAllowed, Refused, Throttled
from holdfast.core.reasons import Reason
from holdfast.core.records import Unreadable, channel_record, decode_session, encode, restored_session, session_record
from holdfast.core.session import Session, SessionState
from holdfast.logs import get_logger
from holdfast.schemas.cluster import NotFollowed, SessionHandover, Taken
from holdfast.schemas.events import SessionArrived
from holdfast.schemas.frames import Notice, Request
from holdfast.server.cluster.departures import Departures
from holdfast.server.cluster.finder import Finder, Unsure
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.connection.buffers import HeardMeanwhile
from holdfast.server.connection.connection import ConnectionServices, LiveConnection
from holdfast.server.connection.connections import Connections
from holdfast.server.context import Context
from holdfast.server.rooms.switching import Switch
from holdfast.server.sessions import SessionLifecycle
from holdfast.transports.port import Accept, DialError, Transport, TransportLimits

log = get_logger("holdfast.cluster")

T = TypeVar("T")

_TAKE, _NOT_FOLLOWED = "take_session", "not_followed"
_KEY_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSessions:
    """What the store adds to a handover. Without a durable session it does nothing."""

    settled: Callable[[Session], Awaitable[int]]
    """Wait until nothing of the session is on its way to the store; the revision of its record, 0 without one."""
    seal: Callable[[Iterable[Session]], None]
    """Write them no more for the moment: their records are what another node takes."""
    unseal: Callable[[Iterable[Session]], None]
    """They stay: write them again, at once, so that no other node can have them too."""
    let_go: Callable[[Session], None]
    """Write it no more: another node does."""
    adopt: Callable[[Session, int], None]
    """Write it from now on, beginning with this revision of its record."""


@dataclass(slots=True)
class _WaitingSession:
    """A session that is here before its connection."""

    session: Session
    channels: list[tuple[int, int]]
    """Those that its client knows."""
    requests: Sequence[tuple[int, str, bytes]]
    timer: asyncio.TimerHandle
    handover: SessionHandover | None = None
    notices: list[Notice] = field(default_factory=list)
    """For its client, which does not notice that its connection is on its way."""


class Handovers:
    """Gives sessions to other nodes, and takes theirs."""

    def __init__(  # noqa: PLR0913 - what it needs of the server, all by keyword
        self,
        context: Context,
        node: ClusterNode,
        *,
        departures: Departures,
        finder: Finder,
        lifecycle: SessionLifecycle,
        connections: Connections,
        services: ConnectionServices,
        saved: SavedSessions,
        grace_s: float,
        restored: Callable[[Session], None],
        known: Callable[[LiveConnection], None],
        switches: Callable[[Session, Switch], None],
        ask: Callable[[Session, Request], None],
        is_asking: Callable[[Session], bool],
        is_watching: Callable[[Session], bool],
        is_stopping: Callable[[], bool],
    ) -> None:
        """`restored` ends a session that a ban or a sign-out has ended; `known` tells the limiter of unauthenticated
        connections; `switches` tells the rooms of a session whether its connection has followed; `ask` carries out a
        request of the client, `is_asking` says whether one is being carried out; `is_watching` whether the client
        watches a search, which only a client that returns begins again.
        """
        self._clock = context.clock
        self._limits = context.limits
        self._publish = context.publish
        self._random = context.random
        self._node = node
        self._departures = departures
        self._finder = finder
        self._lifecycle = lifecycle
        self._connections = connections
        self._services = services
        self._saved = saved
        self._grace_s = grace_s
        self._restored = restored
        self._known = known
        self._switches = switches
        self._ask = ask
        self._is_asking = is_asking
        self.is_watching = is_watching
        self._is_stopping = is_stopping
        self._waiting: dict[bytes, _WaitingSession] = {}
        self._expected: dict[str, bytes] = {}
        """The keys of the sessions that wait for their connection, by their ids."""
        self._hops: dict[Session, int] = {}
        """How often sessions were handed over for the request that is being carried out."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.given = self.taken = 0
        lifecycle.on_release.append(self._forget)
        lifecycle.on_end.append(lambda session, *_: self._forget(session))
        node.questions.answer(_TAKE, SessionHandover, self._take)
        node.questions.answer(_NOT_FOLLOWED, NotFollowed, self._not_followed)

    def hops(self, session: Session) -> int:
        """How often the session was handed over for its present request."""
        return self._hops.get(session, 0)

    def settled(self, session: Session) -> None:
        """Its request is answered."""
        self._hops.pop(session, None)

    def is_expected(self, session_id: str) -> bool:
        """Whether this session has come, and its connection has not."""
        key = self._expected.get(session_id)
        return key is not None and self._waiting[key].session.state is SessionState.DISCONNECTED

    def stop(self) -> None:
        for waiting in self._waiting.values():
            waiting.timer.cancel()
        for task in self._tasks:
            task.cancel()

    def _forget(self, session: Session) -> None:
        """It has ended, or is on another node."""
        self._hops.pop(session, None)
        if (key := self._expected.get(session.id)) is not None:
            self._no_longer_waits(key)

    # Giving

    async def give(self, session: Session, life: str, requests: Callable[[], Sequence[Request]]) -> None:
        """Hand a session over, with its connection and these requests; returns once it is another node's.

        `Refused` if it stays here.
        """
        _check_free(session)
        if self._departures.is_leaving(session.id):
            raise Throttled("this session is on its way to another node; ask again")
        await self._settled(session)
        _check_free(session)
        if self._is_asking(session) and not requests():
            raise Throttled("this session has asked for something meanwhile")
        connection = session.connection
        if connection is not None and not (isinstance(connection, LiveConnection) and connection.is_open):
            raise Throttled("the connection was lost; ask again")
        heard = connection.stand_still() if connection is not None else None
        self._departures.begin([session])
        try:
            taken = await self._offered(session, life, requests())
        except BaseException:
            self._saved.unseal([session])
            self._departures.stay([session])
            if connection is not None and heard is not None:
                connection.go_on(heard)
            raise
        key = b"" if self.is_watching(session) else taken.key
        self._saved.let_go(session)
        ended = self._departures.gone([session], life)
        self._lifecycle.give_away(session, self._node.name_of(life))
        self.given += 1
        if connection is not None and heard is not None:
            await self.follow_with(connection, heard, life, key, ended=ended.get(session))

    async def _settled(self, session: Session) -> int:
        try:
            async with asyncio.timeout(self._limits.commit_timeout_s):
                revision = await self._saved.settled(session)
        except TimeoutError:
            raise Throttled("the store does not save at the moment; try again") from None
        if session.state is SessionState.ENDED:
            # What was on its way shows that another node has it: a copy of ours would be a second one.
            raise Throttled("this session is on another node now; ask again")
        return revision

    async def follow_with(
        self,
        connection: LiveConnection,
        heard: HeardMeanwhile,
        life: str,
        key: bytes,
        *,
        ended: tuple[Reason, str] | None = None,
    ) -> None:
        """Let the connection of a session that was given away follow it; if it cannot, the client resumes. It closes if
        the session has `ended` meanwhile."""
        if ended is not None:
            connection.close(*ended)
        if not connection.is_open:
            self.not_followed(life, [key])
            return
        try:
            if not key:
                raise DialError("its session is not expected there, or it watches a search")
            receiver = await splice(
                lambda: connection.transport,
                self._node.relay,
                life,
                heard=lambda: heard.payloads,
                limits=TransportLimits.of(self._limits),
                follows=key,
                age_s=self._clock.now() - connection.opened_at,
            )
        except (DialError, BusError) as error:
            log.info("a connection could not follow its session; it will resume", error=str(error))
            connection.close(Reason.MOVED, "this session is on another node now; resume")
        else:
            connection.forward(receiver)

    def not_followed(self, life: str, keys: Sequence[bytes]) -> None:
        """The clients of these sessions have gone: the other node need not wait for them."""
        if wanted := [key for key in keys if key]:
            task = self._clock.loop.create_task(self._tell_not_followed(life, wanted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _tell_not_followed(self, life: str, keys: list[bytes]) -> None:
        # If it does not hear it, its own time limit does the same.
        with suppress(BusError, Refused):
            await self._node.questions.ask(life, _NOT_FOLLOWED, NotFollowed(keys), bool)

    async def _offered(self, session: Session, life: str, requests: Sequence[Request]) -> Taken:
        revision = await self._settled(session)
        self._saved.seal([session])
        closing = [channel_record(channel) for channel in session.closing]
        inbox = channel_record(session.own_channel) if session.own_channel is not None else None
        handover = SessionHandover(
            session.id,
            encode(session_record(session, "", closing, inbox)),
            revision,
            {channel.number: channel.sent for channel in session.channels()},
            [(request.id, request.operation, bytes(request.arguments)) for request in requests],
            self.hops(session) + 1,
            self._node.life,
        )
        return await self.offered(life, _TAKE, handover, Taken)

    async def offered(self, life: str, name: str, offer: object, kind: type[T]) -> T:
        """The answer of another node to an offer; `Throttled` if what was offered stays here."""
        deadline = self._clock.now() + self._limits.handover_s
        while True:
            try:
                # The same offer again: whoever has it already says so.
                return await self._node.questions.ask(life, name, offer, kind)
            except NobodyThere as error:
                if not self._node.may_live(life) or self._clock.now() >= deadline:
                    raise Throttled("the other node has just gone; try again") from error
            except BusError as error:
                if not self._node.may_live(life) or self._clock.now() >= deadline:
                    raise Throttled("the other node does not answer; try again") from error
            await asyncio.sleep(self._limits.probe_s)

    # Taking

    def _take(self, handover: SessionHandover) -> Taken:
        if self._is_stopping():
            raise Throttled("this node is about to stop; try again")
        former = self._lifecycle.registry.get(handover.session)
        if former is not None:
            key = self._expected.get(former.id)
            if key is None or former.state is not SessionState.DISCONNECTED:
                # Its client is connected here, or was: whoever offers it has an older copy.
                return Taken(b"")
            if self._waiting[key].handover == handover:
                return Taken(key)
            # Of an earlier offer, whose answer was lost.
            self._release(former, handover.source)
        if len(self._lifecycle.registry) >= self._limits.sessions_max:
            raise Throttled("the node of this room is full; try again later")
        try:
            record = decode_session(handover.record)
            now = self._clock.now()
            session = restored_session(handover.session, record, limits=self._limits, now=now, grace_s=self._grace_s)
        except Unreadable as error:
            raise Throttled(f"the node of this room has another version: {error}") from None
        if handover.revision:
            self._saved.adopt(session, handover.revision)
        self._lifecycle.restore(session)
        self._restored(session)
        if session.state is SessionState.ENDED:
            raise NotAllowed("this session has ended")
        if handover.requests:
            self._hops[session] = handover.hops
        key = self.expect(session, handover.source, handover.sent, {}, handover.requests)
        self._waiting[key].handover = handover
        return Taken(key)

    def expect(
        self,
        session: Session,
        source: str,
        sent: Mapping[int, int],
        acked: Mapping[int, int],
        requests: Sequence[tuple[int, str, bytes]] = (),
    ) -> bytes:
        """The connection of this session comes soon, from the node with this life; the key that it shows. So much was
        sent on it, and acknowledged, by channel."""
        self._publish(
            SessionArrived(
                session=session.id,
                player=session.player_id,
                player_name=session.name,
                node=self._node.name_of(source),
                room=session.room_id,
            )
        )
        for channel in session.channels():
            number, known = channel.number, channel.acked
            channel.continued(sent.get(number, known), acked.get(number, known))
        key = self._random.randbytes(_KEY_BYTES)
        timer = self._clock.loop.call_later(self._limits.handover_s, self._expired, key)
        self._waiting[key] = _WaitingSession(session, _channels_of(session), requests, timer)
        self._expected[session.id] = key
        self.taken += 1
        return key

    def keeps(self, session: Session, notice: Notice) -> bool:
        """Whether a notice waits for the session's connection."""
        key = self._expected.get(session.id)
        if key is None or session.state is not SessionState.DISCONNECTED:
            return False
        notices = self._waiting[key].notices
        if notice not in notices and len(notices) < self._limits.notices_kept_max:
            notices.append(notice)
        return True

    def follow(self, key: bytes) -> Accept | None:
        """The connection of a session that has come: it goes on where it stood."""
        waiting = self._no_longer_waits(key)
        if waiting is None:
            return None
        attach = partial(self._attach, waiting)
        return lambda: _Following(self._connections, self._services, attach)

    def _no_longer_waits(self, key: bytes) -> _WaitingSession | None:
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting.timer.cancel()
            self._expected.pop(waiting.session.id, None)
        return waiting

    def _attach(self, waiting: _WaitingSession, connection: LiveConnection) -> None:
        session = waiting.session
        if session.state is not SessionState.DISCONNECTED or not connection.is_open:
            connection.close(Reason.MOVED, "this session has moved; resume")
            return
        if _channels_of(session) != waiting.channels:
            # Only a welcome can tell the client what has changed.
            connection.close(Reason.MOVED, "this session has moved; resume")
            return
        self._lifecycle.registry.attach(session, connection, self._clock.now())
        connection.continued(session)
        self._known(connection)
        self._switches(session, "came")
        for notice in waiting.notices:
            connection.send(notice)
        for number, operation, arguments in waiting.requests:
            self._ask(session, Request(number, operation, Raw(arguments)))

    # No connection follows

    def _not_followed(self, told: NotFollowed) -> bool:
        for key in told.keys:
            if key in self._waiting:
                self._expired(key)
        return True

    def _expired(self, key: bytes) -> None:
        waiting = self._no_longer_waits(key)
        if waiting is None or waiting.session.state is not SessionState.DISCONNECTED:
            return
        if waiting.handover is None or waiting.handover.revision:
            # The store knows who has it.
            self._switches(waiting.session, "missed")
            return
        task = self._clock.loop.create_task(self._check(waiting.session))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check(self, session: Session) -> None:
        """Its former node may not have heard that it was taken, and have kept it."""
        while session.state is SessionState.DISCONNECTED:
            try:
                found = await self._finder.find("session", session.id)
                if found is not None and session.state is SessionState.DISCONNECTED:
                    self._release(session, found.life)
                return
            except Unsure:
                await asyncio.sleep(self._limits.suspect_s)

    def _release(self, session: Session, life: str) -> None:
        self._saved.let_go(session)
        self._lifecycle.give_away(session, self._node.name_of(life))


def _channels_of(session: Session) -> list[tuple[int, int]]:
    return [(channel.number, channel.generation) for channel in session.channels() if not channel.overflowed]


def _check_free(session: Session) -> None:
    if session.seat is not None or session.place is not None:
        raise NotAllowed("this room is on another node than the room that you are in; leave that one first")


class _Following(LiveConnection):
    """A connection that begins in the middle of a session."""

    __slots__ = ("_attach",)

    def __init__(
        self, connections: Connections, services: ConnectionServices, attach: Callable[[LiveConnection], None]
    ) -> None:
        super().__init__(connections.next_id(), services)
        self._attach = attach

    def opened(self, transport: Transport) -> None:
        super().opened(transport)
        self._attach(self)
