"""One dialled connection of a client, from its first byte to its end."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.transports import tcp, websocket
from holdfast.transports.port import Dialect, DialError, Receiver, Transport, TransportLimits

Dial = Callable[[Receiver, str, Dialect, TransportLimits], Awaitable[Transport]]
"""Opens a link to an address and lets the receiver hear it."""


async def dial(receiver: Receiver, url: str, dialect: Dialect, limits: TransportLimits) -> Transport:
    """Open a link by the address's scheme."""
    scheme = url.partition("://")[0]
    if scheme in ("ws", "wss"):
        return await websocket.dial(receiver, url, dialects=[dialect], limits=limits)
    if scheme == "tcp":
        return await tcp.dial(receiver, url, dialects=[dialect], limits=limits)
    raise DialError(f"{url!r} is no address: use ws://host:7777, wss://host:7777 or tcp://host:7779", retry=False)


class Link:
    """The receiver of one connection: hands payloads on, and remembers how it ended."""

    def __init__(self, received: Callable[["Link", bytes], None]) -> None:
        self._received = received
        self._ended: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self.transport: Transport | None = None
        self.heard_at = 0.0

    def opened(self, transport: Transport) -> None:
        """The link is up."""
        self.transport = transport
        self.heard_at = asyncio.get_running_loop().time()

    def received(self, payload: bytes) -> None:
        """One payload from the server."""
        self.heard_at = asyncio.get_running_loop().time()
        self._received(self, payload)

    def congested(self) -> None:
        """Nothing to do: the window bounds what is written."""

    def drained(self) -> None:
        """Nothing to do."""

    def lost(self, code: int, reason: str) -> None:
        """The link is gone."""
        self.transport = None
        if not self._ended.done():
            self._ended.set_result((code, reason))

    def send(self, payload: bytes) -> None:
        """Write a payload, if the link is up."""
        if self.transport is not None:
            self.transport.send(payload)

    def close(self, code: int, reason: str) -> None:
        """End in order."""
        if self.transport is not None:
            self.transport.close(code, reason)

    def abort(self) -> None:
        """End at once."""
        if self.transport is not None:
            self.transport.abort()

    async def ended(self) -> tuple[int, str]:
        """Wait for the end: its code and reason."""
        return await asyncio.shield(self._ended)
