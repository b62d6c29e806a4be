"""Connections to the API: so many of one address and in all, and whoever is idle longest makes room."""

import asyncio
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits import KIB
from holdfast.http.api import HttpLimits
from holdfast.http.app import App
from holdfast.http.serving import ConnectionLimits, HttpConnection, HttpServer
from tests.deadlines import DEADLINE_S
from tests.http.world import World
from tests.transports.harness import client_context, server_context

IDLE = 560
PROBES = ("/livez", "/readyz")


class FakeConnection(HttpConnection):
    def __init__(self, *, is_idle: bool = True) -> None:
        self._is_idle = is_idle
        self.is_cut = False

    @property
    def is_idle(self) -> bool:
        return self._is_idle

    def cut(self) -> None:
        self.is_cut = True


def limits(per_address_max: int = 2, total_max: int = 4) -> ConnectionLimits:
    return ConnectionLimits(per_address_max=per_address_max, total_max=total_max)


def test_one_too_many_of_an_address_cuts_its_own_that_was_idle_longest() -> None:
    place = limits()
    first, second, other = FakeConnection(), FakeConnection(), FakeConnection()
    for connection, host in ((first, "192.0.2.1"), (second, "192.0.2.1"), (other, "192.0.2.2")):
        assert place.admit(connection, host)
    place.heard(first, "192.0.2.1")

    assert place.admit(FakeConnection(), "192.0.2.1")

    assert (first.is_cut, second.is_cut, other.is_cut) == (False, True, False)


def test_who_is_being_answered_is_never_cut_and_the_newcomer_goes() -> None:
    place = limits()
    busy = [FakeConnection(is_idle=False) for _ in range(2)]
    for connection in busy:
        assert place.admit(connection, "192.0.2.1")

    assert not place.admit(FakeConnection(), "192.0.2.1")
    assert place.admit(FakeConnection(), "192.0.2.2")
    assert not any(connection.is_cut for connection in busy)


def test_one_too_many_in_all_cuts_one_of_the_address_that_has_most() -> None:
    place = limits(per_address_max=3, total_max=4)
    lone, *many = [FakeConnection() for _ in range(4)]
    assert place.admit(lone, "192.0.2.1")
    for connection in many:
        assert place.admit(connection, "192.0.2.2")

    assert place.admit(FakeConnection(), "192.0.2.3")

    assert (lone.is_cut, [connection.is_cut for connection in many]) == (False, [True, False, False])


def test_an_ipv6_network_of_64_bits_is_one_address() -> None:
    place = limits()
    first = FakeConnection()
    for connection, host in (
        (first, "2001:db8::1"),
        (FakeConnection(), "2001:db8::2"),
        (FakeConnection(), "2001:db8::3"),
    ):
        assert place.admit(connection, host)

    assert first.is_cut


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.booleans()), max_size=60))
def test_there_are_never_more_than_the_limits_say(steps: list[tuple[str, bool, bool]]) -> None:
    place = limits(per_address_max=3, total_max=5)
    here: dict[FakeConnection, str] = {}

    for host, is_idle, goes in steps:
        if goes and here:
            connection, where = here.popitem()
            place.remove(connection, where)
        else:
            connection = FakeConnection(is_idle=is_idle)
            if place.admit(connection, host):
                here[connection] = host
        here = {connection: where for connection, where in here.items() if not connection.is_cut}

        assert len(here) <= 5
        assert all(list(here.values()).count(name) <= 3 for name in "abcd")


# With real sockets


@asynccontextmanager
async def sockets(
    server: HttpServer, hosts: list[str], words: bytes = b"", *, buffer_bytes: int = 0
) -> AsyncIterator[None]:
    """Connections from these addresses of this machine that say this and read nothing."""
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        for host in hosts:
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            if buffer_bytes:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            sock.bind((host, 0))
            await loop.sock_connect(sock, server.address)
            with suppress(ConnectionError):  # it may have made room already
                await loop.sock_sendall(sock, words)
        yield


HOSTS = {
    "one address": ["127.0.0.1"] * IDLE,
    "several addresses": [f"127.0.0.{2 + number % 14}" for number in range(IDLE)],
}


@pytest.mark.parametrize("hosts", HOSTS.values(), ids=HOSTS)
@pytest.mark.parametrize("words", [b"", b"GET /livez HTTP/1.1\r\nHost: loc"], ids=["silent", "half a request"])
async def test_probes_are_answered_among_idle_sockets(world: World, hosts: list[str], words: bytes) -> None:
    server = await world.serve()

    async with sockets(server, hosts, words):
        for path in PROBES:
            client = await world.client(server)
            assert (await client.get(path)).status_code == 200


async def test_probes_are_answered_among_handshakes_that_do_not_begin(world: World) -> None:
    server = HttpServer(App(world.backend.operations, (), HttpLimits()), port=0, ssl=server_context())
    await server.start()

    async with sockets(server, HOSTS["one address"]):
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_connection(
                *server.address, ssl=client_context(), server_hostname="localhost", limit=64 * KIB
            )
            writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
        writer.close()

    assert answer.startswith(b"HTTP/1.1 200 ")
    await server.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere this machine has one address")
async def test_probes_are_answered_among_those_who_do_not_read_their_answers(world: World, tmp_path: Path) -> None:
    shutil.copytree(world.site, tmp_path / "site")
    # More than the buffers between here and there hold.
    (tmp_path / "site/assets/dashboard.js").write_bytes(bytes(8 * KIB * KIB))
    world.site = tmp_path / "site"
    server = await world.serve(connections_max=6, connections_per_address_max=2)
    hosts = [f"127.0.0.{2 + number % 3}" for number in range(6)]
    requests = b"GET /assets/dashboard.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10

    async with sockets(server, hosts, requests, buffer_bytes=2 * KIB):
        for path in PROBES:
            client = await world.client(server)
            assert (await client.get(path)).status_code == 200


# Those who came to the wrong port


async def test_a_websocket_is_told_where_to_go(world: World, caplog: pytest.LogCaptureFixture) -> None:
    server = await world.serve()
    peer = await world.dial(server)

    peer.say(
        "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )

    answer = await peer.rest()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"games connect to ws://127.0.0.1:7777" in answer
    assert caplog.records == []


@pytest.mark.parametrize(
    "host",
    ["", "a b", "a,b", "user@localhost", "localhost/", "localhost:", "localhost:0", "[::1", "x" * 300, "caf\xe9"],
)
async def test_a_host_that_is_none_is_refused(world: World, host: str) -> None:
    server = await world.serve()
    peer = await world.dial(server)

    peer.say(f"GET /livez HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")

    assert (await peer.rest()).startswith(b"HTTP/1.1 400 ")


async def test_two_hosts_are_none(world: World) -> None:
    peer = await world.dial(await world.serve())

    peer.say("GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n")

    assert (await peer.rest()).startswith(b"HTTP/1.1 400 ")
