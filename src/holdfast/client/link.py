"""One dialled connection of a client, from its first byte to its end."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from ssl import SSLContext

from holdfast.client.events import Closed
from holdfast.core.errors import Invalid
from holdfast.core.silence import Look
from holdfast.transports import tcp, websocket
from holdfast.transports.compression import Offer
from holdfast.transports.keys import read_public
from holdfast.transports.port import Dialect, DialError, Receiver, Transport, TransportLimits

Dial = Callable[[Receiver, str, Dialect, TransportLimits], Awaitable[Transport]]
"""Opens a link to an address and lets the receiver hear it."""


async def dial(  # noqa: PLR0913 - a `Dial`, and what else can be wished for
    receiver: Receiver,
    url: str,
    dialect: Dialect,
    limits: TransportLimits,
    *,
    server_key: bytes | None = None,
    compression: bool = False,
    ssl: SSLContext | None = None,
) -> Transport:
    """Open a link by the address's scheme; compressed, if the server does that too."""
    if not compression:
        return await _dial(receiver, url, [dialect], limits, server_key=server_key, ssl=ssl)
    offer = Offer([dialect], limits)
    heard = offer.receiver(receiver)
    await _dial(heard, url, offer.dialects, offer.limits, server_key=server_key, ssl=ssl)
    return heard.transport


async def _dial(  # noqa: PLR0913 - as above
    receiver: Receiver,
    url: str,
    dialects: Sequence[Dialect],
    limits: TransportLimits,
    *,
    server_key: bytes | None,
    ssl: SSLContext | None,
) -> Transport:
    match url.partition("://")[0]:
        case "ws" | "wss":
            return await websocket.dial(receiver, url, dialects=dialects, limits=limits, ssl=ssl)
        case "tcp" | "tcps":
            return await tcp.dial(receiver, url, dialects=dialects, limits=limits, server_key=server_key, ssl=ssl)
        case _:
            raise DialError(f"{url!r} is no address: use ws://, wss://, tcp:// or tcps://host:port", retry=False)


def way_to(url: str, own: Dial | None, *, server_key: str, compression: bool, ssl: SSLContext | None) -> Dial:
    """How to dial this address as wished; `Invalid` if that cannot be had, for nothing is left out silently."""
    if own is not None:
        if server_key or compression or ssl is not None:
            raise Invalid("a `dial` of your own opens links as it likes: give it the server's key and the rest")
        return own
    if server_key and not url.startswith(("tcp://", "tcps://")):
        raise Invalid("a `server_key` is for tcp://host:port; wss:// proves who the server is by its certificate")
    try:
        key = read_public(server_key) if server_key else None
    except ValueError as error:
        raise Invalid(f"`server_key`: {error}") from None
    if ssl is not None and not url.startswith(("wss://", "tcps://")):
        raise Invalid("`ssl` is for wss:// and tcps://: at this address nothing would be encrypted")
    return partial(dial, server_key=key, compression=compression, ssl=ssl)


class Link:
    """The receiver of one connection: hands payloads on, and knows how it ended."""

    def __init__(self, received: Callable[["Link", bytes], None], drained: Callable[[], None]) -> None:
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
        """The link is up."""
        self._transport = transport
        self.heard_at = asyncio.get_running_loop().time()

    def received(self, payload: bytes) -> None:
        """One payload from the server."""
        self.heard_at = asyncio.get_running_loop().time()
        self._received(self, payload)

    def look(self, bytes_per_s: float) -> None:
        """No payload came for a while: the server counts as heard if the link still carries something."""
        if self._transport is not None:
            now = asyncio.get_running_loop().time()
            looked, self._looked = self._looked, Look(now, self._transport.traffic)
            if self._looked.is_alive(looked, self.heard_at, bytes_per_s):
                self.heard_at = now

    def kept_busy(self) -> None:
        """A server may do that: it was chosen."""

    def congested(self) -> None:
        """The server reads slower than we write; reliable messages are bounded by the window, others must wait."""
        self.is_congested = True

    def drained(self) -> None:
        """The server has caught up."""
        self.is_congested = False
        self._drained()

    def lost(self, code: int, reason: str) -> None:
        """The link is gone."""
        self._transport = None
        if not self.end.done():
            self.end.set_result((code, reason))

    @property
    def is_up(self) -> bool:
        """Whether there is somebody to speak to."""
        return self._transport is not None

    def send(self, payload: bytes) -> None:
        """Write a payload, if the link is up."""
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
