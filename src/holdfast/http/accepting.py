"""Accepts connections for the API: each is counted before it costs a TLS handshake, unlike with the loop's servers."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from ssl import SSLContext
from typing import Any, Protocol, cast

from holdfast.http.crowd import Crowd, Member
from holdfast.logs import get_logger

_log = get_logger("holdfast.http")
# Out of descriptors or memory: a pause, as asyncio makes it.
_EXHAUSTED_S = 1.0


class Served(Member, Protocol):
    """What serves a connection: an asyncio protocol that knows who is connected, and how to give up before it is."""

    host: str
    opening: asyncio.Task[None] | None


class Accepting:
    """Accepts from a listening socket until it is closed."""

    def __init__(
        self,
        listening: socket.socket,
        crowd: Crowd,
        make: Callable[[], Served],
        *,
        ssl: SSLContext | None,
        handshake_s: float,
    ) -> None:
        self._listening = listening
        self._crowd = crowd
        self._make = make
        self._options: dict[str, Any] = {} if ssl is None else {"ssl": ssl, "ssl_handshake_timeout": handshake_s}
        # What makes transports of them, and of which socket, until it has begun.
        self._opening: dict[asyncio.Task[None], socket.socket | None] = {}
        self._task = asyncio.create_task(self._accept(), name="accepting HTTP")

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(self._listening)
            except ConnectionError:
                continue  # who was to be accepted is gone again
            except OSError as error:
                _log.warning("no connection can be accepted for a moment", error=error)
                await asyncio.sleep(_EXHAUSTED_S)
                continue
            connection = self._make()
            connection.host = str(address[0])
            if not self._crowd.admit(connection, connection.host):
                sock.close()
                continue
            sock.setblocking(False)
            task = connection.opening = asyncio.create_task(self._open(connection))
            self._opening[task] = sock
            task.add_done_callback(self._opened)

    async def _open(self, connection: Served) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        sock, self._opening[task] = self._opening[task], None
        assert sock is not None
        protocol = cast("asyncio.Protocol", connection)
        try:
            # Whatever fails here is the peer's affair, as with the loop's own servers.
            with suppress(OSError):
                await loop.connect_accepted_socket(lambda: protocol, sock, **self._options)
                connection.opening = None
        finally:
            if connection.opening is not None:
                self._crowd.went(connection, connection.host)

    def _opened(self, task: asyncio.Task[None]) -> None:
        sock = self._opening.pop(task)
        if sock is not None:
            # Cut before it began. Once it has, the loop closes the socket, whatever happens.
            sock.close()

    async def close(self) -> None:
        """Accept nobody any more, not even who is in the middle of a handshake."""
        self._task.cancel()
        for task in self._opening:
            task.cancel()
        await asyncio.wait({self._task, *self._opening})
        self._listening.close()
