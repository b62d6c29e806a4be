"""What a server listens on: where it may, for whose pages, and which proxies it trusts."""

from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

import holdfast
from holdfast import Auth, Enet, Limits, Server, Tcp, Tls, WebSocket
from holdfast.core.codec import MSGPACK
from holdfast.http.api import HttpApi
from holdfast.schemas.frames import Hello
from holdfast.transports.listeners import Exposed, Listeners
from holdfast.transports.port import TransportLimits
from tests.server.certificates import Certificates
from tests.server.world import World, chat
from tests.transports.raw import RawPeer

EVERYWHERE = "0.0.0.0"  # noqa: S104 - that is the question


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    certificates = Certificates(tmp_path)
    return Tls(certificates.certificate, certificates.key)


# Where a server may listen.

PORTS = [WebSocket, Tcp]


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("host", [EVERYWHERE, "::", "", "192.0.2.1", "2001:db8::1", "game.example"])
def test_a_public_port_without_encryption_is_refused_with_the_ways_out(
    port: type[WebSocket] | type[Tcp], host: str
) -> None:
    with pytest.raises(Exposed) as refusal:
        port(host=host)

    for way_out in ('tls=Tls("cert.pem", "key.pem")', "127.0.0.1", "trusted_proxies", "insecure=True"):
        assert way_out in str(refusal.value)
    assert f"{port.__name__} connections would not be encrypted" in str(refusal.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_on_this_machine_every_port_is_fine(host: str) -> None:
    for port in PORTS:
        port(host=host)


def test_each_way_out_is_one(tls: Tls) -> None:
    for port in PORTS:
        port(host=EVERYWHERE, tls=tls)
        port(host=EVERYWHERE, trusted_proxies=["10.0.0.7"])
        port(host=EVERYWHERE, trusted_proxies=["10.0.0.7"], proxy_protocol=True)
        port(host=EVERYWHERE, insecure=True)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"port": 0}, "WebSocket(port=7777)"),
        ({"tcp_port": None}, "listen=[]"),
        ({"host": EVERYWHERE}, "WebSocket(host=…)"),
        ({"tls": None}, "Tcp(tls=…)"),
        ({"tcp_key": "server.key"}, "tcps://"),
        ({"tcp_plain": True}, "insecure=True"),
        ({"compression": True}, "WebSocket(compression=True)"),
        ({"recovery": "lazy"}, "Storage("),
        ({"too_many_sessions": "refuse"}, "Limits(sessions_policy="),
        ({"full_share": []}, "Limits(full_share="),
        ({"random": None}, "MemoryServer"),
        ({"now": None}, "MemoryServer"),
        ({"wall": None}, "MemoryServer"),
        ({"hashing": None}, "MemoryServer"),
        ({"fatal": None}, "MemoryServer"),
    ],
)
def test_options_that_are_gone_say_what_to_use_instead(options: dict[str, Any], advice: str) -> None:
    (name,) = options

    with pytest.raises(TypeError) as refusal:
        Server([chat()], **options)

    assert str(refusal.value).startswith(f"`{name}` was removed: ")
    assert advice in str(refusal.value)


def test_what_listens_is_a_list() -> None:
    with pytest.raises(TypeError, match=r"listen=\[WebSocket\(port=7777\)\]"):
        Server([chat()], listen=WebSocket())  # type: ignore[arg-type]  # the mistake


def test_by_default_both_transports_listen_on_this_machine() -> None:
    assert Server([chat()]).listeners.listen == (WebSocket(port=7777), Tcp(port=7779))
    assert not any(port.is_public for port in (WebSocket(), Tcp(), Enet()))


async def test_a_server_may_listen_nowhere_and_on_several_ports_of_one_kind(world: World, tls: Tls) -> None:
    nowhere = await world.serve(chat(), listen=[])
    twice = await world.serve(chat(), listen=[WebSocket(port=0), WebSocket(port=0, tls=tls), Tcp(port=0)])

    assert nowhere.addresses == {}
    assert [url.partition("://")[0] for url in twice.urls.values()] == ["ws", "wss", "tcp"]
    assert list(twice.urls) == ["websocket", "websocket-2", "tcp"]
    assert (await world.connect(twice, transport="tcp")).connected


