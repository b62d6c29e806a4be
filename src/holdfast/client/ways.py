"""Several ways to one server: the first that answers is taken, as where a network blocks UDP."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from holdfast.logs import get_logger
from holdfast.transports.port import DialError, Receiver, Subprotocol, Transport, TransportLimits

log = get_logger("holdfast.client")

# A blocked way costs a whole handshake each time: it is tried after the others for so long.
BLOCKED_S = 60.0
# A server that answers and does not take the session may be a node of a cluster that is cut off from the others.
TURNED_AWAY_S = 5.0


Dial = Callable[[Receiver, str, Subprotocol, TransportLimits], Awaitable[Transport]]
"""Opens a connection to an address for the receiver."""


class Ways:
    """A `Dial` for addresses in order of preference."""

    def __init__(self, urls: Sequence[str], dial: Dial) -> None:
        self._urls = urls
        self._dial = dial
        # Until when an address is tried after the others.
        self._avoided_until: dict[str, float] = {}
        self._last = ""

    def turned_away(self) -> None:
        """The address that answered last did not take the session."""
        self._avoided_until[self._last] = asyncio.get_running_loop().time() + TURNED_AWAY_S

    async def __call__(
        self, receiver: Receiver, _: str, subprotocol: Subprotocol, limits: TransportLimits
    ) -> Transport:
        """Try one after the other."""
        now = asyncio.get_running_loop().time
        errors: list[DialError] = []
        # Sorting keeps the order of those that are equal.
        for url in sorted(self._urls, key=lambda url: now() < self._avoided_until.get(url, 0.0)):
            try:
                transport = await self._dial(receiver, url, subprotocol, limits)
            except DialError as error:
                self._avoided_until[url] = now() + BLOCKED_S
                errors.append(error)
            else:
                self._avoided_until.pop(url, None)
                self._last = url
                log.info("connected", url=url, transport=transport.kind, failed=[str(error) for error in errors])
                return transport
        raise DialError("; ".join(map(str, errors)), retry=any(error.retry for error in errors))
