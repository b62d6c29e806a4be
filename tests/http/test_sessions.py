"""Sessions and players over HTTP."""

from typing import Any

from holdfast.http.api import Scope
from tests.http.world import KEYS, SECRETS, World, problem_in

NO_ROLES: dict[str, list[str]] = {"roles": [], "granted": [], "revoked": []}


async def test_sessions_are_listed_by_player_and_by_page(world: World) -> None:
    for number, player in enumerate(["ann", "bob", "ann"]):
        world.backend.add_session(f"s{number}", player)
    client = await world.client()

    of_ann = (await client.get("/v1/sessions", params={"player": "ann"})).json()
    first = (await client.get("/v1/sessions", params={"limit": 2})).json()
    second = (await client.get("/v1/sessions", params={"limit": 2, "cursor": first["cursor"]})).json()

    assert [session["id"] for session in of_ann["sessions"]] == ["s0", "s2"]
    assert [session["id"] for session in first["sessions"] + second["sessions"]] == ["s0", "s1", "s2"]
    assert second["cursor"] == ""


async def test_a_session_is_shown_and_ended_with_a_reason(world: World) -> None:
    world.backend.add_session("s", "ann")
    client = await world.client()

    shown = await client.get("/v1/sessions/s")
    ended = await client.delete("/v1/sessions/s", params={"reason": "banned"})

    assert (shown.json()["player"], shown.json()["status"]) == ("ann", "connected")
    assert ended.status_code == 204
    assert world.backend.told == [("end_session", "s", "banned")]
    problem_in(await client.get("/v1/sessions/s"), 404, "not_found")
    problem_in(await client.delete("/v1/sessions/s"), 404, "not_found")


async def test_players_are_listed_by_page_and_shown_with_what_is_theirs(world: World) -> None:
    world.backend.add_room("r")
    world.backend.add_session("s1", "ann", "r")
    world.backend.add_session("s2", "bob")
    client = await world.client()

    page = (await client.get("/v1/players", params={"limit": 1})).json()
    ann = (await client.get("/v1/players/ann")).json()

    assert page == {"players": [ann], "cursor": "1", "missing": []}
    assert ann == {
        "id": "ann",
        "sessions": ["s1"],
        "rooms": ["r"],
        "account": "",
        **NO_ROLES,
        "name": "",
        "is_agent": False,
        "nodes": [],
        "missing": [],
    }
    problem_in(await client.get("/v1/players/zoe"), 404, "not_found")


async def test_roles_are_granted_revoked_and_reset_by_the_name_of_the_key(world: World) -> None:
    client = await world.client(await world.serve(KEYS), SECRETS[Scope.ADMIN])

    granted = await client.put("/v1/players/ann%2Flee/roles/game%20master")
    listed = await client.get("/v1/roles")
    revoked = await client.delete("/v1/players/ann%2Flee/roles/gm")
    reset = await client.delete("/v1/players/ann%2Flee/roles")

    assert (granted.status_code, granted.json()["granted"]) == (200, ["game master"])
    assert listed.json()["roles"] == [{"player": "ann/lee", "granted": ["game master"], "revoked": []}]
    assert (revoked.status_code, revoked.json()["revoked"]) == (200, ["gm"])
    assert (reset.status_code, reset.json()["granted"]) == (200, [])
    assert world.backend.told == [
        ("grant", "ann/lee", "game master", "key of admin"),
        ("revoke", "ann/lee", "gm", "key of admin"),
        ("reset_roles", "ann/lee", "key of admin"),
    ]


async def test_the_limits_of_a_session_are_changed_and_mistakes_name_what_can_be(world: World) -> None:
    world.backend.add_session("s", "ann")
    client = await world.client()

    changed = await client.patch("/v1/sessions/s", json={"limits": {"messages_per_s": 500, "idle_s": 0}})
    undone = await client.patch("/v1/sessions/s", json={"limits": {"idle_s": None}})

    assert (changed.status_code, changed.json()["limits"]) == (200, {"messages_per_s": 500.0, "idle_s": 0.0})
    assert undone.json()["limits"] == {"messages_per_s": 500.0}
    unknown = problem_in(await client.patch("/v1/sessions/s", json={"limits": {"rooms_max": 5}}), 400, "invalid")
    assert "these can: messages_burst, messages_per_s" in unknown["detail"]
    mistakes: list[dict[str, Any]] = [{"limits": {"idle_s": "long"}}, {"limits": {"idle_s": -1}}, {"limit": {}}, {}]
    for wrong in mistakes:
        problem_in(await client.patch("/v1/sessions/s", json=wrong), 400, "invalid")
    problem_in(await client.patch("/v1/sessions/none", json={"limits": {}}), 404, "not_found")
