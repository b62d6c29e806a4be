"""A session without a seat goes to another node, and its connection follows: the client notices nothing.

    give     the connection stands still → the session's record, what was sent and what was asked go to the other node
             → the link is relayed there, and goes on where it stood
    take     the session is restored from the record → `follow` gives it the link → what was asked is carried out

It goes to the node of the room that it wants to join: a seat and its session are on one node, and the owner of a room
alone gives its seats. If the link cannot follow, it is closed, and the client resumes: it finds its session there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec import Raw

from holdfast.cluster.port import BusError, NobodyThere
from holdfast.cluster.relay import splice
from holdfast.core.errors import Conflict, NotAllowed, Throttled
from holdfast.core.reasons import Reason
from holdfast.core.records import Unreadable, channel_record, decode_session, encode, restored_session, session_record
from holdfast.core.session import Session, SessionState
from holdfast.logs import get_logger
from holdfast.schemas.cluster import SessionHandover, Taken
from holdfast.schemas.frames import Request
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.connection.connection import ConnectionServices, HeardMeanwhile, LiveConnection
from holdfast.server.connection.connections import Connections
from holdfast.server.context import Context
from holdfast.server.sessions import SessionLifecycle
from holdfast.transports.port import Accept, DialError, Transport, TransportLimits

log = get_logger("holdfast.cluster")

_TAKE = "take_session"
_KEY_BYTES = 16
# While a client's last payloads or a commit are worked off.
_AGAIN_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSessions:
    """What the store adds to a handover. Without a durable session it does nothing."""

    settled: Callable[[Session], Awaitable[int]]
    """Wait until nothing of the session is on its way to the store; the revision of its record, 0 without one."""
    let_go: Callable[[Session], None]
    """Write it no more: another node does."""
    adopt: Callable[[Session, int], None]
    """Write it from now on, beginning with this revision of its record."""


@dataclass(slots=True)
class _WaitingSession:
    """A session that is here before its connection."""

    session: Session
    requests: Sequence[tuple[int, str, bytes]]
    timer: asyncio.TimerHandle
    handover: SessionHandover | None = None


class Handovers:
    """Gives sessions to other nodes, and takes theirs."""

    def __init__(
        self,
        context: Context,
        node: ClusterNode,
        *,
        lifecycle: SessionLifecycle,
        connections: Connections,
        services: ConnectionServices,
        saved: SavedSessions,
        grace_s: float,
        restored: Callable[[Session], None],
        known: Callable[[LiveConnection], None],
        continued: Callable[[Session], None],
        ask: Callable[[Session, Request], None],
    ) -> None:
        """`restored` ends a session that a ban or a sign-out has ended; `known` tells the limiter of unauthenticated
        connections; `continued` the rooms of a session whose connection has followed; `ask` carries out a request of
        the client.
        """
        self._clock = context.clock
        self._limits = context.limits
        self._random = context.random
        self._node = node
        self._lifecycle = lifecycle
        self._connections = connections
        self._services = services
        self._saved = saved
        self._grace_s = grace_s
        self._restored = restored
        self._known = known
        self._continued = continued
        self._ask = ask
        self._waiting: dict[bytes, _WaitingSession] = {}
        self._hops: dict[Session, int] = {}
        """How often sessions were handed over for the request that is being carried out."""
        self.given = self.taken = 0
        node.questions.answer(_TAKE, SessionHandover, self._take)

    def hops(self, session: Session) -> int:
        """How often the session was handed over for its present request."""
        return self._hops.get(session, 0)

    def settled(self, session: Session) -> None:
        """Its request is answered."""
        self._hops.pop(session, None)

    # Giving

    async def give(self, session: Session, life: str, requests: Callable[[], Sequence[Request]]) -> None:
        """Hand a session over, with its connection and these requests; returns once it is another node's.

        `Refused` if it stays here.
        """
        if session.seat is not None or session.place is not None:
            raise NotAllowed("this room is on another node than the room that you are in; leave that one first")
        connection = await self._at_rest(session)
        heard = connection.stand_still()
        try:
            taken = await self._offered(session, life, requests())
        except BaseException:
            connection.go_on(heard)
            raise
        self._saved.let_go(session)
        self._hops.pop(session, None)
        self._lifecycle.give_away(session)
        await self.follow_with(connection, heard, life, taken.key)

    async def follow_with(self, connection: LiveConnection, heard: HeardMeanwhile, life: str, key: bytes) -> None:
        """Let the connection of a session that was given away follow it; if it cannot, the client resumes."""
        self.given += 1
        if not connection.is_open:
            return
        try:
            if not key:
                raise DialError("its session is not expected there")
            receiver = await splice(
                connection.transport,
                self._node.relay,
                life,
                heard=lambda: heard.payloads,
                limits=TransportLimits.of(self._limits),
                follows=key,
            )
        except DialError as error:
            log.info("a connection could not follow its session; it will resume", error=str(error))
            connection.close(Reason.MOVED, "this session is on another node now; resume")
        else:
            connection.forward(receiver)

    async def _at_rest(self, session: Session) -> LiveConnection:
        """The connection of a session of which nothing waits here any more."""
        async with asyncio.timeout(self._limits.handover_s):
            while True:
                await self._saved.settled(session)
                connection = session.connection
                if not isinstance(connection, LiveConnection) or not connection.is_open:
                    raise Throttled("the connection was lost; ask again")
                if not connection.is_busy:
                    return connection
                await asyncio.sleep(_AGAIN_S)

    async def _offered(self, session: Session, life: str, requests: Sequence[Request]) -> Taken:
        revision = await self._saved.settled(session)
        closing = [channel_record(channel) for channel in session.closing]
        inbox = channel_record(session.own_channel) if session.own_channel is not None else None
        handover = SessionHandover(
            session.id,
            encode(session_record(session, "", closing, inbox)),
            revision,
            {channel.number: channel.sent for channel in session.channels()},
            [(request.id, request.operation, bytes(request.arguments)) for request in requests],
            self.hops(session) + 1,
        )
        deadline = self._clock.now() + self._limits.handover_s
        while True:
            try:
                # The same offer again: whoever has it already says so.
                return await self._node.questions.ask(life, _TAKE, handover, Taken)
            except NobodyThere as error:
                if not self._node.may_live(life) or self._clock.now() >= deadline:
                    raise Throttled("the node of this room has just gone; try again") from error
            except BusError as error:
                if self._clock.now() >= deadline:
                    raise Throttled("the node of this room does not answer; try again") from error
            await asyncio.sleep(self._limits.probe_s)

    # Taking

    def _take(self, handover: SessionHandover) -> Taken:
        for key, waiting in self._waiting.items():
            if waiting.handover == handover:
                return Taken(key)
        if self._lifecycle.registry.get(handover.session) is not None:
            raise Conflict("this session is here already")
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
        self._hops[session] = handover.hops
        key = self.expect(session, handover.sent, handover.requests)
        self._waiting[key].handover = handover
        return Taken(key)

    def expect(
        self, session: Session, sent: Mapping[int, int], requests: Sequence[tuple[int, str, bytes]] = ()
    ) -> bytes:
        """The connection of this session comes soon; the key that it shows. So much was sent on it."""
        for channel in session.channels():
            channel.continued(sent.get(channel.number, channel.acked))
        key = self._random.randbytes(_KEY_BYTES)
        timer = self._clock.loop.call_later(self._limits.handover_s, self._waiting.pop, key, None)
        self._waiting[key] = _WaitingSession(session, requests, timer)
        self.taken += 1
        return key

    def follow(self, key: bytes) -> Accept | None:
        """The connection of a session that has come: it goes on where it stood."""
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return None
        waiting.timer.cancel()
        attach = partial(self._attach, waiting)
        return lambda: _Following(self._connections, self._services, attach)

    def _attach(self, waiting: _WaitingSession, connection: LiveConnection) -> None:
        session = waiting.session
        if session.state is not SessionState.DISCONNECTED or not connection.is_open:
            connection.close(Reason.MOVED, "this session has moved; resume")
            return
        self._lifecycle.registry.attach(session, connection, self._clock.now())
        connection.continued(session)
        self._known(connection)
        self._continued(session)
        for number, operation, arguments in waiting.requests:
            self._ask(session, Request(number, operation, Raw(arguments)))


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
