"""A bad network on loopback: a TCP proxy that forwards bytes until it is told to cut.

It knows nothing of Holdfast, so it breaks links where networks do: between two messages, in the middle of one, or by
going silent. The end-to-end tests use it too.
"""

import asyncio
import socket
import struct
from asyncio import StreamReader, StreamWriter
from enum import Enum
from random import Random
from typing import Self

_CHUNK_BYTES = 64 * 1024
# SO_LINGER with a time of zero: the socket is closed with a reset instead of an orderly end.
_RESET = struct.pack("ii", 1, 0)


class Cut(Enum):
    """How a link is cut."""

    RESET = "reset"
    """At once, with whatever is on the way."""
    TORN = "torn"
    """In the middle of the next bytes: the first part of them still arrives."""
    SILENT = "silent"
    """Half-open: nothing gets through any more, and neither end is told until later."""


class Link:
    """One client's way through the proxy: two sockets and what goes between them."""

    def __init__(self, random: Random, delay_s: float) -> None:
        self.was_cut = False
        self.delay_s = delay_s
        self.ended = asyncio.Event()
        self._random = random
        self._manner: Cut | None = None
        self._writers: list[StreamWriter] = []

    async def forward(self, client: tuple[StreamReader, StreamWriter], host: str, port: int) -> None:
        """Connect to the server and carry bytes both ways until one end closes or the link is cut."""
        self._take(client[1])
        try:
            server = await asyncio.open_connection(host, port)
            self._take(server[1])
            pumps = [self._pump(client[0], server[1]), self._pump(server[0], client[1])]
            tasks = [asyncio.create_task(pump) for pump in pumps]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        except OSError:
            pass  # nobody at the other end: the client finds its link closed, as it would without us
        finally:
            for writer in self._writers:
                writer.close()
            self.ended.set()

    def _take(self, writer: StreamWriter) -> None:
        # No buffer: what `drain` has let through is in the kernel's hands, so a torn part arrives before the cut.
        writer.transport.set_write_buffer_limits(high=0)
        self._writers.append(writer)

    async def _pump(self, reader: StreamReader, writer: StreamWriter) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            if self._manner is Cut.SILENT:
                continue
            if self._manner is Cut.TORN:
                writer.write(chunk[: self._random.randrange(len(chunk))])
                await writer.drain()
                self.was_cut = True
                return
            writer.write(chunk)
            await writer.drain()

    def cut(self, manner: Cut, *, silent_s: float) -> None:
        """Begin to cut; `ended` says when it is done."""
        self._manner = manner
        if manner is Cut.RESET:
            self.reset()
        elif manner is Cut.SILENT:
            asyncio.get_running_loop().call_later(silent_s, self.reset)

    def reset(self) -> None:
        """End at once; both ends are told by a reset."""
        for writer in self._writers:
            if not writer.is_closing():
                self.was_cut = True
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()


class Proxy:
    """A door to one server that is for one client: `async with Proxy(host, port) as proxy:`, then dial its address."""

    def __init__(self, host: str, port: int, *, random: Random, delay_s: float = 0.0, silent_s: float = 0.3) -> None:
        """Bytes are underway for `delay_s`; a link that is cut silently is reset after `silent_s`."""
        self.cuts = 0
        """How many links were cut."""
        self.target = (host, port)
        """Where the server is: a link that is opened from now on goes there."""
        self._random = random
        self._delay_s = delay_s
        self._silent_s = silent_s
        self._is_plugged = True
        self._refusals = 0
        self._refused = asyncio.Event()
        self._newest: Link | None = None
        self._links: set[Link] = set()
        self._linked = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where to dial."""
        assert self._server is not None, "start the proxy first"
        host, port = self._server.sockets[0].getsockname()
        return host, port

    async def start(self) -> None:
        """Open the door, at a port that the system chooses."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        """Close the door and every link."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def delay_s(self) -> float:
        """How long bytes are underway, each way."""
        return self._delay_s

    @delay_s.setter
    def delay_s(self, delay_s: float) -> None:
        self._delay_s = delay_s
        if self._newest is not None:
            self._newest.delay_s = delay_s

    async def cut(self, manner: Cut = Cut.RESET) -> None:
        """Cut the client's link, or its next one if it has none now; returns when that is done."""
        while True:
            await self._linked.wait()
            link = self._newest
            assert link is not None
            link.cut(manner, silent_s=self._silent_s)
            await link.ended.wait()
            if link.was_cut:
                return

    def pull(self) -> None:
        """Cut, and let nobody through until `plug`."""
        self._is_plugged = False
        for link in list(self._links):
            link.reset()

    def plug(self) -> None:
        """Let the client through again."""
        self._is_plugged = True

    async def has_refused(self, times: int) -> None:
        """Wait until the client was sent away so many times, since the proxy was made."""
        while self._refusals < times:
            self._refused.clear()
            await self._refused.wait()

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        if not self._is_plugged:
            writer.transport.abort()
            self._refusals += 1
            self._refused.set()
            return
        task = asyncio.create_task(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, reader: StreamReader, writer: StreamWriter) -> None:
        link = self._newest = Link(self._random, self._delay_s)
        self._links.add(link)
        self._linked.set()
        try:
            await link.forward((reader, writer), *self.target)
        finally:
            self.cuts += link.was_cut
            self._links.discard(link)
            if self._newest is link:
                self._newest = None
                self._linked.clear()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
