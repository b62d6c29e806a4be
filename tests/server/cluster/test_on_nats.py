"""Nodes with real sockets on a real NATS."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast import Server, WebSocket, connect
from holdfast.client.room import ClientRoom
from holdfast.client.session import ClientSession
from holdfast.schemas.frames import Auth
from holdfast.server.cluster.parts import ClusterParts
from holdfast.stores import StoreError
from holdfast.stores.nats import NatsStore
from holdfast.testing.server import Named, generous
from tests.deadlines import DEADLINE_S
from tests.nats_cluster import NatsCluster
from tests.nats_server import NatsServer
from tests.ports import free_ports
from tests.server.cluster.nodes import Lounge, Said, Say, Table


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[NatsCluster]:
    servers = NatsCluster(tmp_path)
    servers.start()
    yield servers
    servers.stop()


class Den(Lounge):
    """Two seats and a waitlist."""

    kind = "den"
    max_players = 2
    waiting_max = 8


class Single(Lounge):
    """One seat."""

    kind = "single"
    max_players = 1


@asynccontextmanager
async def node(name: str, url: str, *, port: int = 0, advertise: str = "") -> AsyncIterator[Server]:
    server = Server(
        [Table, Lounge, Den, Single],
        name=name,
        listen=[WebSocket(port=port)],
        advertise=advertise,
        auth=[Named()],
        secret=bytes(32),
        cluster=url,
        limits=generous(),
    )
    async with server:
        yield server


async def make_stream(url: str) -> None:
    """The first stream takes its time: three servers that have only just met do not answer everything."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            store = NatsStore(url)
            with suppress(StoreError):
                await store.open()
                await store.close()
                return
            await asyncio.sleep(0.1)


def cluster_of(server: Server) -> ClusterParts:
    cluster = server.parts.cluster
    assert cluster is not None
    return cluster


async def client(player: str, *servers: Server) -> ClientSession:
    urls = [server.url for server in servers]
    return await connect(urls if len(urls) > 1 else urls[0], auth=Auth("name", player), messages=[Said])


async def texts(room: ClientRoom, count: int) -> list[str]:
    async with asyncio.timeout(DEADLINE_S):
        return [(await room.receive(Said)).text for _ in range(count)]


async def talk(room: ClientRoom, count: int) -> None:
    for number in range(count):
        await room.send(Say(str(number)))
        await asyncio.sleep(0.01)


async def test_a_room_moves_to_and_fro_under_talk_and_stands_still_for_a_moment(nats: NatsServer) -> None:
    async with node("a", f"{nats.url}/one") as a, node("b", f"{nats.url}/one") as b:
        ann, bob = await client("ann", a), await client("bob", b)
        anns = await ann.join_or_create("table")
        bobs = await bob.join(anns.id)
        relayed = a.sessions.get(bob.id)
        assert relayed is not None
        assert relayed.connection is not None
        # Of the client, not of the node that relays it.
        assert (relayed.connection.transport_kind, relayed.connection.address) == ("relay", "127.0.0.1")
        drops: list[object] = []
        ann.on_drop(drops.append)
        bob.on_drop(drops.append)
        count = 150

        talking = [asyncio.create_task(talk(room, count)) for room in (anns, bobs)]
        hearing = [asyncio.create_task(texts(room, 2 * count)) for room in (anns, bobs)]
        for number in range(6):
            await asyncio.sleep(0.15)
            await cluster_of(a).migration.move(anns.id, "ba"[number % 2])
        heard = await asyncio.gather(*hearing)
        await asyncio.gather(*talking)

        assert heard[0] == heard[1]
        for name in ("ann", "bob"):
            assert [each for each in heard[0] if each.startswith(name)] == [f"{name}:{n}" for n in range(count)]
        assert drops == []
        pauses = [*cluster_of(a).migration.pauses_s, *cluster_of(b).migration.pauses_s]
        assert len(pauses) == 6
        await ann.close()
        await bob.close()


async def test_a_directory_of_three_nodes_is_one_on_nats(nats: NatsServer) -> None:
    url = f"{nats.url}/directory"
    async with node("a", url) as a, node("b", url) as b, node("c", url) as c:
        servers = (a, b, c)
        callers = [await client(f"caller {n}", servers[n % 3]) for n in range(60)]
        rooms = await asyncio.gather(*(each.join_or_create("single") for each in callers))
        assert len({room.id for room in rooms}) == 60

        zoe, yan = await client("zoe", b), await client("yan", b)
        den = await zoe.join_or_create("den")
        await yan.join(den.id)
        # With a seat on one node, they wait for one on another, and are offered it where they are by then.
        ann = await client("ann", a)
        table = await ann.join_or_create("table")
        waits = asyncio.Event()
        waiting = asyncio.create_task(ann.wait_for_seat(den.id, on_position=lambda _: waits.set()))
        async with asyncio.timeout(DEADLINE_S):
            await waits.wait()
        await cluster_of(a).migration.move(table.id, "c")
        await table.leave()
        began = asyncio.get_running_loop().time()
        await den.leave()
        async with asyncio.timeout(DEADLINE_S):
            assert (await waiting).id == den.id
        # A client asks for its place every five seconds: this was told.
        assert asyncio.get_running_loop().time() - began < 4.0

        # With a seat on one node, they change and reserve on another.
        also_yan = await client("yan", c)
        lounge = await also_yan.create("lounge")
        changed = await yan.update_room(lounge.id, name="new")
        assert (changed.name, changed.id) == ("new", lounge.id)
        assert (await yan.reserve(lounge.id, players=["zoe"])).players == ["zoe"]
        assert b.sessions.get(yan.id) is not None
        for session in (*callers, zoe, yan, also_yan, ann):
            await session.close()


