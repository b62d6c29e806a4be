"""What strangers' packets cost a server, in CPU: `python -m tests.transports.enet.garbage`. No test has a clock."""

import time
from collections.abc import Iterable, Sequence

from holdfast.testing.transport_checks import LIMITS, LinkRecorder
from holdfast.transports.enet import wire
from holdfast.transports.enet.endpoint import ServerSocket
from holdfast.transports.listening import PendingConnections

CONNECT = wire.Connect(255, 1, True, 0, 255, 255, 1392, 65536, 3, 0, 0, 5000, 2, 2, 1, 0)
PACKETS = {
    "noise": b"\x00",
    "a connect": wire.encode(wire.PEER_ID_NONE, 0, 5, [CONNECT]),
    "a payload of a connection that is unknown": wire.encode(3, 1, 5, [wire.Reliable(0, 1, True, b"x")]),
    "64 pings": wire.encode(3, 1, 5, [wire.PeerPing(255, 1, True)] * 64),
    "64 guesses at a cookie": wire.encode(3, 1, 5, [wire.Acknowledge(255, 7, False, 7, 9)] * 64),
}
TIMES = 5_000


class Deaf(ServerSocket):
    """Writes nowhere."""

    def write(self, address: object, datagrams: Sequence[bytes]) -> None: ...


def costs() -> Iterable[tuple[str, int, float]]:
    """The name of a packet, its bytes, and microseconds."""
    server = Deaf(LinkRecorder, [], LIMITS, PendingConnections(LIMITS), bytes(32))
    for name, data in PACKETS.items():
        began_s = time.process_time()
        for _ in range(TIMES):
            server.datagram_received(data, ("192.0.2.1", 5))
        yield name, len(data), (time.process_time() - began_s) / TIMES * 1e6


async def main() -> None:
    """Print them."""
    for name, size, us in costs():
        print(f"{us:6.1f} µs  {size:4} bytes  {name}")  # noqa: T201 - a program for people


if __name__ == "__main__":
    import asyncio

    asyncio.run(main())
