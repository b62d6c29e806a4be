"""API keys: what they are, what each opens, and that nobody else gets in."""

import logging

import pytest

from holdfast.http.api import ApiKey, Scope, find_key
from tests.http.routes import ROUTES
from tests.http.world import KEYS, SECRETS, World, problem_in

SECRET = "s3cret-0123456789"
NO_KEYS = [
    None,
    "",
    "Bearer",
    "Bearer wrong-key-0123456789",
    f"Basic {SECRETS[Scope.ADMIN]}",
    SECRETS[Scope.ADMIN],
    f"Bearer {SECRETS[Scope.ADMIN]}, Bearer {SECRETS[Scope.ADMIN]}",
]


def test_each_scope_includes_those_before_it() -> None:
    opened = {scope: [other for other in Scope if ApiKey(SECRET, [scope]).opens(other)] for scope in Scope}

    assert opened == {
        Scope.READ: [Scope.READ],
        Scope.ROOMS: [Scope.READ, Scope.ROOMS],
        Scope.ADMIN: [Scope.READ, Scope.ROOMS, Scope.ADMIN],
    }


@pytest.mark.parametrize("scopes", [["read", "rooms"], "rooms", {Scope.ROOMS}])
def test_scopes_may_be_words(scopes: list[str]) -> None:
    assert ApiKey(SECRET, scopes).opens(Scope.ROOMS)
    assert not ApiKey(SECRET, scopes).opens(Scope.ADMIN)


@pytest.mark.parametrize(
    ("secret", "scopes", "word"),
    [
        ("short-012345678", ["read"], "16"),
        ("has a space in it", ["read"], "letters"),
        ("ümläuts-0123456789", ["read"], "letters"),
        ("line\nbreak-0123456789", ["read"], "letters"),
        (SECRET, [], "scope"),
        (SECRET, ["write"], "read, rooms, admin"),
    ],
)
def test_a_key_that_cannot_be_meant_is_refused_and_not_shown(secret: str, scopes: list[str], word: str) -> None:
    with pytest.raises(ValueError, match=word) as refused:
        ApiKey(secret, scopes)

    assert secret not in str(refused.value)


@pytest.mark.parametrize("name", ["x" * 65, "line\nbreak", f"the key {SECRET}"])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="the name of an API key") as refused:
        ApiKey(SECRET, ["read"], name=name)

    assert SECRET not in str(refused.value)
    assert repr(ApiKey(SECRET, ["read"], name="ops")) == "ApiKey(***, ['read'], name='ops')"


def test_a_key_of_sixteen_characters_is_long_enough() -> None:
    assert ApiKey("0123456789abcdef", ["read"]).opens(Scope.READ)


def test_a_key_shows_and_keeps_nothing_of_its_secret() -> None:
    key = ApiKey(SECRET, ["read"])

    kept = [getattr(key, name) for name in ApiKey.__slots__]
    assert SECRET not in repr(key) + str(key) + repr(kept)
    assert not hasattr(key, "__dict__")


def test_a_key_is_found_by_its_whole_secret_only() -> None:
    assert find_key(KEYS, SECRETS[Scope.ROOMS]) is KEYS[1]
    for wrong in ("", SECRETS[Scope.ROOMS][:-1], SECRETS[Scope.ROOMS] + "x", SECRETS[Scope.ROOMS].upper(), "\udcff"):
        assert find_key(KEYS, wrong) is None


@pytest.mark.parametrize("scope", Scope, ids=lambda scope: scope.value)
async def test_a_key_opens_exactly_the_routes_of_its_scope(world: World, scope: Scope) -> None:
    world.backend.stop()
    client = await world.client(await world.serve(KEYS), SECRETS[scope])

    for route in ROUTES:
        answer = await client.request(route.method, route.url, json=route.body)
        if route.scope is None or scope.includes(route.scope):
            assert answer.status_code in {200, 201, 202, 204, 404}, (route, answer.text)
        else:
            assert route.scope.value in problem_in(answer, 403, "not_allowed")["detail"], route
            assert f'scope="{route.scope.value}"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize("authorization", NO_KEYS)
async def test_who_has_no_key_is_not_let_in(world: World, authorization: str | None) -> None:
    client = await world.client(await world.serve(KEYS))
    headers = {"Authorization": authorization} if authorization is not None else {}

    for route in ROUTES:
        answer = await client.request(route.method, route.url, json=route.body, headers=headers)
        if route.scope is None:
            assert answer.status_code == 200, route
        else:
            problem_in(answer, 401, "not_authenticated")
            assert answer.headers["www-authenticate"].startswith("Bearer")
    assert world.backend.told == []


async def test_a_key_in_the_url_is_no_key(world: World) -> None:
    client = await world.client(await world.serve(KEYS))

    problem_in(await client.get(f"/v1/rooms?key={SECRETS[Scope.ADMIN]}"), 401, "not_authenticated")


async def test_the_word_bearer_may_be_written_in_any_case(world: World) -> None:
    client = await world.client(await world.serve(KEYS))

    answer = await client.get("/v1/rooms", headers={"Authorization": f"bEARER  {SECRETS[Scope.READ]}"})

    assert answer.status_code == 200


async def test_a_body_is_not_even_read_for_whoever_has_no_key(world: World) -> None:
    client = await world.client(await world.serve(KEYS))

    problem_in(await client.post("/v1/rooms", content=b"x" * 100_000), 401, "not_authenticated")


async def test_with_keys_any_host_may_be_asked_for(world: World) -> None:
    client = await world.client(await world.serve(KEYS), SECRETS[Scope.ROOMS])
    headers = {"Host": "games.example.com", "Origin": "https://console.example.com"}

    answer = await client.post("/v1/rooms", json={"kind": "arena"}, headers=headers)

    assert answer.status_code == 201


async def test_a_key_is_never_logged(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down(room_id: str) -> None:
        raise RuntimeError(room_id)

    monkeypatch.setattr(world.backend, "get_room", break_down)
    server = await world.serve(KEYS)

    with caplog.at_level(logging.DEBUG):
        for secret in (SECRETS[Scope.ADMIN], "wrong-key-0123456789"):
            client = await world.client(server, secret)
            await client.get("/v1/rooms/r")

    told = [record for record in caplog.records if not record.name.startswith("http")]
    assert told
    assert not any("key-0123456789" in caplog.handler.format(record) for record in told)
