"""Connections that are no links yet: how many there may be, whose they are, and how long each may take."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from holdfast.core.limits import Limits
from holdfast.testing.transport_checks import BINARY, LIMITS, LinkRecorder
from holdfast.transports import tcp, websocket
from holdfast.transports.listening import PendingConnection, PendingConnections
from holdfast.transports.port import Listener, TransportLimits
from holdfast.transports.proxies import TrustedProxies
from tests.deadlines import DEADLINE_S
from tests.transports.harness import server_context
from tests.transports.raw import RawPeer, tcp_frame

FEW = replace(LIMITS, unopened_per_address_max=3, unopened_max=5)
HEADER = b"PROXY TCP4 203.0.113.7 192.0.2.1 51234 443\r\n"
OTHER_HEADER = b"PROXY TCP4 203.0.113.8 192.0.2.1 51234 443\r\n"
GREETINGS = {
    tcp: tcp_frame(BINARY.name.encode()),
    websocket: (
        "GET / HTTP/1.1\r\nHost: game.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: {BINARY.name}\r\n\r\n"
    ).encode(),
}
# The start of anything.
BYTE = b"G"
HERE = TrustedProxies(["127.0.0.1"])
HERE_WITH_HEADERS = TrustedProxies(["127.0.0.1"], proxy_protocol=True)


class Street:
    """One door, the peers in front of it, and whom it refused."""

    def __init__(self, module: ModuleType, limits: TransportLimits, host: str) -> None:
        self.module = module
        self.limits = limits
        self.host = host
        self.refused: list[tuple[str, str]] = []
        self.pending_connections = PendingConnections(limits, lambda limit, host: self.refused.append((limit, host)))
        self.links: list[LinkRecorder] = []
        self._peers: list[RawPeer] = []
        self._listener: Listener | None = None

    async def open(self, **options: Any) -> None:
        self._listener = await self.module.listen(
            self._accept,
            host=self.host,
            port=0,
            subprotocols=[BINARY],
            limits=self.limits,
            pending_connections=self.pending_connections,
            **options,
        )

    def _accept(self) -> LinkRecorder:
        self.links.append(LinkRecorder())
        return self.links[-1]

    @property
    def listener(self) -> Listener:
        assert self._listener is not None
        return self._listener

    async def come(self, words: bytes = b"") -> RawPeer:
        peer = await RawPeer.connect(*self.listener.addresses[0])
        self._peers.append(peer)
        peer.write(words)
        return peer

    async def come_in(self, words: bytes = b"") -> RawPeer:
        """Until it is a link."""
        count = len(self.links)
        peer = await self.come(words + GREETINGS[self.module])
        await until(lambda: len(self.links) > count)
        return peer

    async def crowd(self, count: int) -> list[RawPeer]:
        """So many who say no more than a byte, and have been accepted."""
        known = self.pending_connections.count
        peers = [await self.come(BYTE) for _ in range(count)]
        await until(lambda: self.pending_connections.count == known + count)
        return peers

    async def close(self) -> None:
        await self.listener.close()
        for peer in self._peers:
            peer.abandon()
        for link in self.links:
            link.link.abort()
            await link.loss()
        await until(lambda: not self.pending_connections.count)


async def until(claim: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not claim():  # noqa: ASYNC110 - what is looked at tells nobody when it changes
            await asyncio.sleep(0.001)


@asynccontextmanager
async def street(
    module: ModuleType, limits: TransportLimits = FEW, *, host: str = "127.0.0.1", **options: Any
) -> AsyncIterator[Street]:
    place = Street(module, limits, host)
    await place.open(**options)
    try:
        yield place
    finally:
        await place.close()


@pytest.mark.parametrize("module", [tcp, websocket])
async def test_who_comes_while_too_many_of_the_same_address_say_nothing_is_hung_up_on(module: ModuleType) -> None:
    async with street(module) as place:
        crowd = await place.crowd(3)

        refused = await place.come(GREETINGS[module])

        assert await refused.read_rest() == b""
        assert place.refused == [("address_share", "127.0.0.1")]
        crowd[0].abandon()
        await until(lambda: place.pending_connections.count == 2)
        await place.come_in()


@pytest.mark.parametrize("module", [tcp, websocket])
async def test_an_open_link_does_not_count(module: ModuleType) -> None:
    async with street(module) as place:
        for _ in range(10):
            await place.come_in()

        assert place.pending_connections.count == 0
        assert place.refused == []


@pytest.mark.parametrize("module", [tcp, websocket])
async def test_a_loop_that_cannot_tell_who_is_there_accepts_them_too(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    real = loop.add_reader

    def add_reader(fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        # As on Windows: of what listens nobody is told.
        if isinstance(fd, socket.socket) and fd.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise NotImplementedError
        real(fd, callback, *args)

    monkeypatch.setattr(loop, "add_reader", add_reader)
    async with street(module) as place:
        for _ in range(3):
            await place.come_in()

        assert place.pending_connections.count == 0


@pytest.mark.parametrize("module", [tcp, websocket])
async def test_who_speaks_nonsense_does_not_count_once_it_is_gone(module: ModuleType) -> None:
    async with street(module, replace(FEW, close_s=0.1)) as place:
        for _ in range(10):
            await (await place.come(b"\xff" * 300 + b"\r\n\r\n")).read_rest()
            await until(lambda: not place.pending_connections.count)

        assert place.links == []
        assert not any(limit for limit, _ in place.refused)


@pytest.mark.parametrize("module", [tcp, websocket])
async def test_a_tls_handshake_that_does_not_begin_counts_and_one_that_fails_does_not_any_more(
    module: ModuleType,
) -> None:
    async with street(module, ssl=server_context()) as place:
        await place.crowd(3)
        await (await place.come(BYTE)).read_rest()
        assert place.refused == [("address_share", "127.0.0.1")]

    async with street(module, ssl=server_context()) as place:
        for _ in range(5):
            await (await place.come(b"GET / HTTP/1.1\r\n\r\n")).read_rest()
            await until(lambda: not place.pending_connections.count)
        assert place.refused == []


async def test_an_ipv6_network_is_one_address() -> None:
    pending_connections = PendingConnections(replace(LIMITS, unopened_per_address_max=2))

    found = [pending_connections.came(socket.socket(), host) for host in ("2001:db8::1", "2001:db8::2", "2001:db8::3")]
    other = pending_connections.came(socket.socket(), "2001:db8:0:1::1")

    assert [pending is not None for pending in (*found, other)] == [True, True, False, True]
    for pending in (*found, other):
        if pending is not None:
            pending.over()
            pending.over()
    assert pending_connections.count == 0


@pytest.mark.parametrize("proxies", [HERE, HERE_WITH_HEADERS])
async def test_a_proxy_may_pass_on_many_at_a_time_but_not_more_than_there_may_be(proxies: TrustedProxies) -> None:
    async with street(tcp, proxies=proxies) as place:
        await place.crowd(5)

        refused = await place.come(BYTE)

        assert await refused.read_rest() == b""
        assert place.refused == [("unopened_max", "")]


async def test_whom_a_proxy_names_counts_as_if_it_had_come_by_itself() -> None:
    async with street(tcp, replace(FEW, unopened_max=10), proxies=HERE_WITH_HEADERS) as place:
        for _ in range(3):
            await place.come(HEADER)
        await until(lambda: place.pending_connections.count == 3)

        refused = await place.come(HEADER + GREETINGS[tcp])

        assert await refused.read_rest() == b""
        assert place.refused == [("address_share", "203.0.113.7")]
        await place.come_in(OTHER_HEADER)


@pytest.mark.parametrize("module", [tcp, websocket])
async def test_from_the_first_byte_to_an_open_link_there_is_one_deadline(module: ModuleType) -> None:
    limits = replace(LIMITS, handshake_s=1.2)
    async with street(module, limits, proxies=HERE_WITH_HEADERS) as place:
        in_two_steps = await place.come(HEADER[:1])
        await asyncio.sleep(0.3)
        in_one = await place.come(HEADER[:1])
        await asyncio.sleep(0.3)
        in_two_steps.write(HEADER[1:])

        ends = [asyncio.ensure_future(peer.read_rest()) for peer in (in_two_steps, in_one)]
        first, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED, timeout=DEADLINE_S)

        assert ends[0] in first, "its header must not have given it more time"
        await asyncio.gather(*ends)
        assert place.pending_connections.count == 0


@pytest.mark.parametrize("module", [tcp, websocket])
async def test_who_does_not_begin_tls_is_cut_off_when_its_time_is_up(module: ModuleType) -> None:
    async with street(module, replace(LIMITS, handshake_s=0.2), ssl=server_context()) as place:
        peer = await place.come(BYTE)

        assert await peer.read_rest() == b""
        await until(lambda: not place.pending_connections.count)


class Weighing(PendingConnections):
    """Notes how much the system takes for each who comes, before anybody reads it."""

    def __init__(self, limits: TransportLimits) -> None:
        super().__init__(limits)
        self.buffers: list[int] = []

    def came(self, sock: socket.socket | None, host: str) -> PendingConnection | None:
        assert sock is not None
        self.buffers.append(sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
        return super().came(sock, host)


@pytest.mark.parametrize("proxies", [None, HERE, HERE_WITH_HEADERS])
@pytest.mark.parametrize("module", [tcp, websocket])
async def test_the_system_takes_no_more_from_a_peer_than_part_of_a_payload(
    module: ModuleType, proxies: TrustedProxies | None
) -> None:
    async with street(module, proxies=proxies) as place:
        weighing = Weighing(FEW)
        await place.listener.close()
        place.pending_connections = weighing
        await place.open(proxies=proxies)

        await place.crowd(1)

        # Linux doubles what it is asked for.
        assert 0 < weighing.buffers[0] <= 2 * (LIMITS.payload_bytes_max // 4)


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 10_000, reason="there are too few descriptors")
@pytest.mark.parametrize("module", [tcp, websocket])
async def test_thousands_may_come_from_one_address_if_they_say_something(module: ModuleType) -> None:
    """More than may be silent at a time, all at once, by the limits that a server has if nobody changes them."""
    # All but the time: this process is thousands of clients as well, on a machine that may be busy with other tests.
    limits = replace(TransportLimits.of(Limits()), handshake_s=DEADLINE_S)
    count = limits.unopened_per_address_max + 200
    async with street(module, limits) as place, AsyncExitStack() as stack:
        address = place.listener.addresses[0]
        clients = [stack.enter_context(socket.socket()) for _ in range(count)]
        for client in clients:
            client.setblocking(False)

        async def come(client: socket.socket) -> None:
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, address)
            await loop.sock_sendall(client, GREETINGS[module])

        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*map(come, clients))
        await until(lambda: len(place.links) == count)

        assert place.refused == []


@pytest.mark.parametrize("module", [tcp, websocket])
@pytest.mark.parametrize("is_proxy", [True, False])
async def test_where_only_proxies_may_connect_everybody_else_is_hung_up_on(
    module: ModuleType, *, is_proxy: bool
) -> None:
    proxies = TrustedProxies(["127.0.0.1" if is_proxy else "192.0.2.1"], is_exclusive=True)
    async with street(module, proxies=proxies) as place:
        if is_proxy:
            await place.come_in()
        else:
            assert await (await place.come(GREETINGS[module])).read_rest() == b""

        assert len(place.links) == int(is_proxy)
        assert place.refused == ([] if is_proxy else [("trusted_proxies", "127.0.0.1")])
