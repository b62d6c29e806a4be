"""In a cluster, any node answers for all: a request about a room or a session goes to the node that has it.

The node that was asked decides who may do what; the other one carries it out, and its response is passed on part by
part. Of a room that has ended only the node knows on which it was, so all are asked.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from litestar import Response
from litestar.types import Receive, Scope, Send

from holdfast.core.errors import NotFound, Refused, Throttled
from holdfast.http.errors import MISSING
from holdfast.http.requests import CALLER, FORWARDED, ApiRequest, caller_of
from holdfast.http.responses import EVENT_STREAM
from holdfast.schemas.cluster import ForwardedPart, ForwardedRequest
from holdfast.server.operate.elsewhere import RequestForwarder, ResponseParts

Routes = Callable[[Any, Any, Any], Awaitable[None]]

_ERROR_MIN = 400
# It is put together from those of all nodes.
_TIMELINE = "/timeline"
# What routes read, besides the body and its type.
_HEADERS = frozenset({b"content-type", b"if-match", b"idempotency-key", b"last-event-id"})
# What the server adds to each response by itself.
_ADDED = frozenset({b"cache-control", b"x-content-type-options", b"date"})
_MESSAGES_MAX = 8


class Forwarding:
    """The requests of one API that other nodes answer, and those of other nodes that it answers."""

    def __init__(self, elsewhere: RequestForwarder, routes: Routes, scope: Callable[[bytes], dict[str, Any]]) -> None:
        """`scope` makes the ASGI scope of a request for this path, as far as it is the same for all."""
        self._elsewhere = elsewhere
        self._routes = routes
        self._scope = scope
        elsewhere.answer_with(self._answer)

    async def response(self, request: ApiRequest) -> Response[Any] | None:
        """The response of another node; None if this one should answer."""
        wanted, elsewhere = request.path_params, self._elsewhere
        if request.scope["path_template"].endswith(_TIMELINE):
            return None
        if "room_id" in wanted:
            life = await elsewhere.room(wanted["room_id"])
        elif "session_id" in wanted:
            life = await elsewhere.session(wanted["session_id"])
        else:
            return None
        if life == elsewhere.own_life:
            return None
        forwarded = await _forwarded(request)
        if life is not None:
            return _Relayed(elsewhere.ask(life, forwarded))
        return await self._of_any(request, forwarded) if request.method == "GET" else None

    async def _of_any(self, request: ApiRequest, forwarded: ForwardedRequest) -> Response[Any] | None:
        """The response of a node that knows it; those that do not answer are kept for an error that names them."""

        async def ask(life: str) -> "_Relayed | None":
            parts = self._elsewhere.ask(life, forwarded)
            first = await _first(parts)
            if first.status < _ERROR_MIN:
                return _Relayed(parts, first)
            await parts.aclose()
            return None

        lives = self._elsewhere.others
        answers = await asyncio.gather(*map(ask, lives), return_exceptions=True)
        missing = []
        for life, answer in zip(lives, answers, strict=True):
            if isinstance(answer, Throttled):
                missing.append(self._elsewhere.name_of(life))
            elif isinstance(answer, BaseException):
                raise answer
        request.scope[MISSING] = missing  # type: ignore[literal-required]  # a key of ours
        return next((answer for answer in answers if isinstance(answer, _Relayed)), None)

    # For other nodes

    async def _answer(self, forwarded: ForwardedRequest) -> ResponseParts:
        messages: asyncio.Queue[Any] = asyncio.Queue(_MESSAGES_MAX)

        async def run() -> None:
            await self._run(forwarded, messages.put)
            await messages.put(None)

        running = asyncio.create_task(run())
        status, headers = 0, list[tuple[bytes, bytes]]()
        try:
            while (message := await messages.get()) is not None:
                if message["type"] == "http.response.start":
                    status = message["status"]
                    headers = [(bytes(name), bytes(value)) for name, value in message["headers"]]
                else:
                    yield ForwardedPart(status=status, headers=headers, body=bytes(message.get("body", b"")))
        finally:
            running.cancel()

    async def _run(self, forwarded: ForwardedRequest, send: Callable[[Any], Awaitable[None]]) -> None:
        body = [forwarded.body]
        never = asyncio.Event()

        async def receive() -> Any:
            if not body:
                await never.wait()  # the task of this request is cancelled when nobody reads it
            return {"type": "http.request", "body": body.pop(), "more_body": False}

        headers = [(b"host", b"localhost"), *forwarded.headers]
        if forwarded.body:
            headers.append((b"content-length", str(len(forwarded.body)).encode()))
        scope = self._scope(forwarded.path) | {
            "method": forwarded.method,
            "query_string": forwarded.query,
            "headers": headers,
            FORWARDED: True,
            CALLER: forwarded.caller,
        }
        await self._routes(scope, receive, send)


async def _forwarded(request: ApiRequest) -> ForwardedRequest:
    scope = request.scope
    return ForwardedRequest(
        method=request.method,
        path=scope["raw_path"],
        query=scope["query_string"],
        headers=[(name, value) for name, value in scope["headers"] if name in _HEADERS],
        body=await request.body() if request.route_handler.parsed_data_field is not None else b"",
        caller=caller_of(request),
    )


async def _first(parts: ResponseParts) -> ForwardedPart:
    """The first part with a status."""
    async for part in parts:
        if part.status:
            return part
    raise NotFound("the other node gave no response")


class _Relayed(Response[bytes]):
    """The response of another node."""

    def __init__(self, parts: ResponseParts, first: ForwardedPart | None = None) -> None:
        super().__init__(b"")
        self._parts = parts
        self._first = first

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        return self._send

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._parts) as parts:
            first = self._first or await _first(parts)
            headers = [(name, value) for name, value in first.headers if name.lower() not in _ADDED]
            await send({"type": "http.response.start", "status": first.status, "headers": headers})
            await send({"type": "http.response.body", "body": first.body, "more_body": True})
            try:
                if first.key:
                    async for part in _until_gone(parts, receive):
                        await send({"type": "http.response.body", "body": part.body, "more_body": True})
            except Refused:
                # The node is gone. Readers of streams come back; what else is not whole is cut.
                if EVENT_STREAM.encode() not in dict(headers).get(b"content-type", b""):
                    raise
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(parts: ResponseParts, receive: Receive) -> AsyncIterator[ForwardedPart]:
    """The parts, as long as the client reads them."""

    async def leave() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    leaving = asyncio.create_task(leave())
    coming: asyncio.Task[ForwardedPart] | None = None
    try:
        while True:
            coming = asyncio.ensure_future(anext(parts))
            await asyncio.wait({leaving, coming}, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                return
            try:
                yield coming.result()
            except StopAsyncIteration:
                return
    finally:
        for task in (leaving, coming):
            if task is not None:
                task.cancel()
        await asyncio.wait({leaving} if coming is None else {leaving, coming})
