"""Clients that do not keep to the protocol: what they say out of turn must never take effect."""

import asyncio
from random import Random
from typing import TYPE_CHECKING

from msgspec import Raw

from holdfast import Auth
from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import Close, Data, Frame, FromServer, Hello, Reply, Request, Resume, SeatFrame, Welcome
from holdfast.server.server import SUBPROTOCOLS
from holdfast.transports.port import DialError, Transport, TransportLimits
from tests.simulation.checker import Op, Stream
from tests.simulation.view import Append

if TYPE_CHECKING:
    from tests.simulation.world import World

NAME = "mallory"
# A server may fall without a word.
PATIENCE_S = 10.0


class RawWire:
    """One raw connection."""

    def __init__(self) -> None:
        self.heard: list[FromServer] = []
        self._transport: Transport | None = None
        self._changed = asyncio.Event()
        self._is_lost = False

    def opened(self, transport: Transport) -> None:
        self._transport = transport

    def received(self, payload: bytes) -> None:
        self.heard += MSGPACK.from_server(payload)
        self._changed.set()

    def received_datagram(self, payload: bytes) -> None:
        self.received(payload)

    def kept_busy(self) -> None:
        pass

    def congested(self) -> None:
        pass

    def drained(self) -> None:
        pass

    def lost(self, code: int, reason: str) -> None:
        self._is_lost = True
        self._changed.set()

    def say(self, *frames: Frame) -> None:
        if self._transport is not None:
            self._transport.send(MSGPACK.payload(*frames))

    def write(self, seq: int, op: Op) -> None:
        body = MSGPACK.encode(Append(op.process, op.n, is_refused=False, ballast=""))
        self.say(Data(1, seq, 0, Append.wire_name, Raw(body)))

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def hear(self, *kinds: type[Frame]) -> FromServer | None:
        """The first frame of these kinds; None if the connection ends before."""
        while True:
            found = next((frame for frame in self.heard if isinstance(frame, kinds)), None)
            if found is not None or self._is_lost:
                return found
            self._changed.clear()
            await self._changed.wait()


class Hostile:
    """Now and then one of them tries something."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.offences = 0
        self._wires: list[RawWire] = []
        self._random = Random(f"{world.options.seed}/hostile")

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await asyncio.sleep(self._random.uniform(2.0, 8.0))
            attack = self._random.choice([self._skip, self._repeat, self._go_on_after_takeover])
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await attack(self.world.next_label(NAME))
            except (DialError, TimeoutError):
                continue
            finally:
                for wire in self._wires:
                    wire.cut()
                self._wires.clear()

    async def _skip(self, label: str) -> None:
        """Leave a number out."""
        wire, _ = await self._seated()
        if wire is None:
            return
        self._send(wire, 1, Op(label, 1))
        self.world.checker.forbid(Op(label, 3), "I4")
        self.offences += 1
        wire.write(3, Op(label, 3))
        await self._over(wire)

    async def _repeat(self, label: str) -> None:
        """Use a number twice, with other words."""
        wire, _ = await self._seated()
        if wire is None:
            return
        self._send(wire, 1, Op(label, 1))
        self.world.checker.forbid(Op(label, 2), "I4")
        wire.write(1, Op(label, 2))
        await asyncio.sleep(1.0)
        wire.cut()

    async def _go_on_after_takeover(self, label: str) -> None:
        """Speak on a connection that has lost its session to a newer one."""
        wire, welcome = await self._seated()
        if wire is None or welcome is None:
            return
        newer = await self._dialed()
        newer.say(Hello(None, Resume(welcome.session, welcome.token)))
        if await newer.hear(Welcome) is not None:
            for n in (1, 2):
                self.world.checker.forbid(Op(label, n), "I7")
                wire.write(n, Op(label, n))
        await self._over(wire)
        newer.cut()

    async def _dialed(self) -> RawWire:
        wire = RawWire()
        self._wires.append(wire)
        limits = TransportLimits.of(self.world.options.limits)
        url = self.world.url(self._random)
        await self.world.network.dial(wire, url, subprotocols=SUBPROTOCOLS, limits=limits)
        return wire

    async def _seated(self) -> tuple[RawWire | None, Welcome | None]:
        """A connection with a seat; the channel of a session's first seat is number 1."""
        wire = await self._dialed()
        wire.say(Hello(Auth("name", self.world.next_label(NAME))))
        welcome = await wire.hear(Welcome)
        wish = MSGPACK.encode({"kind": self._random.choice(self.world.kinds).kind})
        wire.say(Request(1, "join_or_create", Raw(wish)))
        await wire.hear(Reply)
        if not isinstance(welcome, Welcome) or not any(isinstance(frame, SeatFrame) for frame in wire.heard):
            wire.cut()
            return None, None
        return wire, welcome

    def _send(self, wire: RawWire, seq: int, op: Op) -> None:
        player = next(frame.player for frame in wire.heard if isinstance(frame, Welcome))
        self.world.checker.sent(op, Stream(player), is_refused=False)
        wire.write(seq, op)

    async def _over(self, wire: RawWire) -> None:
        await wire.hear(Close)
        wire.cut()
