"""Rooms over HTTP: found, made once, looked at, changed in turn, ended."""

from typing import Any

import pytest

from holdfast.http.bodies import RoomQuery
from holdfast.schemas.requests import Create, Update
from tests.http.world import World, problem_in


async def test_a_room_is_made_and_found_at_its_location(world: World) -> None:
    client = await world.client()

    made = await client.post("/v1/rooms", json={"kind": "arena", "name": "Ünï", "properties": {"map": "dust"}})
    found = await client.get(made.headers["location"])

    assert made.status_code == 201
    assert made.headers["location"] == f"/v1/rooms/{made.json()['id']}"
    assert found.json() == made.json()
    assert (found.json()["name"], found.json()["properties"]) == ("Ünï", {"map": "dust"})


async def test_an_answer_shows_every_field_also_those_with_their_defaults(world: World) -> None:
    world.backend.add_room("r")
    client = await world.client()

    room = (await client.get("/v1/rooms/r")).json()

    assert (room["host"], room["is_locked"], room["code"], room["reason"]) == ("", False, "", "")


async def test_everything_that_can_be_wished_for_reaches_the_node(world: World) -> None:
    wish = {
        "kind": "chess",
        "properties": {"level": 3},
        "max_players": 2,
        "name": "n",
        "visibility": "private",
        "password": "p",
        "idempotency_key": "k",
    }
    client = await world.client()

    await client.post("/v1/rooms", json=wish)

    assert world.backend.told == [("create", Create("chess", {"level": 3}, 2, "n", "private", "p", "k"))]


@pytest.mark.parametrize("key", ["abc", '"abc"'], ids=["bare", "quoted"])
async def test_the_idempotency_key_may_stand_in_the_header(world: World, key: str) -> None:
    client = await world.client()

    first = await client.post("/v1/rooms", json={"kind": "arena"}, headers={"Idempotency-Key": key})
    again = await client.post("/v1/rooms", json={"kind": "arena", "idempotency_key": "abc"})
    other = await client.post("/v1/rooms", json={"kind": "chess"}, headers={"Idempotency-Key": key})

    assert first.json()["id"] == again.json()["id"]
    problem_in(other, 409, "conflict")


@pytest.mark.parametrize("key", ["", "x" * 65, "other"], ids=["empty", "too long", "not the body's"])
async def test_an_idempotency_key_that_cannot_be_meant_is_refused(world: World, key: str) -> None:
    client = await world.client()
    body = {"kind": "arena", "idempotency_key": "mine"}

    answer = await client.post("/v1/rooms", json=body, headers={"Idempotency-Key": key})

    assert problem_in(answer, 400, "invalid")["errors"][0]["at"] == "Idempotency-Key"
    assert world.backend.rooms == {}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"kind": "golf"}, 404, "not_found"),
        ({"kind": "arena", "max_players": 0}, 400, "invalid"),
        ({"kind": "arena", "properties": {"map": "forbidden"}}, 409, "refused"),
        ({"kind": "arena", "properties": {"map": "broken"}}, 500, "failed"),
        ({"kind": "arena", "name": "taken"}, 409, "name_taken"),
    ],
)
async def test_a_room_that_cannot_be_made_is_a_problem(
    world: World, body: dict[str, Any], status: int, code: str
) -> None:
    client = await world.client()
    await client.post("/v1/rooms", json={"kind": "arena", "name": "taken"})

    problem_in(await client.post("/v1/rooms", json=body), status, code)


async def test_a_full_node_says_when_to_try_again(world: World) -> None:
    world.backend.info = type(world.backend.info)("n", "r", True, True, 0, 0, 0)
    client = await world.client()

    answer = await client.post("/v1/rooms", json={"kind": "arena"})

    problem_in(answer, 429, "throttled")
    assert int(answer.headers["retry-after"]) > 0


async def test_a_search_carries_every_parameter_to_the_node(world: World) -> None:
    client = await world.client()

    await client.get(
        "/v1/rooms",
        params={
            "kind": "arena",
            "where": "open_seats > 0",
            "order_by": ["players desc", "properties.level"],
            "limit": 5,
            "cursor": "5",
        },
    )

    asked = RoomQuery("arena", "open_seats > 0", ["players desc", "properties.level"], 5, "5")
    assert world.backend.told == [("search", asked)]


