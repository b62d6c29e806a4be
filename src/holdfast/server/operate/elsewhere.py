"""Requests of operators that another node carries out, because it has the room or the session.

The response comes in parts, each of which is asked for: it may be long, and need not end, as a stream of messages.
What is in the requests, and who may send them, is up to the API that answers.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any

from holdfast.cluster.port import BusError
from holdfast.core.errors import Throttled
from holdfast.core.limits import Limits
from holdfast.core.tokens import new_id
from holdfast.schemas.cluster import ForwardedPart, ForwardedRequest
from holdfast.server.cluster.finder import Unsure
from holdfast.server.cluster.parts import ClusterParts
from holdfast.server.context import Context
from holdfast.stores.port import StoreError

_FORWARD, _MORE = "operate", "operate_more"
_KEY_BYTES = 12
# How long a part waits for more to send with it; a response that is short is whole by then.
_TOGETHER_S = 0.02

ResponseParts = AsyncGenerator[ForwardedPart, None]
"""The parts of a response as they come: the first has its status and headers."""
Respond = Callable[[ForwardedRequest], ResponseParts]


class RequestForwarder:
    """Finds the node of a room or a session, and lets it answer; and answers the requests of the others."""

    def __init__(self, context: Context, cluster: ClusterParts) -> None:
        self._limits: Limits = context.limits
        self._random = context.random
        self._cluster = cluster
        self._questions = cluster.node.questions
        self._respond: Respond | None = None
        self._responses: dict[str, _Response] = {}
        self._questions.answer(_FORWARD, ForwardedRequest, self._forwarded)
        self._questions.answer(_MORE, str, self._more)

    # Asking

    async def room(self, room_id: str) -> str | None:
        """The life of the node that has a room; None if none has it."""
        return await self._found(self._cluster.takeover.room(room_id))

    async def session(self, session_id: str) -> str | None:
        """The same for a session."""
        return await self._found(self._cluster.takeover.session(session_id))

    @staticmethod
    async def _found(looking: Coroutine[Any, Any, str | None]) -> str | None:
        try:
            return await looking
        except (Unsure, StoreError):
            raise Throttled("a node of the cluster does not answer, and may have it; try again in a moment") from None

    @property
    def own_life(self) -> str:
        return self._cluster.node.life

    @property
    def others(self) -> list[str]:
        """The lives of the other nodes that may be alive."""
        node = self._cluster.node
        return [life for life in node.watch.membership.members if node.may_live(life)]

    def name_of(self, life: str) -> str:
        return self._cluster.node.name_of(life)

    async def ask(self, life: str, request: ForwardedRequest) -> ResponseParts:
        """Let another node carry out a request; `Throttled` if it does not answer."""
        part = await self._part(life, _FORWARD, request)
        yield part
        while part.key:
            part = await self._part(life, _MORE, part.key)
            yield part

    async def _part(self, life: str, question: str, body: object) -> ForwardedPart:
        try:
            return await self._questions.ask(life, question, body, ForwardedPart)
        except BusError:
            raise Throttled(
                f"the node {self.name_of(life)} does not answer; it may have done it: look before you try again"
            ) from None

    # Answering

    def answer_with(self, respond: Respond) -> None:
        """Let this API respond to what other nodes forward; without one, they are told so."""
        self._respond = respond

    def stop(self) -> None:
        for response in list(self._responses.values()):
            response.end()

    async def _forwarded(self, request: ForwardedRequest) -> ForwardedPart:
        if self._respond is None:
            raise Throttled(f"the node {self._cluster.node.name} has the room or session, and runs without an HTTP API")
        if len(self._responses) >= self._limits.forwarded_max:
            raise Throttled(f"the node {self._cluster.node.name} answers too many requests of other nodes; try again")
        key = new_id(self._random.randbytes(_KEY_BYTES))
        response = self._responses[key] = _Response(key, self._respond(request), self._limits, self._responses)
        return await response.next()

    async def _more(self, key: str) -> ForwardedPart:
        response = self._responses.get(key)
        if response is None:
            raise Throttled("the rest of this response was not asked for in time")
        return await response.next()


class _Response:
    """A response that is made here, and read part by part by another node."""

    def __init__(self, key: str, parts: ResponseParts, limits: Limits, others: "dict[str, _Response]") -> None:
        self._key = key
        self._limits = limits
        self._others = others
        self._status, self._headers, self._body = 0, list[tuple[bytes, bytes]](), b""
        self._is_over = False
        self._changed, self._taken = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._read(parts))
        self._timer = self._loop.call_later(limits.forwarded_s, self.end)

    async def next(self) -> ForwardedPart:
        """What there is by now, or soon."""
        self._timer.cancel()
        # An empty part is an answer, too: it keeps the two nodes from taking each other for dead.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.answer_s / 2):
                while not ((self._status and self._body) or self._is_over):
                    self._changed.clear()
                    await self._changed.wait()
                if not self._is_over:
                    await asyncio.sleep(_TOGETHER_S)
        body, self._body = (
            self._body[: self._limits.forwarded_bytes_max],
            self._body[self._limits.forwarded_bytes_max :],
        )
        self._taken.set()
        if self._is_over and not self._body:
            self.end()
            return ForwardedPart("", self._status, self._headers, body)
        self._timer = self._loop.call_later(self._limits.forwarded_s, self.end)
        return ForwardedPart(self._key, self._status, self._headers, body)

    def end(self) -> None:
        """It is read to its end, or nobody reads it."""
        self._timer.cancel()
        self._task.cancel()
        self._others.pop(self._key, None)

    async def _read(self, parts: ResponseParts) -> None:
        try:
            async with aclosing(parts):
                async for part in parts:
                    self._status, self._headers = part.status, part.headers
                    self._body += part.body
                    self._changed.set()
                    while len(self._body) >= self._limits.forwarded_bytes_max:
                        self._taken.clear()
                        await self._taken.wait()
        finally:
            self._is_over = True
            self._changed.set()
