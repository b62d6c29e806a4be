"""Each fault, as the two ends of a link see it."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from random import Random
from typing import Any

import pytest

from holdfast.core.connection import Traffic
from holdfast.testing import Dialer, Link, Network, Side, run
from holdfast.transports.port import DialError, Subprotocol, Transport, TransportLimits

URL = "memory://test"
SUBPROTOCOL = Subprotocol("test", text=False)
LIMITS = TransportLimits(
    payload_bytes_max=1024,
    handshake_s=2.0,
    close_s=1.0,
    write_high_bytes=256,
    fragments_max=16,
    proxy_header_bytes_max=256,
    unopened_per_address_max=1000,
    unopened_max=1000,
)


class End:
    """Remembers what it hears, and when."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, bytes]] = []
        self.lost_at: float | None = None
        self._transport: Transport | None = None

    @property
    def transport(self) -> Transport:
        assert self._transport is not None
        return self._transport

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payload in self.heard]

    def opened(self, transport: Transport) -> None:
        self._transport = transport

    def received(self, payload: bytes) -> None:
        self.heard.append((asyncio.get_running_loop().time(), payload))

    def received_datagram(self, payload: bytes) -> None: ...

    def kept_busy(self) -> None: ...

    def congested(self) -> None: ...

    def drained(self) -> None: ...

    def lost(self, code: int, reason: str) -> None:
        self.lost_at = asyncio.get_running_loop().time()