async def test_a_search_without_parameters_finds_full_rooms_too(world: World) -> None:
    client = await world.client()

    await client.get("/v1/rooms")

    assert world.backend.told == [("search", RoomQuery(where=""))]


async def test_pages_follow_each_other_by_their_cursor(world: World) -> None:
    for number in range(5):
        world.backend.add_room(f"r{number}")
    client = await world.client()

    ids = []
    cursor = ""
    for _ in range(3):
        page = (await client.get("/v1/rooms", params={"limit": 2, "cursor": cursor})).json()
        ids += [room["id"] for room in page["rooms"]]
        cursor = page["cursor"]

    assert ids == ["r0", "r1", "r2", "r3", "r4"]
    assert cursor == ""


async def test_a_cursor_that_is_not_known_any_more_is_gone(world: World) -> None:
    client = await world.client()

    problem_in(await client.get("/v1/rooms?cursor=old"), 410, "expired")


async def test_a_mistake_in_where_is_told_in_the_nodes_words(world: World) -> None:
    client = await world.client()

    answer = await client.get("/v1/rooms", params={"where": "players >"})

    assert "column 1" in problem_in(answer, 400, "invalid")["detail"]


async def test_everything_that_can_be_changed_reaches_the_node(world: World) -> None:
    world.backend.add_room("r")
    client = await world.client()
    changes: dict[str, Any] = {
        "name": "n",
        "set": {"map": "snow"},
        "remove": ["level"],
        "max_players": 3,
        "join_policy": "deny_all",
        "locked": True,
        "visibility": "private",
        "password": "",
        "host": "ann",
        "if_version": 1,
    }

    answer = await client.patch("/v1/rooms/r", json=changes)

    assert answer.json()["properties"] == {"map": "snow"}
    assert world.backend.told == [("update", Update(room="r", **changes))]


async def test_a_change_with_the_version_that_was_seen_is_made_once(world: World) -> None:
    world.backend.add_room("r")
    client = await world.client()
    seen = (await client.get("/v1/rooms/r")).headers["etag"]

    first = await client.patch("/v1/rooms/r", json={"name": "one"}, headers={"If-Match": seen})
    second = await client.patch("/v1/rooms/r", json={"name": "two"}, headers={"If-Match": seen})
    third = await client.patch("/v1/rooms/r", json={"name": "three"}, headers={"If-Match": first.headers["etag"]})

    assert (seen, first.headers["etag"], third.headers["etag"]) == ('"1"', '"2"', '"3"')
    assert "version 2" in problem_in(second, 412, "precondition_failed")["detail"]
    assert world.backend.rooms["r"].name == "three"


async def test_a_version_in_the_body_that_is_not_the_rooms_is_a_conflict(world: World) -> None:
    world.backend.add_room("r")
    client = await world.client()

    problem_in(await client.patch("/v1/rooms/r", json={"if_version": 7}), 409, "conflict")


@pytest.mark.parametrize("tag", ["1", '"1"', "*"])
async def test_a_version_may_be_told_bare_and_any_will_do_for_a_star(world: World, tag: str) -> None:
    world.backend.add_room("r")
    client = await world.client()

    answer = await client.patch("/v1/rooms/r", json={"name": "n"}, headers={"If-Match": tag})

    assert answer.status_code == 200


@pytest.mark.parametrize("tag", ["", 'W/"1"', '"1", "2"', '"one"', '"-1"', '"2"', '"' + "9" * 30 + '"'])
async def test_a_version_that_cannot_be_meant_is_refused(world: World, tag: str) -> None:
    world.backend.add_room("r")
    client = await world.client()

    answer = await client.patch("/v1/rooms/r", json={"if_version": 1}, headers={"If-Match": tag})

    assert problem_in(answer, 400, "invalid")["errors"][0]["in"] == "header"
    assert world.backend.rooms["r"].version == 1


async def test_a_room_is_ended_with_a_reason(world: World) -> None:
    world.backend.add_room("r")
    client = await world.client()

    answer = await client.delete("/v1/rooms/r", params={"reason": "maintenance"})

    assert (answer.status_code, answer.json()["status"]) == (200, "ending")
    assert world.backend.told == [("end_room", "r", "maintenance")]


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_a_room_that_does_not_exist_is_not_found(world: World, method: str) -> None:
    client = await world.client()

    problem_in(await client.request(method, "/v1/rooms/none", json={}), 404, "not_found")
