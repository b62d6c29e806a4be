"""A server and a client of ENet with a bad network between them, in virtual time and without sockets."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from holdfast.core.limits import Limits
from holdfast.transports.enet import wire
from holdfast.transports.enet.peer import Peer, PeerState
from holdfast.transports.enet.proof import AddressProof, Proven
from holdfast.transports.port import TransportLimits

LIMITS = TransportLimits.of(Limits())
CLIENT = "192.0.2.1:1000"
SECRET = b"secret of the server in the test"


@dataclass(frozen=True)
class Weather:
    """What the network does to a packet: chances, and delays in seconds."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_s: tuple[float, float] = (0.05, 0.05)
    bytes_max: int = 1_500


class World:
    """The time, the packets on their way, and both ends; the server's exists once it has been proven."""

    def __init__(self, seed: int = 1, weather: Weather | None = None, *, limits: TransportLimits = LIMITS) -> None:
        self.weather = weather or Weather()
        self.now = 100.0
        self.random = Random(seed)
        self.limits = limits
        self.proof = AddressProof(SECRET, limits)
        self.client = Peer.dialing(limits, self.random.getrandbits(32), self.now)
        self.server: Peer | None = None
        self.packets = 0
        """That were sent, lost ones too."""
        self.received: dict[str, list[bytes]] = {"client": [], "server": []}
        self.datagrams: dict[str, list[bytes]] = {"client": [], "server": []}
        self._on_the_way: list[tuple[float, int, str, bytes]] = []

    def ends(self) -> dict[str, Peer]:
        return {"client": self.client} | ({} if self.server is None else {"server": self.server})

    def connect(self) -> "World":
        """Until the first payload has arrived, whose repetition also replaces a lost acknowledgement."""
        self.run(lambda: self.client.state is PeerState.CONNECTED)
        self.client.send(b"preface")
        self.run(lambda: self.received["server"] == [b"preface"] and not self.client.waiting_bytes)
        self.received["server"].clear()
        return self

    def run(self, done: Callable[[], bool], *, within_s: float = 60.0) -> None:
        """Until it is done; a world that takes longer has failed."""
        ends_at = self.now + within_s
        self._write()
        while not done():
            times = [peer.wake_at for peer in self.ends().values()]
            if self._on_the_way:
                times.append(self._on_the_way[0][0])
            due = [at for at in times if at is not None]
            assert due, "nothing will ever happen again"
            self.now = max(self.now, min(due))
            assert self.now <= ends_at, f"not done within {within_s} s"
            self._deliver()
            for peer in self.ends().values():
                peer.advance(self.now)
            self._write()

    def send(self, to: str, data: bytes) -> None:
        """Put a packet on its way, or lose it."""
        self.packets += 1
        weather, random = self.weather, self.random
        assert len(data) <= self.limits.udp_bytes_max
        if random.random() < weather.loss or len(data) > weather.bytes_max:
            return
        for _ in range(1 + (random.random() < weather.duplication)):
            heapq.heappush(self._on_the_way, (self.now + random.uniform(*weather.delay_s), self.packets, to, data))

    def _write(self) -> None:
        for name, peer in self.ends().items():
            for data in peer.write(self.now):
                self.send("server" if name == "client" else "client", data)

    def _deliver(self) -> None:
        while self._on_the_way and self._on_the_way[0][0] <= self.now:
            *_, to, data = heapq.heappop(self._on_the_way)
            datagram = wire.decode(data)
            if to == "server":
                self._serve(datagram, len(data))
            else:
                self.client.receive(datagram, self.now)
            for name, peer in self.ends().items():
                self.received[name] += peer.payloads
                self.datagrams[name] += peer.datagrams
                peer.payloads.clear()
                peer.datagrams.clear()

    def _serve(self, datagram: wire.Datagram, size: int) -> None:
        if self.server is None or self.server.state is PeerState.ENDED:
            answer = self.proof.answer(datagram, CLIENT, self.now, size=size, taken_session=None)
            if isinstance(answer, bytes):
                assert len(answer) <= size
                self.send("client", answer)
            if not isinstance(answer, Proven):
                return
            self.server = Peer(
                self.limits,
                state=PeerState.CONNECTED,
                peer_id=answer.peer_id,
                session=answer.session,
                mtu=answer.mtu,
            )
        self.server.receive(datagram, self.now)


def small(mtu: int) -> TransportLimits:
    """Limits with packets of this size."""
    return replace(LIMITS, udp_bytes_max=mtu)
