"""What clients ask for through their session: create, join, leave … One at a time, each id carried out once.

The last answers are kept, so that a client which dropped before it heard one asks again with the same id and hears it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from holdfast.core.codec import CODECS
from holdfast.core.errors import (
    AlreadySeated,
    Failed,
    Invalid,
    NotFound,
    NotSeated,
    ProtocolError,
    Refused,
    RoomFull,
    Throttled,
)
from holdfast.core.frames import FRAME_HEAD_BYTES, Name, Problem, Reply, Request, sentence
from holdfast.core.infos import RoomInfo
from holdfast.core.reasons import Reason
from holdfast.core.session import Session, SessionState
from holdfast.server.room_host import Interrupted, RoomHost

if TYPE_CHECKING:
    from holdfast.server.node import Node

log = logging.getLogger("holdfast")

Properties = Annotated[dict[Name, Any], Meta(max_length=64)]


class Create(Struct, frozen=True, forbid_unknown_fields=True):
    """Make a room."""

    kind: Name
    properties: Properties = {}
    max_players: int | None = None


class JoinOrCreate(Create, frozen=True, forbid_unknown_fields=True):
    """Take a seat in any open room of a kind, or in a new one."""


class Join(Struct, frozen=True, forbid_unknown_fields=True):
    """Take a seat."""

    room: Name


class Leave(Struct, frozen=True, forbid_unknown_fields=True):
    """Give the seat back."""


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """List rooms that can be joined."""

    kind: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


def info_of(host: RoomHost) -> RoomInfo:
    """What anybody may know of a room; properties that a game has spoiled are left out, and said so in the log."""
    room = host.room
    properties = room.properties
    try:
        _check_properties(properties, host.properties_bytes_max)
    except Invalid as error:
        log.error("room %s (%s): %s", room.id, room.kind, error)  # noqa: TRY400 - the sentence says it all
        properties = {}
    return RoomInfo(room.id, room.kind, room.seats_used, room.max_players, room.phase, properties)


def _check_properties(properties: dict[str, Any], bytes_max: int) -> None:
    """Every client may be shown them, in its own dialect: what one of them cannot say is refused."""
    for codec in CODECS.values():
        try:
            size = len(codec.encode(properties))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise Invalid(
                f"properties: use text, 64-bit numbers, true, false, null, arrays and objects ({error})"
            ) from None
        if size > bytes_max:
            raise Invalid(f"properties: {size} bytes are more than the {bytes_max} that a room may have")


class RequestDesk:
    """Takes requests in, answers them in order."""

    def __init__(self, node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._result_bytes_max = node.limits.payload_bytes_max - FRAME_HEAD_BYTES
        self._decoders = {
            (codec, name): codec.body_decoder(kind)
            for codec in CODECS.values()
            for name, (kind, _) in _OPERATIONS.items()
        }
        self._queues: dict[Session, deque[Request]] = {}
        self._tasks: dict[Session, asyncio.Task[None]] = {}
        # Whose request takes or frees a seat of which room.
        self._doors: dict[Session, RoomHost] = {}
        self._is_stopped = False

    def receive(self, session: Session, request: Request) -> None:
        """A request came in: answer it, or answer it again."""
        if self._is_stopped and self._node.ledger is not None and session in self._node.ledger:
            # The connection is about to be closed, and the client asks the next server again.
            return
        if request.id <= session.last_request:
            self._repeat(session, request.id)
            return
        queue = self._queues.get(session, deque())
        if any(waiting.id == request.id for waiting in queue):
            return
        if not queue and session.last_request < request.id - 1 <= session.requests_announced:
            # A welcome told of requests in progress; the session dropped, and they were given up. Who had asked would
            # ask again; another process, which went on from a saved state, counts on from what the welcome told.
            session.last_request = request.id - 1
        if request.id != session.last_request + len(queue) + 1:
            raise ProtocolError(f"request {request.id} is out of order", Reason.SEQUENCE)
        if len(queue) >= self._node.limits.requests_in_flight_max:
            raise ProtocolError("too many requests are waiting for their answer", Reason.SEQUENCE)
        queue.append(request)
        if session not in self._tasks:
            self._queues[session] = queue
            self._tasks[session] = self._loop.create_task(self._answer_all(session, queue))

    def last_known(self, session: Session) -> int:
        """The highest request id that was answered or is being carried out: what a welcome tells."""
        known = session.last_request + len(self._queues.get(session, ()))
        session.requests_announced = max(session.requests_announced, known)
        return known

    def dropped(self, session: Session) -> None:
        """Forget what was not begun: the client asks again when it is back."""
        queue = self._queues.get(session)
        while queue and len(queue) > 1:
            queue.pop()

    async def stop(self) -> None:
        """Give up what is in progress, and seat nobody any more."""
        self._is_stopped = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _repeat(self, session: Session, request_id: int) -> None:
        reply = session.replies.get(request_id)
        connection = self._node.connection_of(session)
        if reply is not None and connection is not None:
            connection.send(reply)

    async def _answer_all(self, session: Session, queue: deque[Request]) -> None:
        try:
            while queue and session.state is not SessionState.ENDED:
                reply = await self._answer(session, queue[0])
                if reply is None:
                    queue.clear()
                    break
                queue.popleft()
                self._keep(session, reply)
                self._repeat(session, reply.id)
                self._settle(session)
        finally:
            self._settle(session)
            del self._queues[session], self._tasks[session]

    def _settle(self, session: Session) -> None:
        """What a request did and its answer are saved together, and then heard of."""
        host = self._doors.pop(session, None)
        if host is not None:
            host.settled(session)
        if self._node.ledger is not None:
            self._node.ledger.hold(session)

    async def _answer(self, session: Session, request: Request) -> Reply | None:
        try:
            return Reply(request.id, self._encoded(session, await self._carry_out(session, request)))
        except Interrupted:
            return None
        except Refused as refusal:
            return Reply(request.id, problem=Problem(refusal.code, sentence(str(refusal))))
        except Exception as error:  # noqa: BLE001 - logged, counted, contained
            self._node.internal_error(f"request {request.operation!r} of session {session.id}", error)
            return Reply(request.id, problem=Problem("internal", "the server failed to carry this out"))

    def _encoded(self, session: Session, result: Any) -> Raw:
        """The result as it will be sent, now and again: what cannot be said or does not fit fails here."""
        assert session.codec is not None
        encoded = session.codec.encode(result)
        if len(encoded) > self._result_bytes_max:
            raise Failed(f"the answer has {len(encoded)} bytes and does not fit in a payload")
        return Raw(encoded)

    def _keep(self, session: Session, reply: Reply) -> None:
        session.last_request = reply.id
        session.replies[reply.id] = reply
        while len(session.replies) > self._node.limits.replies_kept_max:
            del session.replies[next(iter(session.replies))]

    async def _carry_out(self, session: Session, request: Request) -> Any:
        operation = _OPERATIONS.get(request.operation)
        if operation is None:
            raise NotFound(f"no request is called {request.operation!r}; there is {', '.join(sorted(_OPERATIONS))}")
        _, carry_out = operation
        assert session.codec is not None
        try:
            arguments = self._decoders[session.codec, request.operation].decode(request.arguments)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Invalid(f"{request.operation}: {error}") from None
        return await carry_out(self, session, arguments)

    # Operations

    async def create(self, session: Session, wish: Create) -> RoomInfo:
        """Make a room; joining it is another request."""
        return info_of(await self._create(wish))

    async def join(self, session: Session, wish: Join) -> RoomInfo:
        """Take a seat in a room."""
        return await self._join(session, self._node.rooms.host(wish.room))

    async def join_or_create(self, session: Session, wish: JoinOrCreate) -> RoomInfo:
        """Take a seat in the oldest open room of a kind, or in a new one."""
        for host in self._node.rooms.hosts_of_kind(wish.kind):
            if host.room.seat_of(session.player_id) is not None or host.room.has_free_seat:
                try:
                    return await self._join(session, host)
                except (RoomFull, NotFound):
                    continue
        return await self._join(session, await self._create(wish))

    async def leave(self, session: Session, wish: Leave) -> None:
        """Give the seat back."""
        if session.player is None:
            raise NotSeated("this session has no seat to leave")
        host = self._doors[session] = self._node.rooms.host_of(session.player)
        host.parting(session)
        await host.call(host.free, session.player, Reason.LEFT)

    async def search(self, session: Session, wish: Search) -> list[RoomInfo]:
        """Rooms with a free seat, oldest first: as many as were asked for and fit in the answer."""
        assert session.codec is not None
        found: list[RoomInfo] = []
        bytes_left = self._result_bytes_max
        for host in self._node.rooms.hosts_of_kind(wish.kind):
            if len(found) == wish.limit:
                break
            if host.room.has_free_seat:
                info = info_of(host)
                bytes_left -= len(session.codec.encode(info)) + 1
                if bytes_left < 0:
                    break
                found.append(info)
        return found

    async def _create(self, wish: Create) -> RoomHost:
        _check_properties(wish.properties, self._node.limits.properties_bytes_max)
        return await self._node.rooms.create(wish.kind, wish.properties, wish.max_players)

    async def _join(self, session: Session, host: RoomHost) -> RoomInfo:
        if session.player is not None:
            raise AlreadySeated("this session has a seat already; leave it first")
        if self._is_stopped:
            raise Throttled("this node is stopping")
        if self._node.ledger is not None:
            # What happened in the room it has just left must not be saved after what happens in this one.
            await self._node.ledger.settled(session)
        self._doors[session] = host
        await host.join(session, host.wire_outlet)
        return info_of(host)


_OPERATIONS: dict[str, tuple[type[Struct], Callable[[RequestDesk, Session, Any], Awaitable[Any]]]] = {
    "create": (Create, RequestDesk.create),
    "join": (Join, RequestDesk.join),
    "join_or_create": (JoinOrCreate, RequestDesk.join_or_create),
    "leave": (Leave, RequestDesk.leave),
    "search": (Search, RequestDesk.search),
}
