"""Somebody who reads events, line by line, as a browser would; and somebody on a bare socket."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from holdfast.http.serving import HttpServer
from tests.deadlines import DEADLINE_S


class EventReader:
    """The events of one stream, in turn."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def line(self) -> str | None:
        """The next line; None at the end."""
        async with asyncio.timeout(DEADLINE_S):
            return await anext(self._lines, None)

    async def event(self) -> tuple[str, dict[str, Any]] | None:
        """The next event, its id and its data; None at the end."""
        event_id = ""
        while (line := await self.line()) is not None:
            if line.startswith("id: "):
                event_id = line.removeprefix("id: ")
            if line.startswith("data: "):
                return event_id, json.loads(line.removeprefix("data: "))
        return None

    async def greeting(self) -> None:
        """Wait until the stream runs: what happens from now on is read."""
        assert await self.line() == "retry: 1000"


@asynccontextmanager
async def reading(client: httpx.AsyncClient, path: str = "/v1/events", **headers: str) -> AsyncIterator[EventReader]:
    """A stream that has begun."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.stream("GET", path, headers=names) as response:
        assert response.status_code == 200, await response.aread()
        reader = EventReader(response)
        await reader.greeting()
        yield reader


class RawClient:
    """A connection that says exactly what it is told to say."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def dial(cls, server: HttpServer, *, buffer_bytes: int | None = None) -> "RawClient":
        """With a small buffer it stops reading early."""
        sock = socket.socket()
        sock.setblocking(False)
        if buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        await asyncio.get_running_loop().sock_connect(sock, server.address)
        return cls(*await asyncio.open_connection(sock=sock, limit=buffer_bytes or 2**16))

    def say(self, text: str) -> None:
        self._writer.write(text.encode())

    async def hear(self, text: str) -> None:
        """Wait for these words."""
        async with asyncio.timeout(DEADLINE_S):
            await self._reader.readuntil(text.encode())

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        heard = b""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while chunk := await self._reader.read(2**16):
                    heard += chunk
        except ConnectionError:
            pass
        return heard

    def close(self) -> None:
        """Be gone at once."""
        self._writer.transport.abort()
        self._writer.close()
