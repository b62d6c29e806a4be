"""What the tests of this folder play with: an API on a real socket, and clients of it."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx

from holdfast.http.api import ApiKey, HttpLimits, Scope
from holdfast.http.app import App
from holdfast.http.serving import HttpServer
from holdfast.http.static import Site
from tests.http.backend import FakeBackend
from tests.http.reader import RawClient

SECRETS = {scope: f"{scope.value}-key-0123456789" for scope in Scope}
SITE = Path(__file__).with_name("site")
"""What a build of the dashboard looks like."""
KEYS = [ApiKey(secret, [scope], name=f"key of {scope.value}") for scope, secret in SECRETS.items()]


class World:
    """A backend, and servers and clients that the test's end closes."""

    def __init__(self, stack: AsyncExitStack, backend: FakeBackend) -> None:
        self._stack = stack
        self.backend = backend
        self.site = SITE

    async def serve(self, keys: Sequence[ApiKey] = (), **limits: Any) -> HttpServer:
        server = HttpServer(App(self.backend.operations, keys, HttpLimits(**limits), Site(self.site)), port=0)
        await server.start()
        self._stack.push_async_callback(server.stop)
        return server

    async def dial(self, server: HttpServer, *, buffer_bytes: int | None = None) -> RawClient:
        """A bare connection; with a small buffer it stops reading early."""
        client = await RawClient.dial(server, buffer_bytes=buffer_bytes)
        self._stack.callback(client.close)
        return client

    async def client(self, server: HttpServer | None = None, key: str = "") -> httpx.AsyncClient:
        """A client of this server, or of a new one that has no keys."""
        server = server or await self.serve()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # There is no TLS here, and reading all certificates for nothing takes longer than a test.
        client = httpx.AsyncClient(base_url=url_of(server), headers=headers, trust_env=False, verify=False)  # noqa: S501
        return await self._stack.enter_async_context(client)


def url_of(server: HttpServer) -> str:
    host, port = server.address
    return f"http://{host}:{port}"


def problem_in(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document of an answer that must be one, of this kind."""
    assert (response.status_code, response.json().get("code")) == (status, code), response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem["type"] == f"/docs#problem-{code}"
    return problem
