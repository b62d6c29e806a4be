"""The session is on another node than the connection, and that node has an address of its own: try to connect there.

The connection that relays stays until the other one is open, so an address that cannot be reached costs nothing. Only
an address that came over the session's own connection is tried, never without encryption where that connection has it,
and each at most once in `AGAIN_S`: whoever sends clients round and round is not followed.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from holdfast.client.protocol import ClientProtocol
from holdfast.client.ways import Dial
from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.limits import Limits
from holdfast.core.protobuf import typed
from holdfast.logs import get_logger
from holdfast.schemas.session import NodeAddress
from holdfast.transports.port import DialError, Receiver, Subprotocol, Transport, TransportLimits

log = get_logger("holdfast.client")

DIAL_S = 3.0
"""For opening the connection. Meanwhile the other one is used."""
AGAIN_S = 60.0
_ADDRESSES_MAX = 16
_ENCRYPTED = ("wss://", "tcps://")

C = TypeVar("C", bound=Receiver)


class Nearer(Generic[C]):
    """One attempt at a time."""

    def __init__(self, dial: Dial | None, make: Callable[[], C], came: Callable[[C], None]) -> None:
        """`came` is called with a connection that is open."""
        self._dial = dial
        self._make = make
        self._came = came
        self._tried_at: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    def told(self, body: Any, protocol: ClientProtocol, transport: Transport, limits: Limits) -> None:
        """The server has named the address of the session's node, over this connection."""
        try:
            address: str = typed(body, NodeAddress).address
        except DECODE_ERRORS:
            return
        now = asyncio.get_running_loop().time()
        self._tried_at = {url: at for url, at in self._tried_at.items() if now - at < AGAIN_S}
        is_busy = self._task is not None and not self._task.done()
        if self._dial is None or is_busy or address in self._tried_at or len(self._tried_at) >= _ADDRESSES_MAX:
            return
        if transport.is_encrypted and not address.startswith(_ENCRYPTED):
            log.warning("the server names an address without encryption; it is not used", url=address)
            return
        self._tried_at[address] = now
        codec = protocol.codec
        opening = self._open(self._dial, address, Subprotocol(codec.name, codec.text), TransportLimits.of(limits))
        self._task = asyncio.create_task(opening, name=f"holdfast connection to {address}")

    async def _open(self, dial: Dial, address: str, subprotocol: Subprotocol, limits: TransportLimits) -> None:
        connection = self._make()
        try:
            async with asyncio.timeout(DIAL_S):
                await dial(connection, address, subprotocol, limits)
        except (DialError, TimeoutError) as error:
            log.info("the session's own node cannot be reached; another one relays", url=address, error=str(error))
        else:
            log.info("connected to the session's own node", url=address)
            self._came(connection)

    def stop(self) -> None:
        """Try no more."""
        self._dial = None
        if self._task is not None:
            self._task.cancel()
