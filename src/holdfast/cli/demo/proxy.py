"""A bad network on loopback: a TCP proxy that forwards bytes and cuts connections when told to.

It knows nothing of Holdfast, so it breaks connections as networks do: between two messages, in the middle of one, or by
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
# SO_LINGER with a time of 0 closes the socket with a reset.
_RESET = struct.pack("ii", 1, 0)


class Cut(Enum):
    """How a connection is cut."""

    RESET = "reset"
    """At once; bytes under way are lost."""
    TORN = "torn"
    """In the middle of the next bytes: their first part still arrives."""
    SILENT = "silent"
    """Half-open: nothing gets through, and neither end notices until later."""


class Relay:
    """One proxied connection: a socket to the client and one to the server."""

    def __init__(self, proxy: "Proxy") -> None:
        self.was_cut = False
        self.ended = asyncio.Event()
        self.server: tuple[str, int] | None = None
        """Where it is connected; None before."""
        self._proxy = proxy
        self._cut: Cut | None = None
        self._writers: list[StreamWriter] = []

    async def forward(self, client: tuple[StreamReader, StreamWriter], host: str, port: int) -> None:
        """Connect to the server and forward bytes both ways until one end closes or the connection is cut."""
        self._take(client[1])
        try:
            server = await asyncio.open_connection(host, port)
            self._take(server[1])
            self.server = host, port
            pumps = [self._pump(client[0], server[1]), self._pump(server[0], client[1])]
            tasks = [asyncio.create_task(pump) for pump in pumps]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        except OSError:
            pass  # the server is down: the client's connection is closed, as without a proxy
        finally:
            for writer in self._writers:
                writer.close()
            self.ended.set()

    def _take(self, writer: StreamWriter) -> None:
        # No buffer: after `drain` the bytes are in the kernel, so a torn part arrives before the cut.
        writer.transport.set_write_buffer_limits(high=0)
        self._writers.append(writer)

    async def _pump(self, reader: StreamReader, writer: StreamWriter) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            if self._proxy.delay_s:
                await asyncio.sleep(self._proxy.delay_s)
            if self._cut is Cut.SILENT:
                continue
            if self._cut is Cut.TORN:
                writer.write(chunk[: self._proxy.random.randrange(len(chunk))])
                await writer.drain()
                self.was_cut = True
                return
            writer.write(chunk)
            await writer.drain()

    def cut(self, how: Cut) -> None:
        """Start to cut; `ended` is set when it is done."""
        self._cut = how
        if how is Cut.RESET:
            self.reset()
        elif how is Cut.SILENT:
            asyncio.get_running_loop().call_later(self._proxy.silent_s, self.reset)

    def reset(self) -> None:
        for writer in self._writers:
            if not writer.is_closing():
                self.was_cut = True
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()


class Proxy:
    """A proxy to one server for one client: `async with Proxy(host, port) as proxy:`, then dial its address."""

    def __init__(self, host: str, port: int, *, random: Random, delay_s: float = 0.0, silent_s: float = 0.3) -> None:
        """Bytes are delayed by `delay_s` each way; a connection that is cut silently is reset after `silent_s`."""
        self.cuts = 0
        """How many connections were cut."""
        self.target = (host, port)
        """The server's address, for new connections."""
        self.random = random
        self.delay_s = delay_s
        self.silent_s = silent_s
        self._is_plugged = True
        self._refusals = 0
        self._refused = asyncio.Event()
        self._newest: Relay | None = None
        self._relays: set[Relay] = set()
        self._connected = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> tuple[str, int]:
        assert self._server is not None, "start the proxy first"
        host, port = self._server.sockets[0].getsockname()
        return host, port

    @property
    def connected_to(self) -> tuple[str, int] | None:
        """The server's address of the client's connection; None if it has none."""
        return self._newest.server if self._newest is not None else None

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        """Stop listening and close every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cut(self, how: Cut = Cut.RESET) -> None:
        """Cut the client's connection, or its next one if it has none now; returns when that is done."""
        while True:
            await self._connected.wait()
            relay = self._newest
            assert relay is not None
            relay.cut(how)
            await relay.ended.wait()
            if relay.was_cut:
                return

    def pull(self) -> None:
        """Cut all connections, and reject new ones until `plug`."""
        self._is_plugged = False
        for relay in list(self._relays):
            relay.reset()

    def plug(self) -> None:
        self._is_plugged = True

    async def has_refused(self, times: int) -> None:
        """Wait until this many connections were rejected in all."""
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
        relay = self._newest = Relay(self)
        self._relays.add(relay)
        self._connected.set()
        try:
            await relay.forward((reader, writer), *self.target)
        finally:
            self.cuts += relay.was_cut
            self._relays.discard(relay)
            if self._newest is relay:
                self._newest = None
                self._connected.clear()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
