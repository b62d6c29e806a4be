"""The packet log, switched over HTTP."""

from tests.http.world import World, problem_in


async def test_it_is_switched_on_listed_and_switched_off(world: World) -> None:
    world.backend.add_session("s", "ann")
    client = await world.client()

    on = await client.put("/v1/packet-log/s", params={"for_s": 60})
    of_range = await client.put("/v1/packet-log/203.0.113.0%2F24")
    listed = (await client.get("/v1/packet-log")).json()
    off = await client.delete("/v1/packet-log/203.0.113.0%2F24")

    assert on.json() == {"target": "s", "kind": "session", "ends_in_s": 60.0}
    assert of_range.json() == {"target": "203.0.113.0/24", "kind": "address", "ends_in_s": 600.0}
    assert listed == {"targets": [on.json(), of_range.json()]}
    assert off.status_code == 204
    assert (await client.get("/v1/packet-log")).json() == {"targets": [on.json()]}


async def test_who_is_not_there_cannot_be_followed_nor_left(world: World) -> None:
    client = await world.client()

    problem_in(await client.put("/v1/packet-log/nobody"), 404, "not_found")
    problem_in(await client.delete("/v1/packet-log/203.0.113.7"), 404, "not_found")
    problem_in(await client.put("/v1/packet-log/203.0.113.7", params={"for_s": 0}), 400, "invalid")
    problem_in(await client.put("/v1/packet-log/203.0.113.7", params={"for_s": 1e9}), 400, "invalid")
    problem_in(await client.put("/v1/packet-log/203.0.113.7", params={"for": 5}), 400, "invalid")
