"""A proxy on real sockets for links that are slow, or break after so many bytes."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Self

# What passes at a time, and what the systems may hold on the way: little, or the slow part of the link would be short.
_CHUNK_BYTES = 256
_BUFFER_BYTES = 4096


class Throttle:
    """Passes bytes on to a server, each way at the same rate; a link ends when its bytes do."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()
        self.links = 0
        """How many there were."""
        self.is_open = True
        """Whether anybody gets through; changing it breaks nothing."""
        self.bytes_per_s = inf
        self.lasts_bytes: Callable[[], float] = lambda: inf
        """What one direction of the next link carries before the link breaks."""

    @property
    def address(self) -> tuple[str, int]:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def __aenter__(self) -> Self:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self._server = await asyncio.start_server(self._accept, sock=listening, limit=_CHUNK_BYTES)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._links, return_exceptions=True)

    def cut(self) -> None:
        """Break every link."""
        for link in self._links:
            link.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        self.links += 1
        ends = [writer]
        with suppress(asyncio.CancelledError, OSError):
            if self.is_open:
                sock = socket.socket()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
                sock.setblocking(False)
                await asyncio.get_running_loop().sock_connect(sock, self._upstream)
                server_reader, server_writer = await asyncio.open_connection(sock=sock, limit=_CHUNK_BYTES)
                ends.append(server_writer)
                ways = [self._pass(reader, server_writer), self._pass(server_reader, writer)]
                passing = [asyncio.ensure_future(way) for way in ways]
                try:
                    await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in passing:
                        way.cancel()
        for end in ends:
            end.transport.abort()
        self._links.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction, until it ends or its bytes do."""
        now = asyncio.get_running_loop().time
        left, free_at = self.lasts_bytes(), now()
        while left >= 1 and (data := await reader.read(_CHUNK_BYTES)):
            data = data[: int(min(left, _CHUNK_BYTES))]
            left -= len(data)
            free_at = max(free_at, now()) + len(data) / self.bytes_per_s
            await asyncio.sleep(free_at - now())
            writer.write(data)
            await writer.drain()
