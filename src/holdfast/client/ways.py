"""Several ways to one server: the first that answers is taken, as where a network blocks UDP."""

import asyncio
from collections.abc import Sequence

from holdfast.client.connector import Dial
from holdfast.logs import get_logger
from holdfast.transports.port import DialError, Receiver, Subprotocol, Transport, TransportLimits

log = get_logger("holdfast.client")

# A blocked way costs a whole handshake each time: it is tried after the others for so long.
BLOCKED_S = 60.0


class Ways:
    """A `Dial` for addresses in order of preference."""

    def __init__(self, urls: Sequence[str], dial: Dial) -> None:
        self._urls = urls
        self._dial = dial
        # When an address last failed, by its place in the list.
        self._failed_at: dict[str, float] = {}

    async def __call__(
        self, receiver: Receiver, _: str, subprotocol: Subprotocol, limits: TransportLimits
    ) -> Transport:
        """Try one after the other."""
        now = asyncio.get_running_loop().time
        errors: list[DialError] = []
        # Sorting keeps the order of those that are equal.
        for url in sorted(self._urls, key=lambda url: now() - self._failed_at.get(url, -BLOCKED_S) < BLOCKED_S):
            try:
                transport = await self._dial(receiver, url, subprotocol, limits)
            except DialError as error:
                self._failed_at[url] = now()
                errors.append(error)
            else:
                self._failed_at.pop(url, None)
                log.info("connected", url=url, transport=transport.kind, failed=[str(error) for error in errors])
                return transport
        raise DialError("; ".join(map(str, errors)), retry=any(error.retry for error in errors))
