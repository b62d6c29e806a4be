"""An echo over our WebSocket transport, for test suites that want one: whatever comes in goes out again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from holdfast.testing.transport_checks import LIMITS
from holdfast.transports import websocket
from holdfast.transports.port import Subprotocol, Transport

# Whoever asks for no sub-protocol, in text and in binary.
ANYTHING = Subprotocol("", text=None)
# The largest message of the Autobahn suite, and as many pieces as it cuts one into.
ECHO_LIMITS = replace(LIMITS, payload_bytes_max=16 * 2**20, fragments_max=2**16)


class Echo:
    """A receiver that says everything back."""

    transport: Transport

    def opened(self, transport: Transport) -> None:
        self.transport = transport

    def received(self, payload: bytes) -> None:
        self.transport.send(payload)

    def received_datagram(self, payload: bytes) -> None:
        self.transport.send_datagram(payload)

    def kept_busy(self) -> None:
        pass

    def congested(self) -> None:
        self.transport.pause_reading()

    def drained(self) -> None:
        self.transport.resume_reading()

    def lost(self, code: int, reason: str) -> None:
        pass


@asynccontextmanager
async def echo_server() -> AsyncIterator[str]:
    """Its URL."""
    listener = await websocket.listen(
        Echo, host="127.0.0.1", port=0, subprotocols=[ANYTHING], limits=ECHO_LIMITS, compression=True
    )
    try:
        yield f"ws://127.0.0.1:{listener.addresses[0][1]}"
    finally:
        await listener.close()
