"""Links inside one process: the port's contract without a socket, and with faults on demand.

Everything happens through `call_soon` and `call_later` of the running loop, so a loop with virtual time and without
sockets is enough. Override `MemoryNetwork.fate` to delay or lose payloads; break a `Wire` by hand. As with TCP, bytes
are never lost from the middle of a stream: a lost payload breaks its link.
"""

import asyncio
import errno
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from holdfast.core.connection import Traffic
from holdfast.transports.links import shorten, tell
from holdfast.transports.port import (
    TOO_BIG,
    VANISHED,
    Accept,
    DialError,
    Receiver,
    Subprotocol,
    TransportLimits,
    agree,
)

_End = tuple[int, str]
# What a peer receives after an `abort`.
_RESET: _End = (VANISHED, "")


class MemoryTransport:
    """One end of a wire. Sent payloads that the other end has not taken yet wait here, in order."""

    kind: Final = "memory"
    is_encrypted: Final = False
    is_compressed: Final = False

    def __init__(self, wire: "Wire", peer: str, subprotocol: Subprotocol, limits: TransportLimits) -> None:
        self.wire = wire
        self.peer = peer
        self.subprotocol = subprotocol
        self.buffered_bytes = 0
        self.taken_bytes = 0
        self.is_reading = True
        self.is_lost = False
        self._limits = limits
        self._receiver: Receiver | None = None
        self._waiting: deque[bytes | _End] = deque()
        # How many of the waiting payloads are due, and when the last of them will be.
        self._due = 0
        self._last_due_at = 0.0
        self._is_congested = False
        self._datagrams_sent = self._datagrams_seen = 0
        self._deadline: asyncio.TimerHandle | None = None
        # Set as soon as the end is certain: from then on nothing is sent or received.
        self._end: _End | None = None

    @property
    def is_up(self) -> bool:
        return self._end is None

    @property
    def traffic(self) -> Traffic:
        opposite, arrived_bytes = self.wire.opposite(self), self.wire.network.arrived_bytes
        received = max(self.taken_bytes, arrived_bytes(opposite))
        return Traffic(received, max(opposite.taken_bytes, arrived_bytes(self)), self.buffered_bytes)

    def send(self, payload: bytes) -> None:
        if self._end is None:
            self._post(payload)

    @property
    def datagram_bytes_max(self) -> int:
        return self._limits.datagram_bytes_max if self.wire.network.carries_datagrams else 0

    def send_datagram(self, payload: bytes) -> bool:
        network = self.wire.network
        if self._end is not None or not network.carries_datagrams or len(payload) > self.datagram_bytes_max:
            return False
        self._datagrams_sent += 1
        delay_s = None if self.wire.is_cut or self.wire.is_stalled else network.datagram_fate(self, payload)
        if delay_s is not None:
            take = self.wire.opposite(self).take_datagram
            asyncio.get_running_loop().call_later(delay_s, take, self._datagrams_sent, payload)
        return True

    def close(self, code: int, reason: str) -> None:
        if self._end is None:
            self._end = (code, reason)
            self._post((code, shorten(reason)))
            self._read_on()  # the peer's answer has not arrived yet
            self._deadline = asyncio.get_running_loop().call_later(self._limits.close_s, self.abort)

    def abort(self) -> None:
        if not self.is_lost:
            self.drop_waiting()
            self._post(_RESET)
            self.sever()

    def pause_reading(self) -> None:
        if self._end is None:
            self.is_reading = False

    def resume_reading(self) -> None:
        if self._end is None:
            self._read_on()

    def _read_on(self) -> None:
        self.is_reading = True
        asyncio.get_running_loop().call_soon(self.wire.opposite(self).deliver)

    def _post(self, item: bytes | _End) -> None:
        if self.wire.is_cut:
            return
        payload = b"" if isinstance(item, tuple) else item
        delay_s = self.wire.network.fate(self, payload)
        if delay_s is None:
            self.wire.cut()
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._last_due_at = max(self._last_due_at, now + delay_s)
        self._waiting.append(item)
        if self._last_due_at == inf:
            pass  # neither it nor anything after it arrives
        elif self._last_due_at > now:
            loop.call_later(self._last_due_at - now, self._fall_due)
        else:
            loop.call_soon(self._fall_due)
        self.buffered_bytes += len(payload)
        if self.buffered_bytes > self._limits.write_high_bytes and not self._is_congested and self._receiver:
            self._is_congested = True
            tell(self, self._receiver.congested)

    def _fall_due(self) -> None:
        self._due += 1
        self.deliver()

    def deliver(self) -> None:
        """Deliver what is due, as long as the wire is not stalled and the other end reads."""
        opposite = self.wire.opposite(self)
        while self._due and self._waiting and opposite.is_reading and not self.wire.is_stalled:
            self._due -= 1
            item = self._waiting.popleft()
            self.buffered_bytes -= 0 if isinstance(item, tuple) else len(item)
            opposite.take(item)
        # Like asyncio: drained well below the mark, so that the two do not alternate.
        if self._is_congested and self.buffered_bytes <= self._limits.write_high_bytes // 4:
            self._is_congested = False
            if self._receiver and not self.is_lost:
                tell(self, self._receiver.drained)

    def take(self, item: bytes | _End) -> None:
        """Receive a payload or the other end's close."""
        if isinstance(item, tuple):
            if self._end is None and item != _RESET:
                self._post(item)  # the answer for which the other end waits
            self._end = self._end or item
            self._lose()
        elif self._end is not None or self._receiver is None:
            pass
        elif len(item) > self._limits.payload_bytes_max:
            self.close(TOO_BIG, f"a payload may have at most {self._limits.payload_bytes_max} bytes")
        else:
            self.taken_bytes += len(item)
            tell(self, self._receiver.received, item)

    def take_datagram(self, number: int, payload: bytes) -> None:
        """Receive a datagram, unless a later one came before it."""
        if number > self._datagrams_seen and self._end is None and self.is_reading and self._receiver is not None:
            self._datagrams_seen = number
            tell(self, self._receiver.received_datagram, payload)

    def open(self, accept: Accept) -> None:
        tell(self, self._open, accept)

    def _open(self, accept: Accept) -> None:
        self._receiver = accept()
        self._receiver.opened(self)

    def sever(self) -> None:
        """The wire is gone: notify the receiver in the next loop iteration."""
        self._end = self._end or _RESET
        asyncio.get_running_loop().call_soon(self._lose)

    def _lose(self) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        if self._deadline is not None:
            self._deadline.cancel()
        self.wire.network.forget(self.wire)
        if self._receiver is not None:
            tell(self, self._receiver.lost, *(self._end or _RESET))

    def drop_waiting(self) -> None:
        self._waiting.clear()
        self.buffered_bytes = 0


