"""Unreliable messages over UDP beside WebSocket and TCP, with real sockets."""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Message, Player, PlayerData, Room, Server, Tcp, Tls, Udp, WebSocket, on
from holdfast.client.connect import dial
from holdfast.client.session import ClientSession
from holdfast.transports import Listen
from holdfast.transports.udp.client import ClientUdp
from holdfast.transports.udp.sockets import open_udp
from tests.deadlines import DEADLINE_S
from tests.server.certificates import Certificates
from tests.server.world import World, until_resumed
from tests.transports.enet.test_endpoint import Router


class Aim(Message):
    angle: int


class Arena(Room[PlayerData]):
    """Tells everybody where everybody aims."""

    @on(Aim)
    def aimed(self, _: Player[PlayerData], aim: Aim) -> None:
        for each in self.players:
            each.send_latest(aim)


async def until_sent_over(session: ClientSession, transport: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while session.latest_transport != transport:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.02)


async def echoed(session: ClientSession, angle: int) -> None:
    room = session.room
    assert room is not None
    async with asyncio.timeout(DEADLINE_S):
        while True:
            room.send_latest(Aim(angle))
            try:
                async with asyncio.timeout(0.5):
                    if await room.receive(Aim) == Aim(angle):
                        return
            except TimeoutError:
                continue  # it may be lost


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("transport", ["websocket", "tcp"])
async def test_a_session_signs_in_over_tls_and_its_newest_values_travel_over_udp(
    world: World, tmp_path: Path, transport: str, host: str
) -> None:
    certificates = Certificates(tmp_path)
    tls = Tls(certificates.certificate, certificates.key)
    ports = [WebSocket(host=host, port=0, tls=tls), Tcp(host=host, port=0, tls=tls), Udp(host=host, port=0)]
    server = await world.serve(Arena, listen=ports)
    session = await world.connect(server, transport=transport, ssl=certificates.trust, messages=[Aim])
    await session.join_or_create("arena")
    await until_sent_over(session, "udp")

    await echoed(session, 7)

    (connection,) = server.parts.connections
    assert (connection.transport_kind, connection.is_encrypted) == (transport, True)
    assert session.transport == transport
    assert set(server.urls) == {"websocket", "tcp"}
    assert "udp" in server.addresses
    assert server.counters.datagrams_forged == 0


async def test_a_session_goes_on_over_udp_after_a_drop_and_a_new_address(world: World) -> None:
    server = await world.serve(Arena, listen=[WebSocket(port=0), Udp(port=0)])
    router = Router(server.addresses["udp"][1])
    port = int((await router.open()).rpartition(":")[2])

    async def through_router(host: str, _: int, received: Callable[[bytes], None]) -> ClientUdp:
        return await open_udp(host, port, received)

    session = await world.connect(server, dial=dial, open_udp=through_router, messages=[Aim])
    await session.join_or_create("arena")
    await until_sent_over(session, "udp")
    await until_resumed(session, session.cut)
    await until_sent_over(session, "udp")
    await echoed(session, 1)

    await router.change_address()
    await asyncio.sleep(0)
    await until_sent_over(session, "udp")
    await echoed(session, 2)

    assert session.drops == 1
    router.close()


async def test_where_udp_does_not_get_through_the_stream_carries_everything(world: World) -> None:
    server = await world.serve(Arena, listen=[WebSocket(port=0), Udp(port=0)])
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as silent:
        silent.bind(("127.0.0.1", 0))

        async def to_nobody(host: str, _: int, received: Callable[[bytes], None]) -> ClientUdp:
            return await open_udp(host, silent.getsockname()[1], received)

        session = await world.connect(server, dial=dial, open_udp=to_nobody, messages=[Aim])
        await session.join_or_create("arena")
        await echoed(session, 3)

        assert session.latest_transport == "websocket"
        assert silent.recv(100), "it has tried"


async def test_the_key_is_in_no_log_and_no_metric(world: World, caplog: pytest.LogCaptureFixture) -> None:
    server = await world.serve(Arena, listen=[WebSocket(port=0), Udp(port=0)])
    keys: list[str] = []
    opened = server.parts.connection_services.open_path

    def note(deliver: Callable[[bytes], None]) -> object:
        path = opened(deliver)
        assert path is not None
        keys.append(path.offer.secret)
        return path

    server.parts.connection_services.open_path = note  # type: ignore[assignment]  # the same with a note
    with caplog.at_level(logging.DEBUG):
        server.packet_log(address="127.0.0.1")
        session = await world.connect(server, messages=[Aim])
        await session.join_or_create("arena")
        await until_sent_over(session, "udp")
        await echoed(session, 4)

    (key,) = keys
    metrics = (await server.parts.exposition.text()).decode()
    assert "welcome" in caplog.text
    assert "latest" in caplog.text
    assert key not in caplog.text
    assert key.encode().hex(" ") not in caplog.text
    assert key not in metrics
    assert 'holdfast_datagrams_dropped_total{reason="forged"} 0.0' in metrics


def test_it_needs_another_port_beside_it_and_there_is_one() -> None:
    wrong: list[list[Listen]] = [[Udp()], [WebSocket(), Udp(), Udp(port=7782)]]
    for listen in wrong:
        with pytest.raises(ValueError, match="send_latest"):
            Server([Arena], listen=listen)


async def test_the_port_of_a_proxy_is_told_to_clients(world: World) -> None:
    server = await world.serve(Arena, listen=[WebSocket(port=0), Udp(port=0, public_host="localhost")])
    session = await world.connect(server, messages=[Aim])
    await session.join_or_create("arena")

    path = server.parts.udp_paths.open(lambda _: None)
    assert path is not None
    assert (path.offer.host, path.offer.port) == ("localhost", server.addresses["udp"][1])
    path.close()


async def test_a_port_that_is_taken_is_an_error_that_names_it(world: World) -> None:
    first = await world.serve(Arena, listen=[WebSocket(port=0), Udp(port=0)])
    port = first.addresses["udp"][1]

    with pytest.raises(OSError, match=str(port)):
        await world.serve(Arena, listen=[WebSocket(port=0), Udp(port=port)])
