"""What waits: received from a client and not processed, or ready to be written to one."""

import asyncio
from collections import deque

from holdfast.core.codec import Codec
from holdfast.core.connection import Connection
from holdfast.core.rates import PAYLOAD_OVERHEAD_BYTES
from holdfast.schemas.frames import FromClient
from holdfast.transports.port import Transport


class InputBacklog:
    """What was received from one client and waits to be processed, in order."""

    __slots__ = ("_payloads", "end", "frames", "until", "weight_bytes")

    def __init__(self) -> None:
        self._payloads: deque[bytes] = deque()
        self.weight_bytes = 0
        """The total cost of the payloads."""
        self.frames: list[FromClient] = []
        """Decoded frames left from the previous payload."""
        self.until = 0.0
        """Nothing is processed before this time."""
        self.end: tuple[int, str] | None = None
        """How the link ended meanwhile."""

    def __bool__(self) -> bool:
        return bool(self._payloads or self.frames)

    def add(self, payload: bytes) -> None:
        self._payloads.append(payload)
        self.weight_bytes += len(payload) + PAYLOAD_OVERHEAD_BYTES

    def pop(self) -> bytes | None:
        """The next payload."""
        if not self._payloads:
            return None
        payload = self._payloads.popleft()
        self.weight_bytes -= len(payload) + PAYLOAD_OVERHEAD_BYTES
        return payload

    def take_all(self, codec: Codec) -> list[bytes]:
        """Everything, as payloads; nothing is left."""
        payloads = [*map(codec.payload, self.frames), *self._payloads]
        self.clear()
        return payloads

    def clear(self) -> None:
        """Discard everything."""
        self._payloads.clear()
        self.weight_bytes = 0
        self.frames = []


class Writes:
    """The connections of one node with something to write, or with an acknowledgement due.

    Everything that one iteration of the event loop produced for a client is one write. A connection counts as dirty
    while its own payload is processed, and is added here only afterwards (see `LiveConnection.process`): if the payload
    affected no other client, the answer is written at once, in the same iteration.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, ack_s: float) -> None:
        self._loop = loop
        self._ack_s = ack_s
        self.waiting: list[Connection] = []
        """The connections to write to at the end of this loop iteration."""
        self._owing: list[Connection] = []

    def add(self, connection: Connection) -> None:
        """The connection has something to write."""
        if not self.waiting:
            self._loop.call_soon(self._write_all)
        self.waiting.append(connection)

    def _write_all(self) -> None:
        waiting, self.waiting = self.waiting, []
        for connection in waiting:
            connection.flush()

    def owe_ack(self, connection: Connection) -> None:
        """Acknowledge within `ack_s`, unless something else is written before."""
        if not connection.owes_ack:
            connection.owes_ack = True
            if not self._owing:
                self._loop.call_later(self._ack_s, self._pay_acks)
            self._owing.append(connection)

    def _pay_acks(self) -> None:
        owing, self._owing = self._owing, []
        for connection in owing:
            connection.owes_ack = False
            connection.flush(with_ack=True)


class HeardMeanwhile:
    """Keeps what a client sends while its session moves."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []

    def opened(self, transport: Transport) -> None: ...

    def received(self, payload: bytes) -> None:
        self.payloads.append(payload)

    def received_datagram(self, payload: bytes) -> None: ...

    def kept_busy(self) -> None: ...

    def congested(self) -> None: ...

    def drained(self) -> None: ...

    def lost(self, code: int, reason: str) -> None: ...
