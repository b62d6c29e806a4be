"""How the API says no, whatever the reason: problem documents with stable codes, and never a crash."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.core import errors
from holdfast.core.errors import Refused, refusal
from holdfast.http.errors import KINDS
from holdfast.schemas.room import RoomInfo
from tests.http.routes import ROUTES
from tests.http.world import World, problem_in

BODY_BYTES_MAX = 64 * 1024
JSON = {"Content-Type": "application/json"}


def mistake_in(problem: dict[str, Any]) -> tuple[str, str]:
    [mistake] = problem["errors"]
    assert mistake["detail"] in problem["detail"]
    return mistake["in"], mistake["at"]


def test_every_refusal_of_holdfast_has_its_status() -> None:
    codes = {kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Refused)}

    assert len(codes) >= 15
    assert codes - KINDS.keys() == set()


def test_the_table_is_in_the_order_of_its_statuses() -> None:
    statuses = [kind.status for kind in KINDS.values()]

    assert statuses == sorted(statuses)


@pytest.mark.parametrize("code", sorted(KINDS.keys() - {"not_ready"}))
async def test_a_refusal_is_answered_with_the_status_of_its_code(
    world: World, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(room_id: str) -> RoomInfo:
        raise refusal(code, f"because of {room_id}")

    monkeypatch.setattr(world.backend, "get_room", refuse)
    client = await world.client()

    answer = await client.get("/v1/rooms/r")

    assert problem_in(answer, KINDS[code].status, code)["detail"] == "because of r"


async def test_a_code_of_the_games_own_is_a_refusal_of_the_game(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(room_id: str) -> RoomInfo:
        raise refusal("too_young", "come back later")

    monkeypatch.setattr(world.backend, "get_room", refuse)
    client = await world.client()

    answer = await client.get("/v1/rooms/r")

    assert (answer.status_code, answer.json()["code"], answer.json()["detail"]) == (409, "too_young", "come back later")
    assert answer.json()["type"] == "/docs#problem-refused"


async def test_a_refusal_in_letters_that_cannot_be_sent_is_still_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(room_id: str) -> RoomInfo:
        raise Refused("no \ud800 here")

    monkeypatch.setattr(world.backend, "get_room", refuse)
    client = await world.client()

    assert problem_in(await client.get("/v1/rooms/r"), 409, "refused")["detail"] == "no ? here"


async def test_a_bug_is_logged_once_and_told_to_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down(room_id: str) -> RoomInfo:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(world.backend, "get_room", break_down)
    client = await world.client()

    with caplog.at_level(logging.INFO):
        answer = await client.get("/v1/rooms/r")

    problem_in(answer, 500, "internal")
    assert "hunter2" not in answer.text
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (record.name, record.levelname) == ("holdfast.http", "ERROR")
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], RuntimeError)
    assert (await client.get("/livez")).status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1", "/v2/rooms", "/v1/rooms/r/seats/p/hat", "/schema", "/v1/roomsx", "*", "/assets", "/assets/a/b"]
)
async def test_a_path_that_leads_nowhere_is_not_found(world: World, path: str) -> None:
    client = await world.client()

    assert "/docs" in problem_in(await client.get(path), 404, "not_found")["detail"]


async def test_a_method_that_a_path_does_not_know_is_not_allowed(world: World) -> None:
    client = await world.client()

    for route in ROUTES:
        known = {other.method for other in ROUTES if other.path == route.path} | {"OPTIONS"}
        unknown = next(method for method in ("PUT", "PATCH") if method not in known)
        answer = await client.request(unknown, route.url)
        options = await client.options(route.url)
        problem_in(answer, 405, "method_not_allowed")
        assert set(answer.headers["allow"].split(", ")) == known, route
        assert (options.status_code, options.content) == (204, b"")
        assert set(options.headers["allow"].split(", ")) == known, route


@pytest.mark.parametrize(
    ("body", "at"),
    [
        (b"", "$"),
        (b"{", "$"),
        (b"not json", "$"),
        (b"\xff\xfe", "$"),
        (b"[]", "$"),
        (b"null", "$"),
        (b"{}", "$"),
        (b'{"kind": 5}', "$.kind"),
        (b'{"kind": ""}', "$.kind"),
        (b'{"kind": "arena", "max_players": "5"}', "$.max_players"),
        (b'{"kind": "arena", "max_players": 100001}', "$.max_players"),
        (b'{"kind": "arena", "visibility": "secret"}', "$.visibility"),
        (b'{"kind": "arena", "colour": "red"}', "$"),
        (b'{"kind": "\\ud800"}', "$"),
        (b'{"kind": "arena", "properties": {"a": NaN}}', "$"),
        (b'{"kind": "arena", "properties": {"a": ' + b"[" * 20_000 + b"]" * 20_000 + b"}}", "$"),
    ],
    ids=range(16),
)
async def test_a_body_that_does_not_fit_is_refused_with_the_place_of_the_mistake(
    world: World, body: bytes, at: str
) -> None:
    client = await world.client()

    answer = await client.post("/v1/rooms", content=body, headers=JSON)

    assert mistake_in(problem_in(answer, 400, "invalid")) == ("body", at)
    assert world.backend.told == []


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ("limit=many", "limit"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=", "limit"),
        ("limit=1&limit=2", "limit"),
        ("kind=", "kind"),
        ("where=" + "x" * 1025, "where"),
        ("order_by=a&order_by=b&order_by=c&order_by=d&order_by=e", "order_by"),
        ("order_by=" + "x" * 97, "order_by[0]"),
        ("limt=5", "limt"),
        ("=5", ""),
        ("x" * 20_000, "x" * 64),
    ],
)
async def test_a_parameter_that_does_not_fit_is_refused_with_its_name(world: World, query: str, at: str) -> None:
    client = await world.client()

    answer = await client.get(f"/v1/rooms?{query}")

    assert mistake_in(problem_in(answer, 400, "invalid")) == ("query", at)
    assert world.backend.told == []


async def test_parameters_that_nobody_knows_are_refused_everywhere(world: World) -> None:
    client = await world.client()

    for route in ROUTES:
        answer = await client.request(route.method, f"{route.url}?colour=red", json=route.body)
        assert mistake_in(problem_in(answer, 400, "invalid")) == ("query", "colour"), route


@pytest.mark.parametrize(
    "media_type",
    [None, "text/plain", "application/x-www-form-urlencoded", "application/msgpack", "application/jsonp", ";"],
)
async def test_a_body_that_is_not_said_to_be_json_is_refused(world: World, media_type: str | None) -> None:
    client = await world.client()
    headers = {} if media_type is None else {"Content-Type": media_type}

    answer = await client.post("/v1/rooms", content=b'{"kind": "arena"}', headers=headers)

    problem_in(answer, 415, "unsupported_media_type")
    assert world.backend.told == []


@pytest.mark.parametrize("media_type", ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON"])
async def test_json_may_be_said_in_several_ways(world: World, media_type: str) -> None:
    client = await world.client()

    answer = await client.post("/v1/rooms", content=b'{"kind": "arena"}', headers={"Content-Type": media_type})

    assert answer.status_code == 201


@pytest.mark.parametrize("is_announced", [True, False], ids=["announced", "in chunks"])
async def test_a_body_that_is_too_large_is_refused(world: World, *, is_announced: bool) -> None:
    client = await world.client()
    body = b'{"kind": "arena", "name": "' + b"x" * BODY_BYTES_MAX + b'"}'

    async def in_chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 4096):
            yield body[start : start + 4096]

    content = body if is_announced else in_chunks()
    answer = await client.post("/v1/rooms", content=content, headers=JSON)

    assert str(BODY_BYTES_MAX) in problem_in(answer, 413, "too_large")["detail"]
    assert (await client.get("/livez")).status_code == 200


async def test_a_body_of_exactly_the_limit_is_read(world: World) -> None:
    client = await world.client()
    body = b'{"kind": "arena"' + b" " * (BODY_BYTES_MAX - 17) + b"}"

    answer = await client.post("/v1/rooms", content=body, headers=JSON)

    assert (len(body), answer.status_code) == (BODY_BYTES_MAX, 201)


@pytest.mark.parametrize(
    ("escaped", "meant"),
    [
        ("a%2Fb", "a/b"),
        ("%2F", "/"),
        ("a%252Fb", "a%2Fb"),
        ("100%25", "100%"),
        ("a%3Fb%23c", "a?b#c"),
        ("auth0%7Cann", "auth0|ann"),
        ("%C3%BCn%C3%AF", "ünï"),
        ("%F0%9F%90%99", "🐙"),
        ("a%20b", "a b"),
        ("%00", "\x00"),
        ("seats", "seats"),
        ("%7Broom_id%7D", "{room_id}"),
        ("%61nn", "ann"),
    ],
)
async def test_an_id_of_any_letters_is_found_under_its_escaped_name(world: World, escaped: str, meant: str) -> None:
    world.backend.add_room(meant)
    world.backend.add_session("s", meant, meant)
    client = await world.client()

    assert (await client.get(f"/v1/rooms/{escaped}")).json()["id"] == meant
    assert (await client.get(f"/v1/players/{escaped}")).json()["id"] == meant
    assert (await client.delete(f"/v1/rooms/{escaped}/seats/{escaped}")).status_code == 204


@pytest.mark.parametrize("escaped", ["%FF", "%C3%28", "%", "%zz", "x" * 3000, "%F0%9F%90%99" * 200, "..%2F..%2Fetc"])
async def test_an_id_that_makes_no_sense_is_simply_not_found(world: World, escaped: str) -> None:
    client = await world.client()

    for path in (f"/v1/rooms/{escaped}", f"/v1/players/{escaped}", f"/v1/rooms/{escaped}/seats"):
        problem_in(await client.get(path), 404, "not_found")


async def test_a_path_that_is_too_long_is_refused(world: World) -> None:
    client = await world.client()

    problem_in(await client.get("/v1/rooms/" + "x" * 5000), 414, "path_too_long")


async def test_answers_are_not_kept_and_not_guessed_at(world: World) -> None:
    client = await world.client()

    for path in ("/livez", "/nowhere", "/docs", "/v1/rooms/" + "x" * 5000):
        headers = (await client.get(path)).headers
        assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
