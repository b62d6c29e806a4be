"""Requests of clients through their session: create, join, leave … One at a time, and each id is carried out once.

The last answers are kept: a client that dropped before it received one repeats the request with the same id and gets
the same answer. Answers to read-only requests are not kept: they are read again.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from holdfast.core.codec import DECODE_ERRORS, MSGPACK
from holdfast.core.errors import Failed, Invalid, NotFound, ProtocolError, Refused, Throttled
from holdfast.core.finite import request_decoders
from holdfast.core.reasons import Reason
from holdfast.core.session import Session, SessionState
from holdfast.observability.packet_text import secrets_in
from holdfast.schemas.account import LinkInfo
from holdfast.schemas.frames import FRAME_HEAD_BYTES, Reply, Request, RequestProblem, sentence
from holdfast.schemas.requests import READS, REMOTE, REQUESTS
from holdfast.server.context import Context
from holdfast.server.directory.operations import Operation
from holdfast.server.rooms.approval import Interrupted
from holdfast.server.sessions import StoredSessions


class _ThrottledRequest(Request, frozen=True):
    """A request that is answered in order with a refusal, and not carried out."""


AskElsewhere = Callable[[Session, int, str, Any, NotFound], Awaitable[Any]]
"""Lets the node of a room carry out a request, given by its id, name and arguments; or raises the refusal."""

LookElsewhere = Callable[[Session, NotFound, Callable[[], list[Request]]], Awaitable[None]]
"""Hands the session over to the node of a room, with its unanswered requests, and raises `Interrupted`; returns if the
room is here by now; raises the refusal otherwise."""


class RequestHandler:
    """Receives requests, and answers them in order."""

    def __init__(
        self,
        context: Context,
        operations: Mapping[str, Operation],
        *,
        stored: StoredSessions,
        settle: Callable[[Session], None],
    ) -> None:
        """`settle` is called when a request has been answered."""
        self._operations = operations
        self._stored = stored
        self._settle_operation = settle
        self._limits = context.limits
        self._faults = context.faults
        self._loop = context.clock.loop
        self._result_bytes_max = context.limits.payload_bytes_max - FRAME_HEAD_BYTES
        self._decoders = {
            (codec, name): decoder
            for name, kind in REQUESTS.items()
            for codec, decoder in request_decoders(kind, context.limits.nesting_max).items()
        }
        self.look_elsewhere: LookElsewhere | None = None
        """In a cluster: the room of a request that is not here may be on another node."""
        self.ask_elsewhere: AskElsewhere | None = None
        """The same for requests that leave the session where it is."""
        self.on_answered: Callable[[Session], None] = lambda _: None
        """Called with the session of each request that was answered here."""
        self._queues: dict[Session, deque[Request]] = {}
        self._tasks: dict[Session, asyncio.Task[None]] = {}
        self._is_stopped = False

    def receive(self, session: Session, request: Request, is_throttled: bool = False) -> None:
        """Answer a request, or repeat its answer; `is_throttled` refuses it."""
        if self._is_stopped and self._stored.is_saved(session):
            # The connection is about to close, and the client repeats the request on the next server.
            return
        if session.state is SessionState.ENDED:
            # Its connection closes once that is saved.
            return
        is_new = request.id > session.last_request
        if not is_new and request.operation not in READS:
            if (reply := session.reply_to(request.id)) is not None:
                _send(session, reply)
            return
        queue = self._queues.get(session, deque())
        if any(waiting.id == request.id for waiting in queue):
            return
        if is_new:
            self._check_order(session, request.id)
        if len(queue) >= self._limits.requests_in_flight_max:
            raise ProtocolError("too many requests are waiting for an answer", Reason.SEQUENCE)
        queue.append(_ThrottledRequest(request.id, request.operation, request.arguments) if is_throttled else request)
        if session not in self._tasks:
            self._queues[session] = queue
            self._tasks[session] = self._loop.create_task(self._answer_all(session, queue))

    def _check_order(self, session: Session, request_id: int) -> None:
        waiting = self._unanswered(session)
        if not waiting and session.last_request < request_id - 1 <= session.requests_announced:
            # A welcome reported requests in progress, the session dropped, and they were abandoned. That client would
            # repeat them; a client process that continues from a saved state counts on from the welcome's number.
            session.last_request = request_id - 1
        if request_id != session.last_request + waiting + 1:
            raise ProtocolError(f"request {request_id} is out of order", Reason.SEQUENCE)

    def _unanswered(self, session: Session) -> int:
        """How many requests wait that were never answered."""
        return sum(waiting.id > session.last_request for waiting in self._queues.get(session, ()))

    def last_known(self, session: Session) -> int:
        """The highest request id that was answered or is being carried out: sent with a welcome."""
        known = session.last_request + self._unanswered(session)
        session.requests_announced = max(session.requests_announced, known)
        return known

    def is_asking(self, session: Session) -> bool:
        """Whether a request of the session is being carried out, or waits."""
        return session in self._tasks

    async def answered(self, session: Session) -> None:
        """Wait until no request of the session is being carried out."""
        while (task := self._tasks.get(session)) is not None:
            await asyncio.wait([task])

    def dropped(self, session: Session) -> None:
        """Discard requests that were not started: the client repeats them when it returns."""
        queue = self._queues.get(session)
        while queue and len(queue) > 1:
            queue.pop()

    async def stop(self) -> None:
        """Abandon the requests in progress."""
        self._is_stopped = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer_all(self, session: Session, queue: deque[Request]) -> None:
        try:
            while queue and session.state is not SessionState.ENDED:
                try:
                    sent, kept = await self._answer(session, queue[0])
                except Interrupted:
                    queue.clear()
                    break
                request = queue.popleft()
                session.last_request = max(session.last_request, request.id)
                if request.operation not in READS:
                    session.replied(kept)
                _send(session, sent)
                self._settle(session)
                self.on_answered(session)
        finally:
            self._settle(session)
            del self._queues[session], self._tasks[session]

    def _settle(self, session: Session) -> None:
        """The effect of a request and its answer are saved together, and sent afterwards."""
        self._settle_operation(session)
        self._stored.hold(session)

    async def _answer(self, session: Session, request: Request) -> tuple[Reply, Reply]:
        """The answer as it is sent, and as it is stored."""
        try:
            result = await self._carry_out(session, request)
            sent = kept = Reply(request.id, self._encoded(session, result))
            if isinstance(result, LinkInfo):
                # Tokens are never stored, only their hashes.
                kept = Reply(request.id, self._encoded(session, replace(result, token="")))
            return sent, kept
        except Interrupted:
            raise
        except Refused as refusal:
            reply = Reply(request.id, problem=RequestProblem(refusal.code, sentence(str(refusal))))
        except Exception as error:  # noqa: BLE001 - logged, counted, contained
            secrets = secrets_in(session.codec or MSGPACK, request)
            self._faults.report(f"a request to {request.operation}", error, hide=secrets, session=session.id)
            reply = Reply(request.id, problem=RequestProblem("internal", "the server failed; its log has the error"))
        return reply, reply

    def _encoded(self, session: Session, result: Any) -> Raw | None:
        """The encoded result; a result that cannot be encoded or is too large fails here."""
        if result is None:
            return None
        assert session.codec is not None
        encoded = session.codec.encode(result)
        if len(encoded) > self._result_bytes_max:
            raise Failed(f"the answer has {len(encoded)} bytes, which does not fit in a payload")
        return Raw(encoded)

    async def _carry_out(self, session: Session, request: Request) -> Any:
        if isinstance(request, _ThrottledRequest):
            raise Throttled("too many requests at once; try again later")
        operation = self._operations.get(request.operation)
        if operation is None:
            raise NotFound(
                f"unknown request {request.operation!r}; this server has: {', '.join(sorted(self._operations))}"
            )
        assert session.codec is not None
        try:
            arguments = self._decoders[session.codec, request.operation].decode(request.arguments)
        except DECODE_ERRORS as error:
            raise Invalid(f"{request.operation}: {error}") from None
        try:
            return await operation(session, arguments)
        except NotFound as missing:
            if self.look_elsewhere is None or not (missing.room_id or missing.room_code):
                raise
            if self.ask_elsewhere is not None and request.operation in REMOTE:
                return await self.ask_elsewhere(session, request.id, request.operation, arguments, missing)
            await self.look_elsewhere(session, missing, lambda: list(self._queues[session]))
            return await operation(session, arguments)


def _send(session: Session, reply: Reply) -> None:
    if session.connection is not None:
        session.connection.send(reply)
