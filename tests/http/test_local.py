"""Without keys only this machine gets in, and no web page that its browser shows."""

import pytest

from holdfast.core.addresses import hostname, is_loopback
from holdfast.http.api import check_binding
from holdfast.http.app import App
from holdfast.http.serving import HttpServer
from tests.http.routes import ROUTES
from tests.http.world import KEYS, World, problem_in, url_of

LOCAL = ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"]
PUBLIC = [
    "0.0.0.0",  # noqa: S104 - one of those that are refused
    "::",
    "",
    "192.168.1.7",
    "10.0.0.1",
    "example.com",
    "localhost.example.com",
    "127.0.0.1.example.com",
]


@pytest.mark.parametrize("host", LOCAL)
def test_these_are_the_machine_itself(host: str) -> None:
    assert is_loopback(host)
    check_binding(host, has_keys=False)


@pytest.mark.parametrize("host", PUBLIC)
def test_these_are_others_and_need_a_key(host: str) -> None:
    assert not is_loopback(host)
    check_binding(host, has_keys=True)
    with pytest.raises(ValueError, match=r"API key.*127\.0\.0\.1"):
        check_binding(host, has_keys=False)


@pytest.mark.parametrize("host", PUBLIC)
def test_a_server_without_keys_refuses_to_listen_for_others(world: World, host: str) -> None:
    with pytest.raises(ValueError, match="API key"):
        HttpServer(App(world.backend.operations), host)


async def test_a_server_with_a_key_listens_everywhere(world: World) -> None:
    server = HttpServer(App(world.backend.operations, KEYS), "0.0.0.0", 0)  # noqa: S104 - that is the question

    await server.start()
    await server.stop()

    assert server.address[0] == "0.0.0.0"  # noqa: S104 - that is the answer


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost:7778", "localhost"),
        ("localhost", "localhost"),
        ("[::1]:7778", "::1"),
        ("[::1]", "::1"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("", ""),
    ],
)
def test_a_host_header_is_taken_apart(header: str, name: str) -> None:
    assert hostname(header) == name


@pytest.mark.parametrize("host", ["localhost:7778", "127.0.0.1", "[::1]:7778", "LocalHost"])
async def test_whoever_asks_for_this_machine_is_answered(world: World, host: str) -> None:
    client = await world.client()

    for path in ("/v1/rooms", "/livez", "/docs"):
        assert (await client.get(path, headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7778", "127.0.0.1.evil.example", "192.168.1.7", "[::]"])
async def test_a_page_whose_name_was_made_to_point_here_is_refused(world: World, host: str) -> None:
    client = await world.client()

    for path in ("/v1/rooms", "/livez", "/docs", "/v1/events"):
        problem_in(await client.get(path, headers={"Host": host}), 403, "not_allowed")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000", "http://127.0.0.1", ""])
async def test_a_page_from_elsewhere_changes_nothing(world: World, origin: str) -> None:
    room = world.backend.add_room("r")
    client = await world.client()

    for route in ROUTES:
        if route.method != "GET":
            answer = await client.request(route.method, route.url, json=route.body, headers={"Origin": origin})
            problem_in(answer, 403, "not_allowed")
    assert world.backend.rooms == {"r": room}


async def test_a_page_of_this_server_may_change_things(world: World) -> None:
    server = await world.serve()
    client = await world.client(server)

    answer = await client.post("/v1/rooms", json={"kind": "arena"}, headers={"Origin": url_of(server)})

    assert answer.status_code == 201


async def test_no_page_from_elsewhere_may_read_an_answer(world: World) -> None:
    client = await world.client()
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "DELETE"}

    read = await client.get("/v1/rooms", headers=headers)
    preflight = await client.options("/v1/rooms/r", headers=headers)

    for answer in (read, preflight):
        assert not [name for name in answer.headers if name.startswith("access-control")]