async def test_a_node_that_stops_empties_itself_and_its_successor_takes_part_again(nats: NatsServer) -> None:
    async with node("b", f"{nats.url}/two") as b:
        async with node("a", f"{nats.url}/two") as a:
            ann = await client("ann", a, b)
            room = await ann.join_or_create("table")
            await room.send(Say("1"))
            assert await texts(room, 1) == ["ann:1"]
            await a.drain(1.0)
            assert b.rooms.get(room.id) is not None
        await room.send(Say("2"))
        assert await texts(room, 1) == ["ann:2"]
        async with node("a", f"{nats.url}/two") as again:
            await cluster_of(b).migration.move(room.id, "a")
            await room.send(Say("3"))
            assert await texts(room, 1) == ["ann:3"]
            assert again.rooms.get(room.id) is not None
            await ann.close()


# nats-py lets go of a connection that breaks while it is made without closing it: the collector does.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_lost_leader_costs_a_pause_and_loses_nothing(three: NatsCluster) -> None:
    url = three.url("leader")
    await make_stream(url)
    async with node("a", url) as a, node("b", url) as b:
        ann, bob = await client("ann", a, b), await client("bob", b, a)
        anns = await ann.join_or_create("table")
        bobs = await bob.join(anns.id)
        count = 100
        talking = [asyncio.create_task(talk(room, count)) for room in (anns, bobs)]
        hearing = [asyncio.create_task(texts(room, 2 * count)) for room in (anns, bobs)]
        await asyncio.sleep(0.3)
        leader = await asyncio.to_thread(three.leader)
        assert leader is not None
        await asyncio.to_thread(three.servers[leader].kill)
        heard = await asyncio.gather(*hearing)
        await asyncio.gather(*talking)

        assert heard[0] == heard[1]
        for name in ("ann", "bob"):
            assert [each for each in heard[0] if each.startswith(name)] == [f"{name}:{n}" for n in range(count)]
        owners = [server for server in (a, b) if server.rooms.get(anns.id) is not None]
        assert len(owners) == 1
        await ann.close()
        await bob.close()


async def test_the_figures_of_its_process_have_the_name_of_the_node_too(nats: NatsServer) -> None:
    async with node("a", f"{nats.url}/one") as a:
        text = (await a.operate.metrics.text()).decode()

    families = list(text_string_to_metric_families(text))
    assert {each.labels.get("node") for family in families for each in family.samples} == {"a"}
    assert {"process_cpu_seconds", "holdfast_sessions"} <= {family.name for family in families}


async def test_a_relayed_client_goes_to_the_address_that_its_node_advertises(nats: NatsServer) -> None:
    [port] = free_ports(1)
    address = f"ws://127.0.0.1:{port}"
    async with node("a", nats.url, port=port, advertise=address) as a, node("b", nats.url) as b:
        ann, bob = await client("ann", a), await client("bob", b)
        told: list[object] = []
        for event in (bob.on_drop, bob.on_resume, bob.on_reconnecting):
            event(told.append)
        room = await ann.join((await ann.create("table")).id)
        bobs = await bob.join(room.id)

        async with asyncio.timeout(DEADLINE_S):
            while len(b.parts.connections) > 0:
                await bobs.send(Say("."))
                await asyncio.sleep(0.01)
        await bobs.send(Say("last"))
        said = [(await bobs.receive(Said)).text]
        while said[-1] != "bob:last":
            said += await texts(bobs, 1)

        session = a.sessions.get(bob.id)
        assert session is not None
        assert session.connection is not None
        assert session.connection.transport_kind == "websocket"
        table = a.rooms.get(room.id)
        assert isinstance(table, Table)
        assert table.state.said == said
        assert told == []
        listed = {each.name: each.address for each in b.operate.nodes.list().nodes}
        assert listed == {"a": address, "b": ""}
        await ann.close()
        await bob.close()


@pytest.mark.parametrize(
    "url", ["node-a.example", "https://node-a", "wss://", "wss://user@node-a", "ws://a:b", "ws://a?x"]
)
def test_an_address_that_no_client_could_dial_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="clients need an address such as wss:"):
        Server([Table], cluster="nats://127.0.0.1:1/x", advertise=url)


def test_a_server_that_is_alone_advertises_nothing() -> None:
    with pytest.raises(ValueError, match="advertise is for a node of a cluster"):
        Server([Lounge], advertise="wss://node-a.example")
