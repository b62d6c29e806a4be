"""One dialled connection of a client, from its first byte to its end."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from ssl import SSLContext

from holdfast.client.events import Closed
from holdfast.core.errors import Invalid
from holdfast.core.silence import Look
from holdfast.transports import tcp, websocket
from holdfast.transports.port import DialError, Receiver, Subprotocol, Transport, TransportLimits

Dial = Callable[[Receiver, str, Subprotocol, TransportLimits], Awaitable[Transport]]
"""Opens a connection to an address for the receiver."""


async def dial(
    receiver: Receiver, url: str, subprotocol: Subprotocol, limits: TransportLimits, *, ssl: SSLContext | None = None
) -> Transport:
    """Open a connection by the address's scheme."""
    match url.partition("://")[0]:
        case "ws" | "wss":
            return await websocket.dial(receiver, url, subprotocols=[subprotocol], limits=limits, ssl=ssl)
        case "tcp" | "tcps":
            return await tcp.dial(receiver, url, subprotocols=[subprotocol], limits=limits, ssl=ssl)
        case _:
            raise DialError(
                f"{url!r} is not a URL of a server: use ws://, wss://, tcp:// or tcps://host:port", retry=False
            )


def make_dialer(url: str, own: Dial | None, ssl: SSLContext | None) -> Dial:
    """The `Dial` for this address; `Invalid` if an option would have no effect."""
    if own is not None:
        if ssl is not None:
            raise Invalid("`ssl` has no effect with a `dial` of your own: give it to that")
        return own
    if ssl is not None and not url.startswith(("wss://", "tcps://")):
        raise Invalid("`ssl` is for wss:// and tcps://: at this address nothing would be encrypted")
    return partial(dial, ssl=ssl)


class ClientConnection:
    """The receiver of one connection: hands payloads on, and knows how it ended."""

    def __init__(self, received: Callable[["ClientConnection", bytes], None], drained: Callable[[], None]) -> None:
        self._received = received
        self._drained = drained
        self._transport: Transport | None = None
        self.heard_at = 0.0
        self._looked: Look | None = None
        self.welcome_at: float | None = None
        """When the session was attached to it."""
        self.closed: Closed | None = None
        """What the server said about its end."""
        self.is_congested = False
        self.end: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        """Its code and reason, once it is there."""

    def opened(self, transport: Transport) -> None:
        """The connection is up."""
        self._transport = transport
        self.heard_at = asyncio.get_running_loop().time()

    def received(self, payload: bytes) -> None:
        """One payload from the server."""
        self.heard_at = asyncio.get_running_loop().time()
        self._received(self, payload)

    def look(self, bytes_per_s: float) -> None:
        """No payload came for a while: the server counts as heard if the connection still carries something."""
        if self._transport is not None:
            now = asyncio.get_running_loop().time()
            looked, self._looked = self._looked, Look(now, self._transport.traffic)
            if self._looked.is_alive(looked, self.heard_at, bytes_per_s):
                self.heard_at = now

    def kept_busy(self) -> None:
        """A server may do that."""

    def congested(self) -> None:
        """The server reads slower than we write; reliable messages are bounded by the window, others must wait."""
        self.is_congested = True

    def drained(self) -> None:
        """The server has caught up."""
        self.is_congested = False
        self._drained()

    def lost(self, code: int, reason: str) -> None:
        """The connection is gone."""
        self._transport = None
        if not self.end.done():
            self.end.set_result((code, reason))

    @property
    def is_up(self) -> bool:
        """Whether it can be written to."""
        return self._transport is not None

    def send(self, payload: bytes) -> None:
        """Write a payload, if it is up."""
        # asyncio would complain about many that are written to a socket that has failed.
        if self._transport is not None and self._transport.is_up:
            self._transport.send(payload)

    def close(self, code: int, reason: str) -> None:
        """End in order."""
        if self._transport is not None:
            self._transport.close(code, reason)

    def abort(self) -> None:
        """End at once."""
        if self._transport is not None:
            self._transport.abort()
