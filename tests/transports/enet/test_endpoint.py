"""The sockets of ENet, on the loopback interface: limits before a link, and addresses that change."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from holdfast.testing.transport_checks import BINARY, LIMITS, LinkRecorder
from holdfast.transports import enet
from holdfast.transports.enet import wire
from holdfast.transports.enet.endpoint import ServerSocket
from holdfast.transports.enet.peer import Peer, PeerState
from holdfast.transports.listening import PendingConnections
from holdfast.transports.port import GOING_AWAY, VANISHED, DialError, TransportLimits
from tests.deadlines import DEADLINE_S
from tests.transports.harness import EnetAdapter, Harness

QUICK = replace(LIMITS, udp_ping_s=0.05, udp_timeout_s=0.5)


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness(EnetAdapter())
    yield harness
    await harness.finish()


class Silent(asyncio.DatagramProtocol):
    """A client that proves its address and then says nothing."""

    def __init__(self) -> None:
        self._peer = Peer.dialing(LIMITS, 1, 0.0)
        self.connected = asyncio.Event()
        self.udp: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.udp = transport
        self._write()

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._peer.receive(wire.decode(data), asyncio.get_running_loop().time())
        self._write()
        if self._peer.state is PeerState.CONNECTED:
            self.connected.set()

    def _write(self) -> None:
        for data in self._peer.write(asyncio.get_running_loop().time()):
            self.udp.sendto(data)

    @classmethod
    async def come(cls, port: int) -> "Silent":
        loop = asyncio.get_running_loop()
        _, silent = await loop.create_datagram_endpoint(cls, remote_addr=("127.0.0.1", port))
        async with asyncio.timeout(DEADLINE_S):
            await silent.connected.wait()
        return silent


async def test_an_address_has_only_its_share_of_the_handshakes_and_not_for_long() -> None:
    limits = replace(LIMITS, unopened_per_address_max=2, handshake_s=0.3)
    refused: list[str] = []
    gate = PendingConnections(limits, lambda limit, _: refused.append(limit))
    accepted: list[LinkRecorder] = []

    def accept() -> LinkRecorder:
        accepted.append(LinkRecorder())
        return accepted[-1]

    listener = await enet.listen(
        accept, host="127.0.0.1", port=0, subprotocols=[BINARY], limits=limits, pending_connections=gate
    )
    port = listener.addresses[0][1]
    clients = [await Silent.come(port) for _ in range(3)]
    async with asyncio.timeout(DEADLINE_S):
        while not refused or gate.count:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    recorder = LinkRecorder()
    await enet.dial(recorder, f"enet://127.0.0.1:{port}", subprotocols=[BINARY], limits=LIMITS)

    assert refused == ["address_share"]
    assert len(accepted) == 1
    await accepted[0].opening()
    assert gate.count == 0
    for client in clients:
        client.udp.close()
    recorder.link.abort()
    await recorder.loss()
    await listener.close()


class Router(asyncio.DatagramProtocol):
    """A NAT in front of one client: it can take another address for it."""

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._inside: Any = None
        self._client: Any = None
        self._outside: Any = None

    async def open(self) -> str:
        loop = asyncio.get_running_loop()
        self._inside, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        await self.change_address()
        return f"enet://127.0.0.1:{self._inside.get_extra_info('sockname')[1]}"

    async def change_address(self) -> None:
        if self._outside is not None:
            self._outside.close()
        router = self

        class Outside(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: object) -> None:
                router._inside.sendto(data, router._client)

        self._outside, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            Outside, local_addr=("127.0.0.1", 0)
        )

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._client = addr
        self._outside.sendto(data, self._server)

    def close(self) -> None:
        self._inside.close()
        self._outside.close()


@pytest.mark.parametrize("sends", [True, False])
async def test_a_client_whose_address_changes_loses_its_link_soon_and_can_dial_again(
    harness: Harness, sends: bool
) -> None:
    listener = await harness.listen(limits=QUICK)
    router = Router(listener.addresses[0][1])
    url = await router.open()
    first, again = LinkRecorder(), LinkRecorder()
    await enet.dial(first, url, subprotocols=[BINARY], limits=QUICK)
    first.link.send(b"before")
    assert await (await harness.accept()).payload() == [b"before"]

    await router.change_address()
    if sends:
        first.link.send(b"from elsewhere")

    assert await first.loss() == (VANISHED, "")
    await enet.dial(again, url, subprotocols=[BINARY], limits=QUICK)
    again.link.send(b"after")
    assert await (await harness.accept(2)).payload() == [b"after"]
    assert harness.accepted[0].payloads == [b"before"]
    again.link.abort()
    await again.loss()
    router.close()


async def test_a_listener_that_closes_refuses_new_clients_at_once_while_it_has_links(harness: Harness) -> None:
    listener = await harness.listen()
    await harness.dial(listener)
    await harness.accept()

    await listener.close()

    with pytest.raises(DialError, match=str(GOING_AWAY)) as refusal:
        await harness.dial(listener)
    assert refusal.value.retry


@pytest.mark.parametrize("url", ["enet://", "enet://host", "udp://host:1", "enet://host:port", "enet://[::1:7780"])
async def test_a_url_that_is_none_is_refused_for_good(url: str) -> None:
    with pytest.raises(DialError) as refusal:
        await enet.dial(LinkRecorder(), url, subprotocols=[BINARY], limits=LIMITS)

    assert not refusal.value.retry


async def test_noise_at_an_open_port_changes_nothing(harness: Harness) -> None:
    dialed, accepted = await harness.pair()
    loop = asyncio.get_running_loop()
    noise, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=("127.0.0.1", harness.port))

    for data in (
        b"",
        b"\x00",
        bytes(2000),
        b"GET / HTTP/1.1\r\n\r\n",
        wire.encode(0, 0, 1, [wire.PeerPing(255, 1, True)]),
    ):
        noise.sendto(data)
    dialed.link.send(b"heard")

    assert await accepted.payload() == [b"heard"]
    assert len(harness.accepted) == 1
    noise.close()


class Wires(ServerSocket):
    """A server's socket whose packets are handed to the clients as they are written; there is no network."""

    clients: dict[Any, Peer]

    def write(self, address: Any, datagrams: Sequence[bytes]) -> None:
        for datagram in datagrams:
            self.clients[address].receive(wire.decode(datagram), 0.0)