async def test_a_port_that_is_open_everywhere_is_open_to_this_machine_too(world: World) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, host=EVERYWHERE, insecure=True)])

    async with holdfast.connect(f"ws://127.0.0.1:{server.addresses['websocket'][1]}") as session:
        assert session.connected


# Whose pages may connect.


def page(server: Server, origin: str) -> connect:
    return connect(server.url, origin=Origin(origin), subprotocols=[Subprotocol(MSGPACK.name)], proxy=None)


async def test_pages_of_other_sites_are_refused_and_programs_are_not(world: World) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, origins=["https://game.example"])])

    with pytest.raises(InvalidStatus, match="403"):
        await page(server, "https://evil.example")
    async with page(server, "https://game.example"):
        pass
    assert (await world.connect(server)).connected


async def test_without_a_list_every_page_may_connect(world: World) -> None:
    server = await world.serve(chat())

    async with page(server, "https://anything.example"):
        pass


def test_what_is_no_origin_is_refused() -> None:
    with pytest.raises(ValueError, match="origin"):
        WebSocket(origins=["game.example"])


# Who is believed to be whom.


@pytest.mark.parametrize(("proxies", "host"), [(["127.0.0.0/8"], "203.0.113.7"), ([], "127.0.0.1")])
async def test_a_player_behind_a_trusted_proxy_has_an_address_of_its_own(
    world: World, proxies: list[str], host: str
) -> None:
    server = await world.serve(chat(), listen=[WebSocket(port=0, trusted_proxies=proxies)])

    headers = {"X-Forwarded-For": "203.0.113.7"}
    async with connect(
        server.url, additional_headers=headers, subprotocols=[Subprotocol(MSGPACK.name)], proxy=None
    ) as client:
        await client.send(MSGPACK.payload(Hello(Auth())))
        await client.recv()
        (session,) = server.sessions
        assert session.connection is not None
        assert session.connection.address == host


# Proxies, and nobody else.


@pytest.mark.parametrize(
    ("options", "is_closed"),
    [
        ({"host": EVERYWHERE}, True),
        ({"host": EVERYWHERE, "insecure": True}, False),
        ({"host": "127.0.0.1"}, False),
    ],
)
async def test_a_public_listener_that_does_not_encrypt_is_for_the_proxies_alone(
    world: World, options: dict[str, Any], *, is_closed: bool
) -> None:
    shared: dict[str, Any] = {"port": 0, "trusted_proxies": ["192.0.2.1"], **options}
    server = await world.serve(chat(), listen=[WebSocket(**shared), Tcp(**shared)])

    for name in ("websocket", "tcp"):
        peer = await RawPeer.connect("127.0.0.1", server.addresses[name][1])
        peer.write(b"GET / HTTP/1.1\r\nHost: game.example\r\n\r\n")
        assert (await peer.read_rest() == b"") is is_closed
        peer.abandon()
    assert server.counters.connections_refused == 2


def test_with_a_certificate_a_public_port_is_for_everybody(tls: Tls) -> None:
    proxies = WebSocket(host=EVERYWHERE, tls=tls, trusted_proxies=["192.0.2.1"]).proxies

    assert proxies is not None
    assert not proxies.is_exclusive


# Browsers at the wrong port.


@pytest.mark.parametrize("name", ["websocket", "tcp"])
async def test_a_browser_at_a_game_port_is_told_where_the_dashboard_is(world: World, name: str) -> None:
    server = await world.serve(chat(), http=HttpApi(port=0), listen=[WebSocket(port=0), Tcp(port=0)])
    peer = await RawPeer.connect(*server.addresses[name])

    peer.write(b"GET / HTTP/1.1\r\nHost: game.example:7777\r\n\r\n")

    answer = await peer.read_rest()
    assert f"at http://127.0.0.1:{server.addresses['http'][1]}/\n".encode() in answer
    assert server.counters.connections_refused == 1
    peer.abandon()


def test_a_dashboard_that_listens_everywhere_is_named_as_the_browser_named_the_server() -> None:
    listeners = Listeners([], TransportLimits.of(Limits()), certificate_check_s=60.0)
    listeners.http = ("https", (EVERYWHERE, 7778))

    assert listeners.directions("game.example:7777").endswith("at https://game.example:7778/")
    assert listeners.directions("[2001:db8::7]:7777").endswith("at https://[2001:db8::7]:7778/")
