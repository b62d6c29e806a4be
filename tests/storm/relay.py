"""A relay on loopback: one address for the clients, while the servers behind it come and go."""

import asyncio
from asyncio import StreamReader, StreamWriter
from typing import Self

_CHUNK_BYTES = 64 * 1024


class Relay:
    """Forwards to where it points; nobody is let in while that is nowhere."""

    def __init__(self) -> None:
        self._port: int | None = None
        self._clients: set[StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Where clients dial."""
        assert self._server is not None
        return f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def point(self, port: int | None) -> None:
        """Send newcomers there from now on; those who are somewhere else must dial again.

        What they had sent still reaches whom they had sent it to.
        """
        if port != self._port:
            self._port = port
            for client in self._clients:
                client.transport.abort()

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.create_task(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, reader: StreamReader, writer: StreamWriter) -> None:
        server: StreamWriter | None = None
        self._clients.add(writer)
        try:
            if self._port is None:
                return
            answers, server = await asyncio.open_connection("127.0.0.1", self._port)
            pumps = [asyncio.create_task(_pump(reader, server)), asyncio.create_task(_pump(answers, writer))]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass  # nobody there: the client finds its link closed, as it would without us
        finally:
            self._clients.discard(writer)
            writer.transport.abort()
            if server is not None:
                server.close()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _pump(reader: StreamReader, writer: StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
