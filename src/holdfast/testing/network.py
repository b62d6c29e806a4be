"""A network in memory with faults: slow, stalled, cut, half-open and delayed links, all determined by one seed.

A `Dialer` opens the connections of one client, a `Link` is one of them. Break them directly, or at random.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from math import inf
from random import Random
from typing import Any, Literal

from holdfast.testing.clock import Call, Machine
from holdfast.transports.memory import MemoryListener, MemoryNetwork, MemoryTransport, Wire
from holdfast.transports.port import Accept, DialError, Receiver, Subprotocol, Transport, TransportLimits

Side = Literal["client", "server"]


class Direction:
    """The bytes that one side of a link sends, at the link's rate, until the link breaks."""

    def __init__(self) -> None:
        self.bytes_left = inf
        """How many bytes still get through before the link breaks."""
        self._sent_bytes = 0
        self._free_at = 0.0

    def pass_s(self, size: int, bytes_per_s: float, now: float) -> float:
        """How long the next bytes take, after those that were sent before."""
        self.bytes_left -= size
        self._sent_bytes += size
        self._free_at = max(now, self._free_at) + size / bytes_per_s
        return self._free_at - now

    def passed_bytes(self, bytes_per_s: float, at: float) -> int:
        """How many bytes had passed at this time."""
        return self._sent_bytes - min(self._sent_bytes, round(max(0.0, self._free_at - at) * bytes_per_s))


class Link:
    """One connection between a client, which dialed it, and a server."""

    def __init__(self, wire: Wire, latency_s: float, jitter_s: float) -> None:
        self._wire = wire
        self._directions: dict[Side, Direction] = {"client": Direction(), "server": Direction()}
        self._cut_next: set[Side] = set()
        self.latency_s = latency_s
        self.jitter_s = jitter_s
        self.bytes_per_s = inf
        """The link's bandwidth, each way."""
        self.hello = b""
        """The first payload that the client sent."""
        self.server: Machine | None = None
        """The machine that the link leads to."""

    @property
    def is_open(self) -> bool:
        """Whether payloads can still pass."""
        return not (self._wire.is_cut or any(end.is_lost for end in self._wire.ends))

    def buffered_bytes(self, side: Side) -> int:
        """How many bytes this side has sent and the other has not received."""
        return self.end(side).buffered_bytes

    def cut(self) -> None:
        """Break the link: bytes under way are lost, and both sides notice at once."""
        self._wire.cut()

    def cut_next(self, side: Side) -> None:
        """Break the link in the middle of the next payload that this side sends; the other never receives it."""
        self._cut_next.add(side)

    def cut_after(self, side: Side, carried_bytes: float) -> None:
        """Break the link after this many more bytes from this side, also in the middle of a payload."""
        self._directions[side].bytes_left = carried_bytes

    @property
    def is_doomed(self) -> bool:
        """Whether it breaks after a number of bytes."""
        return any(direction.bytes_left < inf for direction in self._directions.values())

    def half_open(self, unaware: Side) -> None:
        """Break the link without this side noticing: what it sends is lost."""
        self._wire.cut(unaware=[self.end(unaware)])

    def stall(self) -> None:
        """Let nothing through in either direction, until `flow`."""
        self._wire.stall()

    def flow(self) -> None:
        """Let everything through again, in order."""
        self._wire.flow()

    def stop_reading(self, side: Side) -> None:
        """Stop reading on this side, so that the other side's bytes queue up, until `read_on`."""
        self.end(side).pause_reading()

    def read_on(self, side: Side) -> None:
        """Read on this side again, the queued bytes first."""
        self.end(side).resume_reading()

    def end(self, side: Side) -> MemoryTransport:
        """The transport of one side."""
        dialed, accepted = self._wire.ends
        return dialed if side == "client" else accepted

    def fate(self, sender: MemoryTransport, payload: bytes, entropy: float) -> float | None:
        """Seconds until a payload arrives; None if it is lost, and the link with it."""
        side = self.side_of(sender)
        if side == "client" and not self.hello:
            self.hello = payload
        if side in self._cut_next and payload:
            return None
        loop = asyncio.get_running_loop()
        direction, left = self._directions[side], self._directions[side].bytes_left
        pass_s = direction.pass_s(len(payload), self.bytes_per_s, loop.time())
        delay_s = self.latency_s + entropy * self.jitter_s + pass_s
        if len(payload) <= left:
            return delay_s
        if left >= 0:
            # The first payload that does not get through; later ones do not either.
            loop.call_later(delay_s - (len(payload) - left) / self.bytes_per_s, self.cut)
        return inf

    def arrived_bytes(self, sender: MemoryTransport) -> int:
        """How many bytes of this end have arrived; 0 while the link is stalled or if its bandwidth is unlimited."""
        if self.bytes_per_s == inf or self._wire.is_stalled:
            return 0
        at = asyncio.get_running_loop().time() - self.latency_s
        return self._directions[self.side_of(sender)].passed_bytes(self.bytes_per_s, at)

    def side_of(self, end: MemoryTransport) -> Side:
        """Whose end this is."""
        return "client" if end is self.end("client") else "server"