async def test_one_socket_has_more_peers_than_enet_has_ids_and_tells_them_apart() -> None:
    count = 4_500
    receivers: list[LinkRecorder] = []

    def accept() -> LinkRecorder:
        receivers.append(LinkRecorder())
        return receivers[-1]

    limits = replace(LIMITS, unopened_max=count, unopened_per_address_max=count)
    server = Wires(accept, [BINARY], limits, PendingConnections(limits), bytes(32))
    # Each at another port; all of them call themselves 0, as clients of one connection do.
    server.clients = {("192.0.2.1", port): Peer.dialing(limits, port, 0.0) for port in range(1, count + 1)}

    async def exchange() -> None:
        for address, client in server.clients.items():
            for datagram in client.write(0.0):
                server.datagram_received(datagram, address)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    for _ in range(2):
        await exchange()
    for (_, port), client in server.clients.items():
        client.send(BINARY.name.encode())
        client.send(b"%d" % port)
    await exchange()

    assert {client.state for client in server.clients.values()} == {PeerState.CONNECTED}
    assert len(receivers) == count
    assert {receiver.link.peer.rpartition(":")[2].encode(): receiver.payloads for receiver in receivers} == {
        b"%d" % port: [b"%d" % port] for _, port in server.clients
    }
    for receiver in receivers:
        receiver.link.abort()


async def test_pings_and_repetitions_keep_a_link_busy(harness: Harness) -> None:
    limits: TransportLimits = replace(LIMITS, udp_ping_s=0.01)
    dialed, accepted = await harness.pair(limits=limits)

    await accepted.until(lambda: accepted.busy_count > 0)

    assert dialed.busy_count == 0
