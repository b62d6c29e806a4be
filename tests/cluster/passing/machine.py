"""Two nodes on one machine: clients come to the door of one, their sessions are on the other. Real sockets."""

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from holdfast.cluster.descriptors import Descriptors
from holdfast.cluster.direct import DirectBus
from holdfast.cluster.relay import ClientRelay, splice
from holdfast.core.limits import Limits
from holdfast.testing.bus import BusNetwork, MemoryBus
from holdfast.testing.transport_checks import BINARY, LIMITS, TEXT, LinkRecorder
from holdfast.transports import websocket
from holdfast.transports.port import DialError, Receiver, Subprotocol, Transport, TransportLimits
from tests.deadlines import DEADLINE_S
from tests.transports.harness import client_context
from tests.transports.raw import BINARY as BINARY_FRAME
from tests.transports.raw import RawPeer, websocket_frame

QUICK = replace(Limits(), relay_settled_s=0.0, relay_passing_s=DEADLINE_S)
NEVER = replace(Limits(), relay_settled_s=float("inf"))


class FarEnd(LinkRecorder):
    """What the node of the session has of a client."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[str] = []

    def opened(self, transport: Transport) -> None:
        super().opened(transport)
        self.kinds.append(transport.kind)

    def switched(self, transport: Transport) -> None:
        self._note("switched")
        self.transport = transport
        self.kinds.append(transport.kind)

    async def passing(self) -> None:
        """Until the client's own connection is here."""
        await self.until(lambda: len(self.kinds) > 1)


class Door(LinkRecorder):
    """A client's connection to the first node, which relays it."""

    def __init__(self, machine: "Machine") -> None:
        super().__init__()
        self._machine = machine
        self._receiver: Receiver | None = None

    def opened(self, transport: Transport) -> None:
        super().opened(transport)
        transport.pause_reading()
        self._machine.joining.append(asyncio.create_task(self._join()))

    async def _join(self) -> None:
        try:
            self._receiver = await splice(
                lambda: self.link,
                self._machine.relays["a"],
                "b",
                heard=lambda: self.payloads,
                limits=self._machine.limits,
            )
        except DialError:
            self.link.abort()
        else:
            self.link.resume_reading()

    def received(self, payload: bytes) -> None:
        if self._receiver is None:
            super().received(payload)
        else:
            self._receiver.received(payload)

    def congested(self) -> None:
        super().congested()
        if self._receiver is not None:
            self._receiver.congested()

    def drained(self) -> None:
        super().drained()
        if self._receiver is not None:
            self._receiver.drained()

    def lost(self, code: int, reason: str) -> None:
        super().lost(code, reason)
        if self._receiver is not None:
            self._receiver.lost(code, reason)


class Machine:
    """Both nodes, "a" with the door and "b" with the sessions."""

    def __init__(self, folder: Path, limits: Limits = QUICK) -> None:
        self.folder = os.open(folder, os.O_RDONLY)
        self.relays: dict[str, ClientRelay] = {}
        self.limits: TransportLimits = LIMITS
        self.joining: list[asyncio.Task[None]] = []
        self.doors: list[Door] = []
        self.far: list[FarEnd] = []
        self.far_came = asyncio.Event()
        self._limits = limits
        self._buses: dict[str, DirectBus] = {}
        self._network = BusNetwork()
        self._listeners: list[Any] = []

    async def __aenter__(self) -> Self:
        for life in "ab":
            await self.start(life)
        self.relays["b"].listen(self._far_end, subprotocols=[BINARY, TEXT], limits=self.limits)
        return self

    async def start(self, life: str) -> None:
        bus = DirectBus(MemoryBus(self._network), life, self.folder)
        descriptors = Descriptors(life, self.folder, kept_s=1.0)
        relay = ClientRelay(bus, life, self._limits, descriptors=descriptors)
        await bus.open()
        await relay.start()
        self.relays[life], self._buses[life] = relay, bus

    async def stop(self, life: str) -> None:
        if life in self.relays:
            await self.relays.pop(life).stop()
            await self._buses[life].close()

    async def __aexit__(self, *_: object) -> None:
        await self.close_listeners()
        for end in (*self.doors, *self.far):
            if end.transport is not None and end.end is None:
                end.link.abort()
        for life in "ab":
            await self.stop(life)
        for end in (*self.doors, *self.far):
            await end.loss()
        os.close(self.folder)
        assert not [violation for end in (*self.doors, *self.far) for violation in end.violations]

    async def close_listeners(self) -> None:
        for listener in self._listeners:
            await listener.close()

    def descriptors(self, life: str) -> Descriptors:
        found = self.relays[life].descriptors
        assert found is not None
        return found

    def limit(self, **changes: Any) -> None:
        """For both nodes, before the first client."""
        for relay in self.relays.values():
            relay.limits = replace(self._limits, **changes)

    def _far_end(self) -> FarEnd:
        self.far.append(FarEnd())
        self.far_came.set()
        return self.far[-1]

    def _door(self) -> Door:
        self.doors.append(Door(self))
        return self.doors[-1]

    async def open(self, **options: Any) -> int:
        """A port of the first node."""
        listener = await websocket.listen(
            self._door,
            host="127.0.0.1",
            port=0,
            subprotocols=[BINARY, TEXT],
            limits=self.limits,
            **options,
        )
        self._listeners.append(listener)
        return listener.addresses[0][1]

    async def far_end(self) -> FarEnd:
        """Of the newest client."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.far) < len(self.doors):
                self.far_came.clear()
                await self.far_came.wait()
        await self.far[-1].opening()
        return self.far[-1]

    async def client(self, subprotocol: Subprotocol = BINARY, **options: Any) -> tuple[LinkRecorder, FarEnd]:
        """A client, and what the second node has of it."""
        port = await self.open(**options)
        client = LinkRecorder()
        await websocket.dial(client, f"ws://127.0.0.1:{port}", subprotocols=[subprotocol], limits=LIMITS)
        return client, await self.far_end()

    async def raw_client(
        self, extensions: str = "", *, is_encrypted: bool = False, **options: Any
    ) -> tuple[RawPeer, FarEnd]:
        """A client that can write any bytes."""
        port = await self.open(**options)
        peer = await RawPeer.connect("127.0.0.1", port, client_context() if is_encrypted else None)
        extra = f"Sec-WebSocket-Extensions: {extensions}\r\n" if extensions else ""
        peer.write(
            f"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: {BINARY.name}\r\n{extra}"
            "\r\n".encode()
        )
        await peer.read_head()
        return peer, await self.far_end()


async def speak_until_passed(client: LinkRecorder | RawPeer, far: FarEnd) -> list[bytes]:
    """Say something again and again, until the client's own connection is at its node; returns what was said."""
    said: list[bytes] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(far.kinds) == 1:
            said.append(b"%d" % len(said))
            if isinstance(client, RawPeer):
                client.write(websocket_frame(BINARY_FRAME, said[-1]))
            else:
                client.link.send(said[-1])
            await asyncio.sleep(0.002)
    return said


def open_descriptors() -> set[str]:
    """Those of this process that are sockets."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            if (target := str(each.readlink())).startswith("socket:"):
                found.add(target)
    return found