class Dialer:
    """Opens the links of one client: `connect(url, dial=dialer)`."""

    def __init__(self, network: "Network", name: str) -> None:
        self._network = network
        self.name = name
        self.links: list[Link] = []
        """Every link that it dialed, the newest last."""
        self.delay_s = 0.0
        """How long a dial takes; if longer than the client waits, it fails and the client retries."""
        self.latency_s: float | None = None
        """The latency of new links; None for the network's."""
        self.bytes_per_s = inf
        """The bandwidth of new links, each way."""
        self.cut_after_bytes: float = inf
        """How many bytes new links carry on average, each way, before they break."""
        self.is_down = False
        """Whether dials fail; the client retries."""
        self.is_dead = False
        """Whether dials fail for good: the client gives up."""

    @property
    def link(self) -> Link:
        return self.links[-1]

    async def __call__(
        self, receiver: Receiver, url: str, subprotocol: Subprotocol, limits: TransportLimits
    ) -> Transport:
        await asyncio.sleep(min(self.delay_s, limits.handshake_s))
        if self.is_dead or self.is_down or self.delay_s > limits.handshake_s:
            raise DialError(f"{url} does not answer {self.name}", retry=not self.is_dead)
        transport = await self._network.dial(receiver, url, subprotocols=[subprotocol], limits=limits)
        link = self._network.link(transport.wire)
        link.latency_s = link.latency_s if self.latency_s is None else self.latency_s
        link.bytes_per_s = self.bytes_per_s
        if self.cut_after_bytes < inf:
            self._network.doom(link, self.cut_after_bytes)
        self.links.append(link)
        return transport


