"""The doors of a server: where they may stand open, for whose pages, and who is believed to be whom."""

from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

import holdfast
from holdfast import Auth, Limits, Server, Tls
from holdfast.core.codec import MSGPACK
from holdfast.http.api import HttpApi
from holdfast.schemas.frames import Hello
from holdfast.server.admission.doors import Doors, DoorSettings, Exposed
from tests.server.certificates import Certificates
from tests.server.world import World, chat
from tests.transports.raw import RawPeer

EVERYWHERE = "0.0.0.0"  # noqa: S104 - that is the question


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    certificates = Certificates(tmp_path)
    return Tls(certificates.certificate, certificates.key)


# Where they may stand open.


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "", "192.0.2.1", "2001:db8::1", "game.example"])
def test_a_door_where_others_could_listen_in_is_refused_with_the_ways_out(host: str) -> None:
    with pytest.raises(Exposed) as refusal:
        Server([chat()], host=host)

    for way_out in ('tls=Tls("cert.pem", "key.pem")', "127.0.0.1", "trusted_proxies", "insecure=True"):
        assert way_out in str(refusal.value)
    assert "WebSocket and TCP" in str(refusal.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_on_this_machine_every_door_is_fine(host: str) -> None:
    Server([chat()], host=host)


def test_each_way_out_is_one(tls: Tls) -> None:
    Server([chat()], host=EVERYWHERE, tls=tls)
    Server([chat()], host=EVERYWHERE, trusted_proxies=["10.0.0.7"])
    Server([chat()], host=EVERYWHERE, trusted_proxies=["10.0.0.7"], proxy_protocol=True)
    Server([chat()], host=EVERYWHERE, insecure=True)
    Server([chat()], host=EVERYWHERE, port=None, tcp_port=None)


@pytest.mark.parametrize(("option", "advice"), [("tcp_key", "tcps://"), ("tcp_plain", "insecure=True")])
def test_options_that_are_gone_say_what_to_use_instead(option: str, advice: str) -> None:
    options: dict[str, Any] = {option: True}

    with pytest.raises(TypeError, match=f"`{option}` was removed.*{advice}"):
        Server([chat()], **options)


async def test_a_door_that_was_wanted_everywhere_is_open_to_this_machine_too(world: World) -> None:
    server = await world.serve(chat(), host=EVERYWHERE, insecure=True)

    async with holdfast.connect(f"ws://127.0.0.1:{server.addresses['websocket'][1]}") as session:
        assert session.connected


# Whose pages may connect.


def page(server: Server, origin: str) -> connect:
    return connect(server.url, origin=Origin(origin), subprotocols=[Subprotocol(MSGPACK.name)], proxy=None)


async def test_pages_of_other_sites_are_refused_and_programs_are_not(world: World) -> None:
    server = await world.serve(chat(), origins=["https://game.example"])

    with pytest.raises(InvalidStatus, match="403"):
        await page(server, "https://evil.example")
    async with page(server, "https://game.example"):
        pass
    assert (await world.connect(server)).connected


async def test_without_a_list_every_page_may_connect(world: World) -> None:
    server = await world.serve(chat())

    async with page(server, "https://anything.example"):
        pass


def test_what_is_no_origin_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="origin"):
        Server([chat()], origins=["game.example"])


# Who is believed to be whom.


@pytest.mark.parametrize(("proxies", "host"), [(["127.0.0.0/8"], "203.0.113.7"), ([], "127.0.0.1")])
async def test_a_player_behind_a_trusted_proxy_has_an_address_of_its_own(
    world: World, proxies: list[str], host: str
) -> None:
    server = await world.serve(chat(), trusted_proxies=proxies)

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
async def test_a_public_door_that_does_not_encrypt_is_for_the_proxies_alone(
    world: World, options: dict[str, Any], *, is_closed: bool
) -> None:
    server = await world.serve(chat(), trusted_proxies=["192.0.2.1"], tcp_port=0, **options)

    for name in ("websocket", "tcp"):
        peer = await RawPeer.connect("127.0.0.1", server.addresses[name][1])
        peer.write(b"GET / HTTP/1.1\r\nHost: game.example\r\n\r\n")
        assert (await peer.read_rest() == b"") is is_closed
        peer.abandon()
    assert server.counters.connections_refused == 2


def test_with_a_certificate_a_public_door_is_for_everybody(tls: Tls) -> None:
    settings = DoorSettings(host=EVERYWHERE, tls=tls, trusted_proxies=["192.0.2.1"])

    proxies = settings.proxies()
    assert proxies is not None
    assert not proxies.is_exclusive


# Those who came to the wrong door.


@pytest.mark.parametrize("name", ["websocket", "tcp"])
async def test_a_browser_at_a_game_port_is_told_where_the_dashboard_is(world: World, name: str) -> None:
    server = await world.serve(chat(), http=HttpApi(port=0), tcp_port=0)
    peer = await RawPeer.connect(*server.addresses[name])

    peer.write(b"GET / HTTP/1.1\r\nHost: game.example:7777\r\n\r\n")

    answer = await peer.read_rest()
    assert f"at http://127.0.0.1:{server.addresses['http'][1]}/\n".encode() in answer
    assert server.counters.connections_refused == 1
    peer.abandon()


def test_a_dashboard_that_listens_everywhere_is_named_as_the_browser_named_the_server() -> None:
    doors = Doors(DoorSettings(), Limits())
    doors.http = ("https", (EVERYWHERE, 7778))

    assert doors.directions("game.example:7777").endswith("at https://game.example:7778/")
    assert doors.directions("[2001:db8::7]:7777").endswith("at https://[2001:db8::7]:7778/")
