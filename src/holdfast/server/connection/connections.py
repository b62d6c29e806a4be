"""All connections of a server."""

import asyncio
from collections.abc import Callable, Iterator

from holdfast.core.connection import ConnectionId
from holdfast.core.reasons import Reason
from holdfast.server.connection.connection import LiveConnection


class Connections:
    """The open connections. The listeners are filled where the server is composed, and called in order."""

    def __init__(self, incarnation: str) -> None:
        self._incarnation = incarnation
        self._opened_count = 0
        self._open: dict[ConnectionId, LiveConnection] = {}
        # Includes closing connections, until their transport has ended.
        self._links: set[LiveConnection] = set()
        self._all_unlinked: asyncio.Future[None] | None = None
        self.on_link: list[Callable[[LiveConnection], None]] = []
        """A transport has opened."""
        self.admit: Callable[[LiveConnection], bool] = lambda _: True
        """Whether a new connection may stay; if not, it has been closed."""
        self.on_admit: list[Callable[[LiveConnection], None]] = []
        self.on_lost: list[Callable[[LiveConnection], None]] = []
        """A connection is gone, or closing and no longer read."""
        self.on_unlink: list[Callable[[LiveConnection], None]] = []
        """A transport has ended: nothing of its connection is left."""

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[LiveConnection]:
        """A copy: connections may close during the iteration."""
        return iter(list(self._open.values()))

    def get(self, connection_id: str) -> LiveConnection | None:
        return self._open.get(ConnectionId(connection_id))

    def next_id(self) -> ConnectionId:
        """A new id; ids are unique across restarts."""
        self._opened_count += 1
        return ConnectionId(f"{self._incarnation}-{self._opened_count}")

    # Called by the connections

    def opened(self, connection: LiveConnection) -> None:
        self._links.add(connection)
        for heard in self.on_link:
            heard(connection)
        if not self.admit(connection):
            return
        self._open[connection.id] = connection
        for heard in self.on_admit:
            heard(connection)

    def lost(self, connection: LiveConnection) -> None:
        self._open.pop(connection.id, None)
        for heard in self.on_lost:
            heard(connection)

    def unlinked(self, connection: LiveConnection) -> None:
        self._links.discard(connection)
        for heard in self.on_unlink:
            heard(connection)
        if self._all_unlinked is not None and not self._links:
            self._all_unlinked.set_result(None)

    # Stopping

    def close_all(self, reason: Reason, message: str, *, retry_after_s: float) -> None:
        for connection in self:
            connection.close(reason, message, retry_after_s=retry_after_s)

    async def wait_until_unlinked(self) -> None:
        """Wait until every transport has ended."""
        if self._links:
            self._all_unlinked = asyncio.get_running_loop().create_future()
            await self._all_unlinked