class Wire:
    """Connects two ends, the dialing one first; faults happen here."""

    def __init__(self, network: "MemoryNetwork") -> None:
        self.network = network
        self.ends: tuple[MemoryTransport, MemoryTransport]
        self.is_stalled = False
        self.is_cut = False

    def opposite(self, end: MemoryTransport) -> MemoryTransport:
        first, second = self.ends
        return second if end is first else first

    def stall(self) -> None:
        """Deliver nothing for now: sent payloads accumulate in `buffered_bytes`."""
        self.is_stalled = True

    def flow(self) -> None:
        self.is_stalled = False
        for end in self.ends:
            asyncio.get_running_loop().call_soon(end.deliver)

    def cut(self, *, unaware: Collection[MemoryTransport] = ()) -> None:
        """Lose the payloads in transit and report VANISHED to the ends, except the unaware: theirs is a half-open
        link."""
        self.is_cut = True
        for end in self.ends:
            end.drop_waiting()
            if end not in unaware:
                end.sever()


@dataclass(slots=True, kw_only=True)
class MemoryListener:
    """An address that can be dialed."""

    addresses: Sequence[tuple[str, int]]
    accept: Accept
    subprotocols: Sequence[Subprotocol]
    limits: TransportLimits
    is_open: bool = True

    async def close(self) -> None:
        self.is_open = False


class MemoryNetwork:
    """The addresses and wires of one process, or of one test."""

    def __init__(self) -> None:
        self._listeners: dict[str, MemoryListener] = {}
        # In the order of creation, so that a run that breaks one at random can be repeated.
        self._wires: dict[Wire, None] = {}
        self._dialed_count = 0

    @property
    def wires(self) -> Sequence[Wire]:
        """Every wire with an end that does not know of its loss yet."""
        return list(self._wires)

    def fate(self, sender: MemoryTransport, payload: bytes) -> float | None:
        """Seconds until a payload arrives, or None to lose it and cut its wire. A close is passed as b"".

        Infinity: neither it nor anything after it arrives; cut the wire later.
        """
        return 0.0

    carries_datagrams: bool = False
    """Whether `send_datagram` sends anything."""

    def datagram_fate(self, sender: MemoryTransport, payload: bytes) -> float | None:
        """Seconds until a datagram arrives, or None to lose it."""
        return 0.0

    def arrived_bytes(self, sender: MemoryTransport) -> int:
        """How many bytes that this end sent have arrived, including parts of payloads; 0 if only whole payloads
        arrive."""
        return 0

    def caller(self, number: int) -> str:
        """The address of a dialing end, as the other end sees it."""
        return f"memory:{number}"

    async def listen(
        self, accept: Accept, address: str, *, subprotocols: Sequence[Subprotocol], limits: TransportLimits
    ) -> MemoryListener:
        if address in self._listeners and self._listeners[address].is_open:
            raise OSError(errno.EADDRINUSE, f"{address} is in use")
        listener = MemoryListener(addresses=[(address, 0)], accept=accept, subprotocols=subprotocols, limits=limits)
        self._listeners[address] = listener
        return listener

    async def dial(
        self, receiver: Receiver, address: str, *, subprotocols: Sequence[Subprotocol], limits: TransportLimits
    ) -> MemoryTransport:
        """Connect to an address; `opened` has been called when it returns."""
        await asyncio.sleep(0)  # the other end is never called from inside of this call
        listener = self._listeners.get(address)
        if listener is None or not listener.is_open:
            raise DialError(f"nothing listens at {address}")
        subprotocol = agree([subprotocol.name for subprotocol in subprotocols], listener.subprotocols)
        if subprotocol is None:
            raise DialError(f"{address} supports none of the offered subprotocols", retry=False)
        self._dialed_count += 1
        wire = Wire(self)
        dialed = MemoryTransport(wire, address, subprotocol, limits)
        accepted = MemoryTransport(wire, self.caller(self._dialed_count), subprotocol, listener.limits)
        wire.ends = (dialed, accepted)
        self._wires[wire] = None
        accepted.open(listener.accept)
        dialed.open(lambda: receiver)
        return dialed

    def forget(self, wire: Wire) -> None:
        if all(end.is_lost for end in wire.ends):
            self._wires.pop(wire, None)
