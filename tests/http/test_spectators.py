"""Spectators over HTTP: seen in pages, and sent away."""

from holdfast.schemas.player import SpectatorInfo
from tests.http.world import World, problem_in


async def test_the_spectators_of_a_room_are_shown_in_pages(world: World) -> None:
    world.backend.add_room("r")
    world.backend.spectators["r"] = [SpectatorInfo(name, "taken", f"s-{name}", 20.0) for name in ("ann", "bob", "cleo")]
    client = await world.client()

    first = (await client.get("/v1/rooms/r/spectators", params={"limit": 2})).json()
    rest = (await client.get("/v1/rooms/r/spectators", params={"limit": 2, "cursor": first["cursor"]})).json()

    assert first["spectators"][0] == {
        "player": "ann",
        "state": "taken",
        "session": "s-ann",
        "latency_ms": 20.0,
        "expires_in_s": 0.0,
        "name": "",
    }
    assert [each["player"] for each in (*first["spectators"], *rest["spectators"])] == ["ann", "bob", "cleo"]
    assert rest["cursor"] == ""


async def test_a_spectator_is_kicked_with_a_reason(world: World) -> None:
    world.backend.add_room("r")
    world.backend.spectators["r"] = [SpectatorInfo("ann", "taken", "s")]
    client = await world.client()

    kicked = await client.delete("/v1/rooms/r/spectators/ann", params={"reason": "no phones"})
    again = await client.delete("/v1/rooms/r/spectators/ann")

    assert (kicked.status_code, world.backend.told) == (204, [("kick spectator", "r", "ann", "no phones")])
    problem_in(again, 404, "not_found")
