"""All connections of a server: listed, pinged, and closed when they are silent, idle or too old."""

import asyncio
from collections.abc import Callable, Iterator

from holdfast.core.connection import ConnectionId
from holdfast.core.limits import Limits
from holdfast.core.outlet import Outlet
from holdfast.core.reasons import Reason
from holdfast.core.session import Session, SessionFlags
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.context import Clock, Deadlines


class Connections:
    """The open connections. The listeners are filled where the server is composed, and called in order."""

    def __init__(self, incarnation: str) -> None:
        self._incarnation = incarnation
        self._opened_count = 0
        self._open: dict[ConnectionId, LiveConnection] = {}
        # Includes closing connections, until their transport has ended.
        self._links: set[LiveConnection] = set()
        self._all_unlinked: asyncio.Future[None] | None = None
        self.on_link: list[Callable[[LiveConnection], None]] = []
        """A transport has opened."""
        self.admit: Callable[[LiveConnection], bool] = lambda _: True
        """Whether a new connection may stay; if not, it has been closed."""
        self.on_admit: list[Callable[[LiveConnection], None]] = []
        self.on_lost: list[Callable[[LiveConnection], None]] = []
        """A connection is gone, or closing and no longer read."""
        self.on_unlink: list[Callable[[LiveConnection], None]] = []
        """A transport has ended: nothing of its connection is left."""

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[LiveConnection]:
        """A copy: connections may close during the iteration."""
        return iter(list(self._open.values()))

    def get(self, connection_id: str) -> LiveConnection | None:
        return self._open.get(ConnectionId(connection_id))

    def next_id(self) -> ConnectionId:
        """A new id; ids are unique across restarts."""
        self._opened_count += 1
        return ConnectionId(f"{self._incarnation}-{self._opened_count}")

    def opened(self, connection: LiveConnection) -> None:
        self._links.add(connection)
        for heard in self.on_link:
            heard(connection)
        if not self.admit(connection):
            return
        self._open[connection.id] = connection
        for heard in self.on_admit:
            heard(connection)

    def lost(self, connection: LiveConnection) -> None:
        self._open.pop(connection.id, None)
        for heard in self.on_lost:
            heard(connection)

    def unlinked(self, connection: LiveConnection) -> None:
        self._links.discard(connection)
        for heard in self.on_unlink:
            heard(connection)
        if self._all_unlinked is not None and not self._links:
            self._all_unlinked.set_result(None)

    def close_all(self, reason: Reason, message: str, *, retry_after_s: float) -> None:
        for connection in self:
            connection.close(reason, message, retry_after_s=retry_after_s)

    async def wait_until_unlinked(self) -> None:
        """Wait until every transport has ended."""
        if self._links:
            self._all_unlinked = asyncio.get_running_loop().create_future()
            await self._all_unlinked


_SLICES = 20


class Heartbeat:
    """Pings every connection every `ping_s`, and drops it after `silence_s` of silence.

    A connection is silent if it neither delivers a payload nor carries `liveness_bytes_per_s`, in either direction. One
    timer serves all connections: they are visited in slices, so that ten thousand are not pinged at once.
    """

    def __init__(self, clock: Clock, limits: Limits, connections: Connections) -> None:
        self._clock = clock
        self._limits = limits
        self._connections = connections
        self._round: list[LiveConnection] = []
        self._slice = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = self._clock.loop.call_later(self._limits.ping_s / _SLICES, self._beat)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self.start()
        if self._slice == 0:
            self._round = list(self._connections)
        now = self._clock.now()
        for connection in self._round[self._slice :: _SLICES]:
            if connection.is_open and connection.session is not None:
                self._visit(connection, connection.session, now)
        self._slice = (self._slice + 1) % _SLICES

    def _visit(self, connection: LiveConnection, session: Session, now: float) -> None:
        limits, seat = self._limits, session.seat
        if now - connection.heard_at >= limits.ping_s:
            connection.look(now)
        # A connection in the fair queue is silent because it is not being read: check it after it has left the queue.
        if now - connection.heard_at >= limits.silence_s and connection.backlog is None:
            connection.cut(Reason.SILENT)
        elif seat is not None and self._reads_nothing(session, seat.outlet, now):
            seat.outlet.overflow()
        else:
            connection.ping(now)

    def _reads_nothing(self, session: Session, outlet: Outlet, now: float) -> bool:
        """Whether messages wait for a client that does not read."""
        if session.flags & SessionFlags.AWAITING_RESPONSE:
            # The ping is behind unread data: the link is slow, not the client.
            return False
        backlog = outlet.backlog
        return backlog is not None and backlog.stalled > 0 and now - backlog.stalled_at >= self._limits.unread_s


class Lifetimes:
    """Ends connected sessions that are idle or too old.

    A session is idle when its client has sent no message and no request and acknowledged nothing for `idle_s`; pongs do
    not count as activity. One deadline per connection, so that a disconnected session keeps none: activity does not
    move it; one that is reached too early is followed by another.
    """

    def __init__(
        self, clock: Clock, connections: Connections, end_session: Callable[[Session, Reason, str], None]
    ) -> None:
        self._clock = clock
        self._connections = connections
        self._end_session = end_session
        self._deadlines = Deadlines(clock, self._is_next, self._check)
        self.stop = self._deadlines.stop

    def begin(self, connection: LiveConnection, session: Session) -> None:
        """The connection belongs to the session."""
        limits = session.limits
        idle_at = [session.last_active_at + limits.idle_s] if limits.idle_s else []
        old_at = [session.created_at + limits.session_age_max_s] if limits.session_age_max_s else []
        if idle_at or old_at:
            connection.due_at = min(idle_at + old_at)
            self._deadlines.add(connection.due_at, connection.id)

    def renew(self, session: Session) -> None:
        """The limits of the session have changed."""
        connection = session.connection
        if isinstance(connection, LiveConnection) and connection.session is session:
            connection.due_at = None
            self.begin(connection, session)

    def _is_next(self, at: float, connection_id: str) -> bool:
        connection = self._connections.get(connection_id)
        return connection is not None and connection.due_at == at

    def _check(self, connection_id: str) -> None:
        connection = self._connections.get(connection_id)
        assert connection is not None
        connection.due_at = None
        session, now = connection.session, self._clock.now()
        if session is None or not connection.is_open:
            return
        limits = session.limits
        if limits.idle_s and now >= session.last_active_at + limits.idle_s:
            self._end_session(session, Reason.IDLE, f"the session was idle for {limits.idle_s:g} s")
        elif limits.session_age_max_s and now >= session.created_at + limits.session_age_max_s:
            self._end_session(session, Reason.TOO_OLD, f"the session is over {limits.session_age_max_s:g} s old")
        else:
            self.begin(connection, session)