class Pair:
    """A network with one link."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.servers: list[End] = []
        self.client = End()
        self.dialer = network.dialer("client")

    def accept(self) -> End:
        self.servers.append(End())
        return self.servers[-1]

    @property
    def server(self) -> End:
        return self.servers[0]

    @property
    def link(self) -> Link:
        return self.dialer.link

    async def open(self) -> "Pair":
        await self.network.listen(self.accept, URL, subprotocols=[SUBPROTOCOL], limits=LIMITS)
        await self.dial(self.client)
        return self

    async def dial(self, end: End, dialer: Dialer | None = None) -> None:
        await (dialer or self.dialer)(end, URL, SUBPROTOCOL, LIMITS)

    def end(self, side: Side) -> End:
        return self.client if side == "client" else self.server


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def plain(*args: Any, **kwargs: Any) -> None:
        run(test(*args, **kwargs))

    return plain


async def a_while() -> None:
    await asyncio.sleep(5.0)


@in_virtual_time
async def test_a_payload_takes_the_latency_and_never_overtakes() -> None:
    pair = await Pair(Network(Random(1), latency_s=0.5, jitter_s=1.0)).open()

    for number in range(20):
        pair.client.transport.send(bytes([number]))
    await a_while()

    assert pair.server.payloads == [bytes([number]) for number in range(20)]
    assert all(0.5 <= at <= 1.5 for at, _ in pair.server.heard)


@in_virtual_time
async def test_a_link_with_a_rate_carries_one_payload_after_the_other_and_each_way_for_itself() -> None:
    pair = await Pair(Network(latency_s=0.5)).open()
    pair.link.bytes_per_s = 100.0

    pair.client.transport.send(bytes(200))
    pair.client.transport.send(bytes(100))
    pair.server.transport.send(bytes(50))
    await a_while()

    assert [at for at, _ in pair.server.heard] == [2.5, 3.5]
    assert [at for at, _ in pair.client.heard] == [1.0]


@in_virtual_time
async def test_what_has_arrived_of_a_payload_is_counted_on_both_ends() -> None:
    pair = await Pair(Network()).open()
    pair.link.bytes_per_s = 100.0
    pair.client.transport.send(bytes(400))

    await asyncio.sleep(3.0)

    assert pair.server.payloads == []
    assert pair.server.transport.traffic.received == 300
    assert pair.client.transport.traffic == Traffic(taken=300, waiting=400)


@in_virtual_time
async def test_a_stalled_link_carries_nothing_whatever_its_rate() -> None:
    pair = await Pair(Network()).open()
    pair.link.bytes_per_s = 100.0
    pair.client.transport.send(bytes(400))

    pair.link.stall()
    await asyncio.sleep(3.0)

    assert pair.server.transport.traffic.received == 0


@in_virtual_time
async def test_a_link_breaks_in_the_payload_in_which_its_bytes_end() -> None:
    pair = await Pair(Network()).open()
    pair.link.bytes_per_s = 100.0
    pair.link.cut_after("client", 250)

    for _ in range(3):
        pair.client.transport.send(bytes(100))
    await a_while()

    assert [at for at, _ in pair.server.heard] == [1.0, 2.0]
    assert (pair.client.lost_at, pair.server.lost_at) == (2.5, 2.5)


@in_virtual_time
async def test_a_dialer_passes_its_rate_and_its_limit_of_bytes_on_to_the_links_it_dials() -> None:
    pair = Pair(Network())
    pair.dialer.bytes_per_s, pair.dialer.cut_after_bytes = 1000.0, 100.0
    await pair.open()

    for _ in range(100):
        pair.client.transport.send(bytes(10))
        await asyncio.sleep(0.5)

    assert pair.link.bytes_per_s == 1000.0
    assert 0 < len(pair.server.heard) < 100
    assert pair.server.lost_at is not None


@in_virtual_time
async def test_a_cut_loses_what_is_on_its_way_and_both_are_told() -> None:
    pair = await Pair(Network(latency_s=1.0)).open()
    pair.client.transport.send(b"lost")

    pair.link.cut()
    await a_while()

    assert pair.server.payloads == []
    assert (pair.client.lost_at, pair.server.lost_at) == (0.0, 0.0)
    assert not pair.link.is_open
    assert pair.network.links == []


@in_virtual_time
async def test_a_cut_in_the_middle_of_a_payload_loses_it_and_the_link() -> None:
    pair = await Pair(Network()).open()
    pair.client.transport.send(b"whole")
    await a_while()
    pair.link.cut_next("client")
    assert pair.link.is_open

    pair.client.transport.send(b"half")
    await a_while()

    assert pair.server.payloads == [b"whole"]
    assert pair.client.lost_at is not None
    assert pair.server.lost_at is not None


@in_virtual_time
async def test_a_cut_in_the_middle_waits_for_the_side_it_is_meant_for() -> None:
    pair = await Pair(Network()).open()
    pair.link.cut_next("server")

    pair.client.transport.send(b"this way is fine")
    await a_while()

    assert pair.server.payloads == [b"this way is fine"]
    assert pair.link.is_open


@pytest.mark.parametrize(("unaware", "aware"), [("client", "server"), ("server", "client")])
@in_virtual_time
async def test_half_open_one_side_speaks_into_the_void(unaware: Side, aware: Side) -> None:
    pair = await Pair(Network()).open()

    pair.link.half_open(unaware)
    pair.end(unaware).transport.send(b"hello?")
    await a_while()

    assert pair.end(aware).lost_at is not None
    assert pair.end(unaware).lost_at is None
    assert pair.end(aware).payloads == []


@in_virtual_time
async def test_a_stalled_link_delivers_everything_later_and_in_order() -> None:
    pair = await Pair(Network()).open()

    pair.link.stall()
    pair.client.transport.send(b"one")
    pair.client.transport.send(b"two")
    await a_while()
    assert pair.server.payloads == []
    assert pair.link.buffered_bytes("client") == 6
    pair.link.flow()
    await a_while()

    assert pair.server.heard == [(5.0, b"one"), (5.0, b"two")]


@in_virtual_time
async def test_a_slow_reader_holds_up_one_direction_only() -> None:
    pair = await Pair(Network()).open()

    pair.link.stop_reading("client")
    pair.server.transport.send(b"down")
    pair.client.transport.send(b"up")
    await a_while()
    assert (pair.client.payloads, pair.server.payloads) == ([], [b"up"])
    pair.link.read_on("client")
    await a_while()

    assert pair.client.payloads == [b"down"]


@in_virtual_time
async def test_a_dial_may_come_late_or_fail() -> None:
    pair = await Pair(Network()).open()
    now = asyncio.get_running_loop().time

    pair.dialer.delay_s = 1.5
    await pair.dial(End())
    assert now() == 1.5
    pair.dialer.delay_s = LIMITS.handshake_s + 1.0
    with pytest.raises(DialError) as late:
        await pair.dial(End())
    assert now() == 1.5 + LIMITS.handshake_s
    pair.dialer.delay_s, pair.dialer.is_down = 0.0, True
    with pytest.raises(DialError) as down:
        await pair.dial(End())
    pair.dialer.is_dead = True
    with pytest.raises(DialError) as dead:
        await pair.dial(End())

    assert [error.value.retry for error in (late, down, dead)] == [True, True, False]


@in_virtual_time
async def test_one_way_in_may_be_slower_than_the_rest() -> None:
    pair = await Pair(Network(latency_s=0.1)).open()
    pair.dialer.latency_s = 2.0
    slow = End()

    await pair.dial(slow)
    slow.transport.send(b"slow")
    pair.client.transport.send(b"quick")
    await a_while()

    assert [end.heard for end in pair.servers] == [[(0.1, b"quick")], [(2.0, b"slow")]]


@in_virtual_time
async def test_a_hello_can_arrive_again_on_a_connection_that_nobody_wants() -> None:
    pair = await Pair(Network()).open()
    pair.client.transport.send(b"hello")
    pair.client.transport.send(b"more")
    await a_while()
    pair.link.cut()

    await pair.network.deliver_again(pair.link, URL, LIMITS, stay_s=3.0)
    await a_while()

    ghost = pair.servers[1]
    assert ghost.heard == [(5.0, b"hello")]
    assert ghost.lost_at == 8.0


@in_virtual_time
async def test_the_same_seed_gives_the_same_times() -> None:
    times = []
    for seed in (1, 1, 2):
        pair = await Pair(Network(Random(seed), jitter_s=1.0)).open()
        began = asyncio.get_running_loop().time()
        pair.client.transport.send(b"now")
        await a_while()
        times.append(round(pair.server.heard[0][0] - began, 9))

    assert times[0] == times[1] != times[2]
