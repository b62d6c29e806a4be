"""A receiver that writes down what it is told, and notes at once when the port's contract is broken."""

import asyncio
from collections.abc import Callable

from holdfast.transports.port import Transport
from tests.deadlines import DEADLINE_S


class Recorder:
    """What one end of a link was told; override a method to do something with it."""

    def __init__(self) -> None:
        self.transport: Transport | None = None
        self.payloads: list[bytes] = []
        self.datagrams: list[bytes] = []
        self.busy_count = 0
        self.congested_count = 0
        self.drained_count = 0
        self.end: tuple[int, str] | None = None
        self.violations: list[str] = []
        self._changed = asyncio.Event()

    @property
    def link(self) -> Transport:
        assert self.transport is not None, "opened was not called"
        return self.transport

    def opened(self, transport: Transport) -> None:
        if self.transport is not None:
            self.violations.append("opened twice")
        self.transport = transport
        self._changed.set()

    def received(self, payload: bytes) -> None:
        self._note("received")
        self.payloads.append(payload)

    def received_datagram(self, payload: bytes) -> None:
        self._note("a datagram received")
        self.datagrams.append(payload)

    def kept_busy(self) -> None:
        self._note("kept busy")
        self.busy_count += 1

    def congested(self) -> None:
        self._note("congested")
        self.congested_count += 1

    def drained(self) -> None:
        self._note("drained")
        self.drained_count += 1

    def lost(self, code: int, reason: str) -> None:
        self._note("lost")
        self.end = (code, reason)

    def _note(self, what: str) -> None:
        if self.transport is None:
            self.violations.append(f"{what} before opened")
        if self.end is not None:
            self.violations.append(f"{what} after lost")
        self._changed.set()

    async def until(self, claim: Callable[[], bool]) -> None:
        """Wait until the claim holds; it is looked at again whenever something was told."""
        async with asyncio.timeout(DEADLINE_S):
            while not claim():
                self._changed.clear()
                await self._changed.wait()

    async def opening(self) -> Transport:
        await self.until(lambda: self.transport is not None)
        return self.link

    async def payload(self, count: int = 1) -> list[bytes]:
        """The first payloads, as soon as there are so many."""
        await self.until(lambda: len(self.payloads) >= count)
        return self.payloads[:count]

    async def loss(self) -> tuple[int, str]:
        await self.until(lambda: self.end is not None)
        assert self.end is not None
        return self.end
