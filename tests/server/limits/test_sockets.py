"""The limits on real sockets: a client that floods, over each transport, and one who keeps the rules beside it."""

import asyncio

import pytest

from holdfast import Limits, Tcp, WebSocket
from holdfast.schemas.events import LimitExceeded
from holdfast.schemas.frames import Ack, Data
from tests.deadlines import DEADLINE_S
from tests.server.limits.street import Hall, Say
from tests.server.world import World

# Forgives nothing, so that it ends soon.
STRICT = Limits(
    messages_burst=100,
    messages_per_s=10.0,
    violations_max=50,
    violations_per_s=0.001,
    flood_pause_s=0.001,
    requests_burst=100_000,
    requests_per_s=100_000.0,
)


@pytest.mark.parametrize("transport", ["websocket", "tcp"])
async def test_who_floods_a_real_socket_is_cut_off_and_a_neighbour_notices_nothing(
    world: World, transport: str
) -> None:
    server = await world.serve(Hall, listen=[WebSocket(port=0), Tcp(port=0)], limits=STRICT)
    flooder = await world.raw(server, transport=transport)
    await flooder.sign_in()
    await flooder.join("hall")
    neighbour = await world.connect(server, transport=transport)
    room = await neighbour.join_or_create("hall")

    for seq in range(1, 3001):
        flooder.send(seq, Say(-1))
    async with asyncio.timeout(DEADLINE_S):
        for n in range(50):
            await room.send(Say(n))
            await neighbour.search()
        while not server.counters.floods:
            await neighbour.search()

    assert (await flooder.closed()).reason == "flooding"
    assert neighbour.drops == 0
    (hall,) = server.rooms
    assert isinstance(hall, Hall)
    assert [n for n in hall.heard if n != -1] == list(range(50))
    assert hall.heard.count(-1) <= STRICT.messages_burst + STRICT.violations_warned_max + 10 * STRICT.messages_per_s


@pytest.mark.parametrize("transport", ["websocket", "tcp"])
async def test_many_messages_in_one_go_all_arrive_in_order(world: World, transport: str) -> None:
    server = await world.serve(Hall, listen=[WebSocket(port=0), Tcp(port=0)])
    client = await world.raw(server, transport=transport)
    await client.sign_in()
    await client.join("hall")

    for seq in range(1, 1501):
        client.send(seq, Say(seq))

    async with asyncio.timeout(DEADLINE_S):
        while max((frame.ack for frame in client.heard if isinstance(frame, Ack | Data)), default=0) < 1500:
            await client.hear(Ack)
    (hall,) = server.rooms
    assert isinstance(hall, Hall)
    assert hall.heard == list(range(1, 1501))


# Who is no proxy comes in as ever.
BESIDE_PROXIES = WebSocket(port=0, trusted_proxies=["192.0.2.1"], proxy_protocol=True)


@pytest.mark.parametrize("port", [WebSocket(port=0), BESIDE_PROXIES], ids=["alone", "beside proxies"])
async def test_a_socket_does_not_take_megabytes_before_anybody_looks_at_them(world: World, port: WebSocket) -> None:
    server = await world.serve(Hall, listen=[port])
    client = await world.raw(server)
    await client.sign_in()
    (connection,) = server.parts.connections
    connection.pause_reading()

    payload = client.codec.encode([["ack", 1, 0, "x" * 10_000]])
    for _ in range(600):
        client.link.send(payload)
    await asyncio.sleep(0)

    # What the system took of it is what both of its buffers hold.
    assert client.link.buffered_bytes > 1_000_000
    connection.resume_reading()


@pytest.mark.parametrize("transport", ["websocket", "tcp"])
async def test_two_addresses_cannot_take_all_sockets_that_are_not_open_yet(world: World, transport: str) -> None:
    server = await world.serve(
        Hall, listen=[WebSocket(port=0), Tcp(port=0)], limits=Limits(unopened_max=8, handshake_s=DEADLINE_S)
    )
    host, port = server.addresses[transport]
    told: asyncio.Queue[LimitExceeded] = asyncio.Queue()
    server.on(LimitExceeded, told.put_nowait)
    writers: list[asyncio.StreamWriter] = []
    try:
        async with asyncio.timeout(DEADLINE_S):
            for address in ("127.0.0.2", "127.0.0.3"):
                for _ in range(8):
                    _, writer = await asyncio.open_connection(host, port, local_addr=(address, 0))
                    writers.append(writer)
                # What was told of the one before is told again, with how often it was.
                while (event := await told.get()).address != address:
                    pass
                assert event.limit == "address_share"
            neighbour = await world.connect(server, transport=transport)

        assert (await neighbour.join_or_create("hall")).kind == "hall"
    finally:
        for writer in writers:
            writer.close()


async def test_a_load_test_names_its_network(world: World) -> None:
    server = await world.serve(Hall, limits=Limits(sessions_max=8, full_share=("127.0.0.0/8", "::1")))

    sessions = [await world.connect(server) for _ in range(8)]

    assert all(session.connected for session in sessions)
