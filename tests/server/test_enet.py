"""Sessions over ENet: the fall back where UDP is blocked, and the change of the way in the middle of everything."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import cycle

import pytest

from holdfast import Auth, Enet, Limits, NotSeated, Outcome, WebSocket, connect
from holdfast.client.connect import dial
from holdfast.transports.listeners import Exposed
from holdfast.transports.port import Receiver, Subprotocol, Transport, TransportLimits
from tests.server.world import Said, Say, World, chat, hear, until_resumed
from tests.transports.enet.test_endpoint import Router

PORTS = [WebSocket(port=0), Enet(port=0)]
QUICK = Limits(handshake_s=0.2)


class Blocked:
    """An address at which nobody ever answers, and what was sent there."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.url = f"enet://127.0.0.1:{sock.getsockname()[1]}"

    def count(self) -> int:
        """The packets since the last look."""
        count = 0
        with suppress(BlockingIOError):
            while self._sock.recv(2_000):
                count += 1
        return count


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        yield Blocked(sock)


async def test_a_session_changes_its_way_in_the_middle_of_a_backlog_and_back(world: World) -> None:
    server = await world.serve(chat(), listen=PORTS)
    ways = cycle([server.urls["enet"], server.urls["websocket"]])
    used: list[str] = []

    async def alternate(receiver: Receiver, _: str, subprotocol: Subprotocol, limits: TransportLimits) -> Transport:
        transport = await dial(receiver, next(ways), subprotocol, limits)
        used.append(transport.kind)
        return transport

    session = await world.connect(server, dial=alternate)
    room = await session.join_or_create("chat")
    texts = [str(number) for number in range(400)]

    async def send() -> None:
        for number, text in enumerate(texts, start=1):
            await room.send(Say(text * 20))
            if number % 80 == 0:
                # What was just sent is on its way, or waits.
                await until_resumed(session, session.cut)

    sending = asyncio.create_task(send())
    echoes = [await room.receive(Said) for _ in texts]
    await sending

    assert [echo.text for echo in echoes] == [text * 20 for text in texts]
    assert used == ["enet", "websocket"] * 3
    assert session.transport == "websocket"
    assert {one.transport_kind for one in server.parts.connections} == {"websocket"}


async def test_where_udp_is_blocked_the_client_takes_the_next_way_and_says_so(world: World, blocked: Blocked) -> None:
    server = await world.serve(chat(), listen=PORTS)

    async with connect([blocked.url, server.urls["websocket"]], limits=QUICK) as session:
        assert session.transport == "websocket"
        assert blocked.count() > 0
        await until_resumed(session, session.cut)

        assert session.transport == "websocket"
        assert blocked.count() == 0, "it waited for the blocked way again"
    assert session.transport == ""


async def test_the_first_way_is_taken_where_it_works(world: World) -> None:
    server = await world.serve(chat(), listen=PORTS)

    async with connect([server.urls["enet"], server.urls["websocket"]]) as session:
        assert session.transport == "enet"


async def test_when_no_way_works_each_is_named(blocked: Blocked) -> None:
    with pytest.raises(OSError, match=r"did not answer in time; .*cannot be reached|refused"):
        await connect([blocked.url, "tcp://127.0.0.1:1"], limits=QUICK)


async def test_a_phone_whose_address_changes_resumes_and_nothing_is_lost_or_doubled(world: World) -> None:
    limits = Limits(udp_ping_s=0.05, udp_timeout_s=0.5)
    server = await world.serve(chat(), listen=[Enet(port=0)], limits=limits)
    router = Router(server.addresses["enet"][1])
    async with connect(await router.open(), messages=[Said], limits=limits) as session:
        room = await session.join_or_create("chat")
        resumed: asyncio.Queue[Outcome] = asyncio.Queue()
        session.on_resume(resumed.put_nowait)
        for number in range(3):
            await room.send(Say(f"before {number}"))
        await router.change_address()
        for number in range(3):
            await room.send(Say(f"after {number}"))

        echoes = [(await room.receive(Said)).text for _ in range(6)]

        assert echoes == [f"{when} {number}" for when in ("before", "after") for number in range(3)]
        assert (await resumed.get()).kind == "resumed"
    router.close()


async def test_ipv6_and_a_takeover_and_a_stop_are_as_on_every_transport(world: World) -> None:
    server = await world.serve(chat(), listen=[Enet(host="::1", port=0)])
    assert server.urls["enet"].startswith("enet://[::1]:")
    session = await world.connect(server, transport="enet")
    room = await session.join_or_create("chat")
    (link,) = server.parts.connections
    assert link.transport_kind == "enet"

    again = await world.connect(server, transport="enet", auth=Auth("guest", session.credential))
    newer = await again.join(room.id)
    with pytest.raises(NotSeated, match="joined again from elsewhere"):
        await hear(room, "never")
    await newer.send(Say("still here"))
    await hear(newer, "still here")
    await server.stop()

    with pytest.raises(NotSeated, match="room_closed"):
        await hear(newer, "never")


async def test_what_operators_see_says_enet_and_datagrams_are_in_the_packet_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = await world.serve(chat(), listen=[Enet(port=0)])
    session = await world.connect(server, transport="enet")
    room = await session.join_or_create("chat")
    server.packet_log(session=session.id)
    with caplog.at_level(logging.DEBUG, "holdfast.packets"):
        room.send_latest(Say("perhaps"))
        await room.send(Say("surely"))
        await hear(room, "surely")

    metrics = (await server.parts.exposition.text()).decode()
    timeline = await server.operate.timelines.of(session.id)
    assert server.operate.sessions.get(session.id).transport == "enet"
    assert 'holdfast_connections_opened_total{transport="enet"} 1.0' in metrics
    assert any(getattr(each, "transport", "") == "enet" or "enet" in str(each) for each in timeline.entries)
    assert "surely" in caplog.text
    assert "latest" in caplog.text


def test_a_public_port_without_encryption_is_refused() -> None:
    for host in ("0.0.0.0", "::", "", "192.0.2.1"):  # noqa: S104 - what is refused
        with pytest.raises(Exposed, match="insecure=True"):
            Enet(host=host)

    assert Enet(host="192.0.2.1", insecure=True).is_readable
    assert Enet().url(("::1", 7780)) == "enet://[::1]:7780"


async def test_a_port_that_is_taken_is_an_error_that_names_it(world: World) -> None:
    first = await world.serve(chat(), listen=[Enet(port=0)])
    port = first.addresses["enet"][1]

    with pytest.raises(OSError, match=str(port)):
        await world.serve(chat(), listen=[Enet(port=port)])
