"""Bans and sign-outs over HTTP."""

import pytest

from holdfast.schemas.requests import Ban
from tests.http.world import World, problem_in


async def test_a_player_is_banned_for_a_while_listed_and_let_in_again(world: World) -> None:
    client = await world.client()

    made = await client.post("/v1/bans", json={"player": "ann", "for_s": 7200, "why": "be nice"})
    listed = await client.get("/v1/bans")
    lifted = await client.delete(made.headers["location"])

    assert made.status_code == 201
    assert made.json() == {"subject": "player:ann", "why": "be nice", "until": 1_700_007_200.0, "since": 1.7e9}
    assert made.headers["location"] == "/v1/bans/player%3Aann"
    assert world.backend.told == [("ban", Ban(player="ann", for_s=7200.0, why="be nice"))]
    assert listed.json() == {"bans": [made.json()], "cursor": ""}
    assert lifted.status_code == 204
    assert world.backend.bans == {}
    problem_in(await client.delete("/v1/bans/player%3Aann"), 404, "not_found")


async def test_a_range_of_addresses_is_banned_and_found_in_a_path_though_it_has_a_slash(world: World) -> None:
    client = await world.client()

    made = await client.post("/v1/bans", json={"address": "2001:db8::/32"})
    assert list(world.backend.bans) == ["address:2001:db8::/32"]
    lifted = await client.delete(made.headers["location"])

    assert made.json()["until"] == 0.0
    assert lifted.status_code == 204
    assert world.backend.bans == {}


async def test_bans_are_listed_by_page(world: World) -> None:
    client = await world.client()
    for number in range(3):
        await client.post("/v1/bans", json={"player": f"p{number}"})

    first = (await client.get("/v1/bans", params={"limit": 2})).json()
    second = (await client.get("/v1/bans", params={"limit": 2, "cursor": first["cursor"]})).json()

    subjects = [ban["subject"] for ban in first["bans"] + second["bans"]]
    assert subjects == ["player:p0", "player:p1", "player:p2"]
    assert second["cursor"] == ""


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"player": "ann", "address": "203.0.113.7"},
        {"player": "ann", "until": -1},
        {"player": "ann", "until": 1e15},
        {"player": "ann", "for_s": 0},
        {"player": "ann", "until": "tomorrow"},
        {"player": "a" * 129},
        {"player": "ann", "why": "x" * 257},
        {"player": "ann", "forever": True},
    ],
)
async def test_a_ban_that_cannot_be_meant_is_refused(world: World, body: dict[str, object]) -> None:
    client = await world.client()

    problem_in(await client.post("/v1/bans", json=body), 400, "invalid")
    assert world.backend.bans == {}


async def test_a_player_is_signed_out_with_a_reason_whether_they_are_here_or_not(world: World) -> None:
    world.backend.add_session("s1", "ann")
    client = await world.client()

    here = await client.post("/v1/players/ann/sign-out", params={"reason": "your password was changed"})
    away = await client.post("/v1/players/bob%2Fcleo/sign-out")

    assert (here.status_code, here.content) == (204, b"")
    assert away.status_code == 204
    assert world.backend.told == [
        ("sign_out", "ann", "your password was changed"),
        ("sign_out", "bob/cleo", ""),
    ]
    assert world.backend.sessions == {}