class Network(MemoryNetwork):
    """The links of one test. Equal seeds and equal programs give equal runs."""

    def __init__(self, random: Random | None = None, *, latency_s: float = 0.0, jitter_s: float = 0.0) -> None:
        """Each payload of a new link takes `latency_s` and up to `jitter_s` more; payloads stay in order."""
        super().__init__()
        self.latency_s = latency_s
        self.jitter_s = jitter_s
        self.on_payload: Callable[[Link, Side, bytes], None] | None = None
        """Called with every payload that is sent on a link, also if it does not arrive, and who sends it."""
        self.carries_datagrams = False
        """Whether unreliable messages travel on their own, as over ENet: then they may overtake others, or be lost."""
        self.datagram_latency_s = latency_s
        self.datagram_loss = 0.0
        """Of datagrams, by chance: a number from 0 to 1."""
        self._random = random or Random(0)
        self._links: dict[Wire, Link] = {}
        self._servers: dict[str, Machine | None] = {}

    @property
    def links(self) -> list[Link]:
        """Every link that is open, oldest first."""
        return [link for link in map(self.link, self.wires) if link.is_open]

    def link(self, wire: Wire) -> Link:
        if wire not in self._links:
            self._links[wire] = Link(wire, self.latency_s, self.jitter_s)
        return self._links[wire]

    def dialer(self, name: str) -> Dialer:
        return Dialer(self, name)

    def fate(self, sender: MemoryTransport, payload: bytes) -> float | None:
        link = self.link(sender.wire)
        if self.on_payload is not None:
            self.on_payload(link, link.side_of(sender), payload)
        return link.fate(sender, payload, self._random.random())

    def datagram_fate(self, sender: MemoryTransport, payload: bytes) -> float | None:
        # Only then: other networks draw the same numbers as ever.
        is_lost = self._random.random() < self.datagram_loss
        return None if is_lost else self.datagram_latency_s + self.jitter_s * self._random.random()

    def arrived_bytes(self, sender: MemoryTransport) -> int:
        return self.link(sender.wire).arrived_bytes(sender)

    def doom(self, link: Link, mean_bytes: float) -> None:
        """Let a link break after this many bytes on average, independently each way."""
        link.cut_after("client", self._random.expovariate(1 / mean_bytes))
        link.cut_after("server", self._random.expovariate(1 / mean_bytes))

    def forget(self, wire: Wire) -> None:
        super().forget(wire)
        if wire not in self.wires:
            self._links.pop(wire, None)

    async def listen(
        self, accept: Accept, address: str, *, subprotocols: Sequence[Subprotocol], limits: TransportLimits
    ) -> MemoryListener:
        """As in `MemoryNetwork`; payloads are received on the machine that listens."""
        context, machine = copy_context(), Machine.here()

        def accept_here() -> Receiver:
            return _Resident(context.copy().run(accept), context)

        listener = await super().listen(accept_here, address, subprotocols=subprotocols, limits=limits)
        self._servers[address] = machine
        return listener

    async def dial(
        self, receiver: Receiver, address: str, *, subprotocols: Sequence[Subprotocol], limits: TransportLimits
    ) -> MemoryTransport:
        """As in `MemoryNetwork`; payloads are received on the machine that dials."""
        resident = _Resident(receiver, copy_context())
        transport = await super().dial(resident, address, subprotocols=subprotocols, limits=limits)
        self.link(transport.wire).server = self._servers[address]
        return transport

    async def deliver_again(self, link: Link, url: str, limits: TransportLimits, *, stay_s: float = 1.0) -> None:
        """Deliver a link's hello again on a new connection, as if late, and keep that open for a while.

        A proxy does this if it connects to the server after its client has hung up and dialed again.
        """
        transport = await self.dial(_Discard(), url, subprotocols=[link.end("client").subprotocol], limits=limits)
        transport.send(link.hello)
        await asyncio.sleep(stay_s)
        transport.abort()


def call_at(home: Context, method: Callable[..., None], *args: Any) -> None:
    """Call on the machine of this context."""
    home = home.copy()
    machine = home.run(Machine.here)
    if machine is None:
        home.run(method, *args)
    else:
        home.run(machine.run, Call(method, args, home))


class _Resident:
    """A receiver that runs on its own machine, not on the sender's."""

    def __init__(self, receiver: Receiver, home: Context) -> None:
        self._receiver = receiver
        self._home = home

    def opened(self, transport: Transport) -> None:
        self._tell(self._receiver.opened, transport)

    def received(self, payload: bytes) -> None:
        self._tell(self._receiver.received, payload)

    def received_datagram(self, payload: bytes) -> None:
        self._tell(self._receiver.received_datagram, payload)

    def kept_busy(self) -> None:
        self._tell(self._receiver.kept_busy)

    def congested(self) -> None:
        self._tell(self._receiver.congested)

    def drained(self) -> None:
        self._tell(self._receiver.drained)

    def lost(self, code: int, reason: str) -> None:
        self._tell(self._receiver.lost, code, reason)

    def _tell(self, method: Callable[..., None], *args: Any) -> None:
        call_at(self._home, method, *args)


class _Discard:
    """A receiver that ignores everything."""

    def opened(self, *_: Any) -> None: ...

    received = received_datagram = kept_busy = congested = drained = lost = opened
