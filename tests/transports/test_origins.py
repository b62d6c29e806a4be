"""Which sites' pages may open a WebSocket: the list by itself, and at the door."""

from collections.abc import AsyncIterator

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from holdfast.testing.transport_checks import BINARY, LIMITS, LinkRecorder
from holdfast.transports import websocket
from holdfast.transports.http_upgrade import Origins
from tests.cases import every_case

SITES = ["https://game.example", "https://*.play.example", "http://localhost:5173", "https://[2001:db8::7]:8443"]


@every_case(
    "origin",
    [
        "https://game.example",
        "https://game.example:443",
        "HTTPS://Game.Example",
        "https://eu.play.example",
        "https://a.b.play.example:443",
        "http://localhost:5173",
        "https://[2001:db8::7]:8443",
    ],
)
def test_a_site_on_the_list_may_connect(origin: str) -> None:
    assert Origins(SITES).allow([origin])


@every_case(
    "origin",
    [
        "",
        "null",
        "file://",
        "https://evil.example",
        "http://game.example",
        "https://game.example:8443",
        "https://www.game.example",
        "https://game.example.evil.example",
        "https://evilgame.example",
        "https://play.example",
        "https://.play.example",
        "https://evilplay.example",
        "https://eu.play.example:444",
        "https://evil.example/.play.example",
        "https://evil.example#.play.example",
        "https://evil.example?.play.example",
        "https://evil.example\\.play.example",
        "https://me@eu.play.example",
        "https://*.play.example",
        "https://größe.play.example",
        "http://localhost",
        "https://game.example/",
        "https://game.example https://game.example",
        "game.example",
        "https://",
        "https://game.example:port",
        "https://[2001:db8::7",
    ],
)
def test_everything_else_may_not(origin: str) -> None:
    assert not Origins(SITES).allow([origin])


def test_a_request_that_names_two_sites_may_not() -> None:
    assert not Origins(SITES).allow(["https://game.example", "https://game.example"])


def test_a_program_that_is_no_browser_names_none_and_may_connect() -> None:
    assert Origins(SITES).allow([])


def test_a_star_is_every_site() -> None:
    assert Origins(["*"]).allow(["https://anything.example"])
    assert Origins(["*"]).allow(["null"])


@pytest.mark.parametrize("origin", ["null", "file://"])
def test_pages_without_a_site_may_connect_if_they_are_named(origin: str) -> None:
    assert Origins([origin]).allow([origin])


@every_case(
    "name",
    [
        "",
        "game.example",
        "https://",
        "https://game.example/",
        "https://game.example/play",
        "https://game.*",
        "https://*",
        "https://*.*.example",
        "https://ga*me.example",
        "https://game.example:99999",
        "https://me@game.example",
    ],
)
def test_a_name_that_is_no_origin_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(ValueError, match=r'as in "https://game\.example"'):
        Origins([name])


def test_one_name_that_should_be_a_list_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\['https://game.example'\]"):
        Origins("https://game.example")


# At the door.


@pytest.fixture
async def url() -> AsyncIterator[str]:
    listener = await websocket.listen(
        LinkRecorder, host="127.0.0.1", port=0, subprotocols=[BINARY], limits=LIMITS, origins=Origins(SITES)
    )
    yield f"ws://127.0.0.1:{listener.addresses[0][1]}"
    await listener.close()


def connection(url: str, origin: str | None) -> connect:
    return connect(
        url,
        origin=None if origin is None else Origin(origin),
        subprotocols=[Subprotocol(BINARY.name)],
        proxy=None,
    )


@pytest.mark.parametrize("origin", ["https://game.example", None])
async def test_a_page_of_the_game_and_a_program_are_let_in(url: str, origin: str | None) -> None:
    async with connection(url, origin) as client:
        assert client.subprotocol == BINARY.name


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
async def test_a_page_of_another_site_is_refused_before_the_upgrade(url: str, origin: str) -> None:
    with pytest.raises(InvalidStatus) as refusal:
        await connection(url, origin)

    assert refusal.value.response.status_code == 403
    assert b"origin" in refusal.value.response.body
