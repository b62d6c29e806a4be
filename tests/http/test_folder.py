"""A game's own pages under /play: what is in the folder is shown, and nothing else on the disk."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from holdfast.http.api import HttpApi
from holdfast.http.app import App
from holdfast.http.serving import HttpServer
from holdfast.http.static import FILE_BYTES_MAX, Folder
from tests.deadlines import DEADLINE_S
from tests.http.backend import FakeBackend
from tests.http.world import KEYS


@pytest.fixture
def web(tmp_path: Path) -> Path:
    web = tmp_path / "web"
    (web / "art").mkdir(parents=True)
    (web / ".git").mkdir()
    for name, text in {
        "index.html": "<p>play",
        "main.js": "1;",
        "art/ship.svg": "<svg/>",
        "art/index.html": "<p>art",
        "odd name.txt": "ä",
        ".env": "SECRET",
        ".git/config": "SECRET",
        "data.bin": "?",
    }.items():
        (web / name).write_text(text, "utf-8")
    (tmp_path / "secret.txt").write_text("SECRET", "utf-8")
    (tmp_path / "webbed").mkdir()
    (tmp_path / "webbed" / "secret.txt").write_text("SECRET", "utf-8")
    (tmp_path / "holdfast.js").write_text("export {};", "utf-8")
    return web


@pytest.fixture
async def address(web: Path) -> AsyncIterator[tuple[str, int]]:
    folder = Folder(web, web.parent / "holdfast.js")
    server = HttpServer(App(FakeBackend().operations, folder=folder), port=0)
    await server.start()
    yield server.address
    await server.stop()


@pytest.fixture
async def client(address: tuple[str, int]) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{address[1]}") as client:
        yield client


@pytest.mark.parametrize(
    ("path", "text", "media_type"),
    [
        ("/play/", "<p>play", "text/html; charset=utf-8"),
        ("/play/index.html", "<p>play", "text/html; charset=utf-8"),
        ("/play/main.js", "1;", "text/javascript; charset=utf-8"),
        ("/play/art/", "<p>art", "text/html; charset=utf-8"),
        ("/play/art/ship.svg", "<svg/>", "image/svg+xml"),
        ("/play/odd%20name.txt", "ä", "text/plain; charset=utf-8"),
        ("/play/data.bin", "?", "application/octet-stream"),
        ("/play/main.js?v=2", "1;", "text/javascript; charset=utf-8"),
        ("/holdfast.js", "export {};", "text/javascript; charset=utf-8"),
    ],
)
async def test_a_file_is_sent_as_what_it_is(client: httpx.AsyncClient, path: str, text: str, media_type: str) -> None:
    response = await client.get(path)

    assert (response.status_code, response.text) == (200, text)
    assert response.headers["content-type"] == media_type
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"


async def test_a_changed_file_is_seen_at_once(client: httpx.AsyncClient, web: Path) -> None:
    await client.get("/play/main.js")
    (web / "main.js").write_text("2;", "utf-8")

    assert (await client.get("/play/main.js")).text == "2;"


async def test_the_head_alone_has_no_body(client: httpx.AsyncClient) -> None:
    response = await client.head("/play/main.js")

    assert (response.status_code, response.headers["content-length"], response.content) == (200, "2", b"")


async def test_the_folder_s_own_name_leads_into_it(client: httpx.AsyncClient) -> None:
    response = await client.get("/play")

    assert (response.status_code, response.headers["location"]) == (307, "/play/")


ESCAPES = [
    "/play/nowhere.txt",
    "/play/art",
    "/play/../secret.txt",
    "/play/%2e%2e/secret.txt",
    "/play/..%2fsecret.txt",
    "/play/%2e%2e%2fsecret.txt",
    "/play/art/../../secret.txt",
    "/play/..%5csecret.txt",
    "/play/../webbed/secret.txt",
    "/play//etc/passwd",
    "/play/%2fetc/passwd",
    "/play/%2Fetc%2Fpasswd",
    "/play/.env",
    "/play/%2eenv",
    "/play/.git/config",
    "/play/./main.js",
    "/play/main.js/",
    "/play/main.js%00.html",
    "/play/%00",
    "/play/%ff",
    "/play/C:/secret.txt",
    "/play/link.txt",
    "/play/way-out/secret.txt",
    "/play/hidden.txt",
    "/play/loop",
]


async def asked_plainly(address: tuple[str, int], path: str) -> bytes:
    """The answer to a path as it stands here: a library would tidy it up first."""
    async with asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    return answer


@pytest.mark.parametrize("path", ESCAPES)
async def test_nothing_else_is_found(address: tuple[str, int], web: Path, path: str) -> None:
    (web / "link.txt").symlink_to(web.parent / "secret.txt")
    (web / "way-out").symlink_to(web.parent)
    (web / "hidden.txt").symlink_to(web / ".env")
    (web / "loop").symlink_to(web / "loop")

    answer = await asked_plainly(address, path)

    assert answer.startswith(b"HTTP/1.1 404")
    assert b"SECRET" not in answer
    assert b"root:" not in answer


async def test_a_link_within_the_folder_may_be_followed(client: httpx.AsyncClient, web: Path) -> None:
    (web / "same.js").symlink_to(web / "main.js")

    assert (await client.get("/play/same.js")).text == "1;"


async def test_a_file_that_is_too_large_or_no_file_is_not_sent(client: httpx.AsyncClient, web: Path) -> None:
    with (web / "large.bin").open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    os.mkfifo(web / "pipe")

    assert (await client.get("/play/large.bin")).status_code == 404
    assert (await client.get("/play/pipe")).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_files_can_only_be_read(client: httpx.AsyncClient, method: str) -> None:
    response = await client.request(method, "/play/main.js")

    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")


async def test_a_page_that_was_made_to_point_here_is_told_nothing(client: httpx.AsyncClient) -> None:
    response = await client.get("/play/main.js", headers={"Host": "evil.example"})

    assert response.status_code == 403


async def test_without_a_built_client_it_says_how_to_get_one(web: Path) -> None:
    answer = Folder(web, web / "nowhere.js").find("/holdfast.js")

    assert answer.status == 404
    assert b"make web" in answer.body


@pytest.mark.parametrize(
    ("game_url", "told"),
    [
        ("ws://127.0.0.1:9000", "ws://localhost:9000"),
        ("ws://0.0.0.0:9000", "ws://localhost:9000"),
        ("wss://[::]:9000", "wss://localhost:9000"),
        ("ws://192.0.2.7:9000", "ws://192.0.2.7:9000"),
    ],
)
async def test_a_page_is_told_where_the_game_is(web: Path, game_url: str, told: str) -> None:
    server = HttpServer(App(FakeBackend().operations, folder=Folder(web, game_url=lambda: game_url)), port=0)
    await server.start()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.address[1]}") as client:
        response = await client.get("/holdfast.json", headers={"Host": "localhost"})
    await server.stop()

    assert response.json() == {"url": told}
    assert response.headers["content-type"] == "application/json"


async def test_a_page_is_told_that_there_is_no_port_for_it(client: httpx.AsyncClient) -> None:
    response = await client.get("/holdfast.json")

    assert response.status_code == 404
    assert "no WebSocket port" in response.text


async def test_the_api_is_where_it_was(client: httpx.AsyncClient) -> None:
    assert (await client.get("/livez")).status_code == 200
    assert (await client.get("/player")).status_code == 404


def test_pages_are_not_served_to_other_machines(web: Path) -> None:
    with pytest.raises(ValueError, match="same origin as the API"):
        HttpApi("0.0.0.0", keys=KEYS, web=web)  # noqa: S104 - that is the question
