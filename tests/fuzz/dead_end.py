"""A socket that leads nowhere: what is written to it reaches a protocol, and what the protocol answers is gone."""

import asyncio
from collections.abc import Iterable
from typing import Any, cast

from holdfast.transports.port import Transport


class NoSocket:
    """What picows asks of a socket."""

    def setsockopt(self, *_: Any) -> None:
        """Set nothing."""

    def getsockopt(self, *_: Any) -> int:
        """Nothing is set."""
        return 0

    def fileno(self) -> int:
        """No file: to write to it fails, and what is written goes to the transport."""
        return -1


class DeadEnd(asyncio.Transport):
    """The transport of one connection, as an event loop has it."""

    def __init__(self, protocol: asyncio.BaseProtocol) -> None:
        super().__init__({"socket": NoSocket(), "peername": ("203.0.113.7", 1), "sockname": ("192.0.2.1", 7777)})
        self._protocol = protocol
        self._is_closing = False
        protocol.connection_made(self)

    def hear(self, said: Iterable[bytes]) -> None:
        """Hand the protocol what a stranger writes, until it has had enough; then the stranger is gone."""
        for data in said:
            if self._is_closing:
                break
            self._feed(data)
        self._protocol.connection_lost(None)

    def _feed(self, data: bytes) -> None:
        while data and not self._is_closing:
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                buffer = cast("memoryview", self._protocol.get_buffer(len(data)))
                size = min(len(buffer), len(data))
                assert size, "an event loop raises at an empty buffer"
                buffer[:size] = data[:size]
                self._protocol.buffer_updated(size)
                data = data[size:]
            else:
                assert isinstance(self._protocol, asyncio.Protocol)
                self._protocol.data_received(data)
                break

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Another protocol hears the rest."""
        self._protocol = protocol

    def is_closing(self) -> bool:
        """Whether the protocol has had enough."""
        return self._is_closing

    def close(self) -> None:
        """The protocol has had enough."""
        self._is_closing = True

    abort = close

    def write(self, data: Any) -> None:
        """Nobody hears it."""

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits."""

    def pause_reading(self) -> None:
        """What was said is heard."""

    resume_reading = pause_reading


class Listening:
    """A receiver that takes everything."""

    def opened(self, transport: Transport) -> None:
        """A link is there."""

    def received(self, payload: bytes) -> None:
        """Something came."""

    def received_datagram(self, payload: bytes) -> None:
        """Something came that may be old."""

    def kept_busy(self) -> None:
        """Something came that is nothing."""

    congested = drained = kept_busy

    def lost(self, code: int, reason: str) -> None:
        """The link is gone."""
