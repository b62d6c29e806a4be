"""Keeps a client connected: dial, say hello, listen, and after a loss wait with jitter and dial again."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from holdfast.client.listeners import Drop
from holdfast.client.nearer import Nearer
from holdfast.client.protocol import ClientProtocol, Event, Welcomed
from holdfast.client.ways import Dial
from holdfast.core.backoff import Backoff
from holdfast.core.connection import Look
from holdfast.core.errors import ProtocolError, SessionEnded
from holdfast.core.limits import Limits
from holdfast.core.reasons import CLOSE_CODES, Advice, Reason, advice, reason_of
from holdfast.logs import get_logger
from holdfast.schemas.frames import Close, Datagrams, Notice
from holdfast.transports.links import tell
from holdfast.transports.port import (
    BROKEN,
    INTERNAL,
    NORMAL,
    VANISHED,
    DialError,
    Subprotocol,
    Transport,
    TransportLimits,
)
from holdfast.transports.udp.client import ClientPath, OpenUdp

log = get_logger("holdfast.client")

# A connection that lasted this long was a good one: the next loss starts with a short wait again. One that was
# lost sooner is a flaky connection, or a server that fails after each welcome: wait a little longer.
SETTLED_S = 2.0
_UNSETTLED_ATTEMPT_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DialOptions:
    """Where the server is, how to get there, how often and for how long to try."""

    url: str
    dial: Dial
    backoff: Backoff
    give_up_s: float
    random: Random
    limits: Limits
    open_udp: OpenUdp | None = None
    """Opens UDP sockets, for datagrams beside a stream; None: never."""
    dial_nearer: Dial | None = None
    """Opens a connection to the address that a server names; None: never."""
    turned_away: Callable[[], None] = lambda: None
    """Called when a server answered and did not take the session: at another address there may be one that does."""


class RetrySchedule:
    """When to try again, and when to stop trying."""

    def __init__(self, options: DialOptions, now: float) -> None:
        self._options = options
        self.attempt = 0
        """The number of the last attempt for which a wait was asked; they are counted from 1."""
        self._lost_at = now
        self.reached_at = now
        """When the server last answered: while it does, the network works, and it is worth trying again."""

    def was_welcome(self, lasted_s: float, now: float) -> None:
        """A connection was good, and is gone now."""
        self._lost_at = self.reached_at = now
        self.attempt = 0 if lasted_s >= SETTLED_S else min(self.attempt, _UNSETTLED_ATTEMPT_MAX)

    def wait_s(self, retry_after_s: float, now: float) -> float | None:
        """How long to wait before the next attempt; None if that would be too late."""
        options, lost_s = self._options, now - self._lost_at
        wait_s = options.backoff.wait_s(
            self.attempt, options.random.random(), lost_s=lost_s, retry_after_s=retry_after_s
        )
        self.attempt += 1
        return wait_s if now - self.reached_at + wait_s < options.give_up_s else None


class ClientConnection:
    """The receiver of one connection, from its first byte to its end."""

    def __init__(
        self,
        received: Callable[["ClientConnection", bytes], None],
        received_datagram: Callable[["ClientConnection", bytes], None],
        drained: Callable[[], None],
    ) -> None:
        self._received = received
        self._received_datagram = received_datagram
        self._drained = drained
        self._looked: Look | None = None
        self.transport: Transport | None = None
        """None before it is open, and when it is lost."""
        self.heard_at = 0.0
        self.welcome_at: float | None = None
        """When the session was attached to it."""
        self.closed: Close | None = None
        """What the server said about its end."""
        self._path: ClientPath | None = None
        self._path_task: asyncio.Task[None] | None = None
        self.is_congested = False
        """The server reads slower than we write; reliable messages are bounded by the window, others must wait."""
        self.end: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        """Its code and reason, once it is there."""
        self.successor: ClientConnection | None = None
        """A connection to the session's own node, which has replaced this one."""
        self.predecessor: ClientConnection | None = None
        """The one that this replaces: it stays open until this one is welcome, so that the server sees no drop."""

    def leave_for(self, successor: "ClientConnection") -> None:
        """Hear and say nothing more here."""
        self.successor, successor.predecessor = successor, self
        if not self.end.done():
            self.end.set_result((NORMAL, ""))

    def leave_predecessor(self) -> None:
        """The session is here, or lost."""
        if self.predecessor is not None:
            self.predecessor.abort()
            self.predecessor = None

    def opened(self, transport: Transport) -> None:
        self.transport = transport
        self.heard_at = asyncio.get_running_loop().time()

    def received(self, payload: bytes) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        self._received(self, payload)

    def received_datagram(self, payload: bytes) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        self._received_datagram(self, payload)

    def received_beside(self, payload: bytes) -> None:
        """The same over UDP beside the stream: it says nothing of the stream, which may be gone."""
        if self.transport is not None:
            tell(self.transport, self._received_datagram, self, payload)

    def send_beside(self, offer: Datagrams, open_udp: OpenUdp, limits: TransportLimits) -> None:
        """Send unreliable messages over UDP from now on, whenever they get through."""
        if self.transport is None:
            return
        host = self.transport.peer.rpartition(":")[0].strip("[]")
        try:
            self._path = ClientPath(offer, host, open_udp, self.received_beside, limits)
        except ValueError as error:
            raise ProtocolError(str(error)) from None
        self._path_task = asyncio.create_task(self._path.run(), name="holdfast datagrams")

    async def stop_beside(self) -> None:
        """Use UDP no more."""
        if self._path_task is not None:
            self._path_task.cancel()
            await asyncio.wait([self._path_task])

    def look(self, bytes_per_s: float) -> None:
        """No payload came for a while: the server counts as heard if the connection still carries something."""
        if self.transport is not None:
            now = asyncio.get_running_loop().time()
            looked, self._looked = self._looked, Look(now, self.transport.traffic)
            if self._looked.is_alive(looked, self.heard_at, bytes_per_s):
                self.heard_at = now

    def kept_busy(self) -> None:
        """A server may do that."""

    def congested(self) -> None:
        self.is_congested = True

    def drained(self) -> None:
        self.is_congested = False
        self._drained()

    def lost(self, code: int, reason: str) -> None:
        self.transport = None
        if not self.end.done():
            self.end.set_result((code, reason))

    def send(self, payload: bytes) -> None:
        # asyncio would complain about many that are written to a socket that has failed.
        if self.transport is not None and self.transport.is_up:
            self.transport.send(payload)

    @property
    def datagram_bytes_max(self) -> int:
        """The largest payload that can be sent as a datagram now; 0: none."""
        if self.transport is None:
            return 0
        return self.transport.datagram_bytes_max if self._path is None else self._path.bytes_max

    @property
    def latest_transport(self) -> str:
        """How unreliable messages are sent now; empty without a connection."""
        if self.transport is None:
            return ""
        return "udp" if self._path is not None and self._path.is_open else self.transport.kind

    def send_datagram(self, payload: bytes) -> None:
        if self.transport is not None and self.transport.is_up:
            send = self.transport.send_datagram if self._path is None else self._path.send
            if not send(payload):
                self.transport.send(payload)

    def close(self, code: int, reason: str) -> None:
        if self.transport is not None:
            self.transport.close(code, reason)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class Connector:
    """One task, one connection at a time."""

    def __init__(
        self,
        protocol: ClientProtocol,
        options: DialOptions,
        *,
        keep: Callable[[], None],
        happened: Callable[[Event], None],
        heard: Callable[[], None],
        drained: Callable[[], None],
        dropped: Callable[[Drop], None],
        waiting: Callable[[Drop], None],
        ended: Callable[[str, str, str], None],
    ) -> None:
        """What is called, and when.

        - `keep`: before a hello is written; raises `DialError` if what it tells cannot be saved.
        - `happened`: for each event; `heard`: after each payload; `drained`: when writing may go on.
        - `dropped`: when a connection that was welcomed is lost; another will follow.
        - `waiting`: before each attempt to connect again, with the wait before it.
        - `ended`: when there will be no other connection, with reason, message and problem.
        """
        self._keep = keep
        self._happened = happened
        self._heard = heard
        self._drained = drained
        self._dropped = dropped
        self._waiting = waiting
        self._ended = ended
        self._protocol = protocol
        protocol.sends_datagrams = options.open_udp is not None
        protocol.moves_nearer = options.dial_nearer is not None
        self._options = options
        self._connection: ClientConnection | None = None
        self._nearer: Nearer[ClientConnection] = Nearer(options.dial_nearer, self._new_connection, self._came_nearer)
        self._task: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Connect for the first time. A new session is not retried if there is no answer; a saved one is."""
        if self._task is not None:
            raise RuntimeError("this session was opened before: call `connect` again for another")
        self._opened = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(), name=f"holdfast session at {self._options.url}")
        try:
            await self._opened
        except BaseException:
            await self._abort()
            raise

    async def close(self, code: int, reason: str) -> None:
        """End the connection in order, if there is one, and make no other."""
        self._nearer.stop()
        try:
            if self._connection is not None and self._connection.transport is not None:
                self._connection.close(code, reason)
                await asyncio.wait([self._connection.end])
        finally:
            await self._abort()

    async def _abort(self) -> None:
        self._nearer.stop()
        self.cut()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def cut(self) -> None:
        """Break the connection, as a bad network would."""
        if self._connection is not None:
            self._connection.abort()
            if self._connection.successor is not None:
                self._connection.successor.abort()

    def send(self, payload: bytes) -> None:
        if self._connection is not None:
            self._connection.send(payload)

    @property
    def transport_kind(self) -> str:
        """How we are connected; empty while we are not."""
        transport = self._connection.transport if self._connection is not None else None
        return transport.kind if transport is not None else ""

    @property
    def latest_transport(self) -> str:
        """How unreliable messages are sent now; empty while we are not connected."""
        return self._connection.latest_transport if self._connection is not None else ""

    @property
    def datagram_bytes_max(self) -> int:
        """The largest payload that can be sent as a datagram now; 0: none."""
        return self._connection.datagram_bytes_max if self._connection is not None else 0

    def send_datagram(self, payload: bytes) -> None:
        """Send a payload that may be lost."""
        if self._connection is not None:
            self._connection.send_datagram(payload)

    @property
    def is_congested(self) -> bool:
        """Whether what may be left out should wait."""
        return self._connection is not None and self._connection.is_congested

    # The task

    async def _live(self) -> None:
        try:
            last = await self._stay_connected()
        except Exception:
            log.exception("the client failed", url=self._options.url)
            last = Close(INTERNAL, Reason.INTERNAL, "the client failed; its log says how")
        end = ("unreachable", str(last), "")
        if not isinstance(last, DialError):
            end = (last.reason, last.message, last.problem)
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(last if isinstance(last, DialError) else SessionEnded(*end))
        self._ended(*end)

    async def _stay_connected(self) -> Close | DialError:
        """Connect again and again; the result is why there will be no other connection."""
        now = asyncio.get_running_loop().time
        schedule = RetrySchedule(self._options, now())
        is_first = not self._protocol.session_id
        successor: ClientConnection | None = None
        while True:
            connection = successor or self._new_connection()
            is_answered = False
            try:
                closed = await self._one_connection(connection)
                is_answered = True
            except DialError as error:
                if is_first or not error.retry:
                    return error
                closed = Close(VANISHED, Reason.DROPPED, str(error))
            is_first = False
            successor = connection.successor
            if successor is not None:
                continue
            what = advice(closed.code)
            if what is Advice.STOP or (what is Advice.SIGN_IN and not self._protocol.sign_in_again(closed.reason)):
                return closed
            if connection.welcome_at is not None:
                schedule.was_welcome(now() - connection.welcome_at, now())
            elif is_answered and self._protocol.session_id and closed.reason != Reason.MOVED:
                self._options.turned_away()
                # A server that no longer has the session is not worth waiting for.
                schedule.reached_at = now()
            wait_s = schedule.wait_s(closed.retry_after_s, now())
            if wait_s is None:
                gave_up = f"no session at {self._options.url} within {self._options.give_up_s:g} s"
                return Close(closed.code, "unreachable", f"{gave_up}: {closed.message or closed.reason}")
            drop = Drop(closed.reason, closed.message, schedule.attempt, wait_s)
            if connection.welcome_at is not None:
                self._dropped(drop)
            self._waiting(drop)
            await asyncio.sleep(wait_s)

    def _new_connection(self) -> ClientConnection:
        return ClientConnection(self._received, self._received_datagram, self._drained)

    def _came_nearer(self, nearer: ClientConnection) -> None:
        """A connection to the session's own node is open: go on there, without a drop."""
        current = self._connection
        if current is None or current.end.done() or not self._protocol.is_welcome:
            # That was lost meanwhile, and is replaced as always.
            nearer.abort()
        else:
            current.leave_for(nearer)

    async def _one_connection(self, connection: ClientConnection) -> Close:
        """One connection, from dial to end, and how it ended."""
        self._connection = connection
        codec = self._protocol.codec
        subprotocol, limits = Subprotocol(codec.name, codec.text), TransportLimits.of(self._options.limits)
        try:
            if connection.predecessor is None:
                await self._options.dial(connection, self._options.url, subprotocol, limits)
            self._keep()
            connection.send(self._protocol.hello())
            code, reason = await self._listen(connection)
        finally:
            if connection.successor is None:
                connection.abort()
            connection.leave_predecessor()
            self._connection = None
            self._protocol.lost()
            await connection.stop_beside()
        is_known = code in CLOSE_CODES.values()
        return connection.closed or (Close(code, reason) if is_known else Close(code, reason_of(code), reason))

    async def _listen(self, connection: ClientConnection) -> tuple[int, str]:
        """Until the end; a server that says nothing for too long is gone, whatever the socket says."""
        now = asyncio.get_running_loop().time
        while not connection.end.done():
            limits = self._protocol.limits
            silence_s = limits.silence_s + self._protocol.quiet_s
            half_s = silence_s / 2
            if connection.welcome_at is not None and now() - connection.heard_at >= half_s:
                connection.look(limits.liveness_bytes_per_s)
            patience_s = connection.heard_at + silence_s - now()
            if patience_s <= 0:
                connection.abort()
                return await connection.end
            # Usually something is heard in the first half; in the second the bytes are looked at, twice at least.
            wait_s = max(patience_s - half_s, min(patience_s, half_s / 2))
            await asyncio.wait([connection.end], timeout=wait_s)
        return connection.end.result()

    def _received_datagram(self, connection: ClientConnection, payload: bytes) -> None:
        # What comes before the welcome cannot be understood: it has overtaken the frames that it belongs to.
        if self._protocol.is_welcome and connection is self._connection:
            self._process(connection, self._protocol.receive_datagram(payload))

    def _received(self, connection: ClientConnection, payload: bytes) -> None:
        if connection is not self._connection:
            # It was left for another one, which gets this again.
            return
        self._process(connection, self._protocol.receive(payload))

    def _process(self, connection: ClientConnection, events: Iterator[Event]) -> None:
        try:
            for event in events:
                if isinstance(event, Notice) and event.topic == "address":
                    if connection.transport is not None:
                        self._nearer.told(event.body, self._protocol, connection.transport, self._options.limits)
                    continue
                if isinstance(event, Close):
                    connection.closed = event
                    connection.close(NORMAL, "")
                    continue
                if isinstance(event, Welcomed) and event.datagrams is not None and self._options.open_udp is not None:
                    limits = TransportLimits.of(self._options.limits)
                    connection.send_beside(event.datagrams, self._options.open_udp, limits)
                if isinstance(event, Welcomed) and connection.predecessor is not None:
                    event = replace(event, is_moved=True)  # noqa: PLW2901 - the same event, with what we know
                self._happened(event)
        except ProtocolError as error:
            log.warning("the server broke the protocol", url=self._options.url, error=error)
            connection.closed = Close(CLOSE_CODES[error.reason], error.reason, str(error))
            connection.close(BROKEN, error.reason)
        if self._protocol.is_welcome and connection.welcome_at is None:
            connection.welcome_at = connection.heard_at
            connection.leave_predecessor()
            if self._opened is not None and not self._opened.done():
                self._opened.set_result(None)
        self._heard()
