"""Placements over HTTP: started once, asked about, given up."""

from tests.http.world import World, problem_in

WISH = {"queue": "europe", "kind": "arena", "players": [{"id": "ann", "latencies_ms": {"eu-west": 21}}], "id": "m/1"}


async def test_a_placement_is_started_once_and_found_at_its_location(world: World) -> None:
    client = await world.client()

    started = await client.post("/v1/placements", json=WISH)
    again = await client.post("/v1/placements", json=WISH)
    found = await client.get(started.headers["location"])

    assert (started.status_code, started.headers["location"]) == (202, "/v1/placements/m%2F1")
    assert started.json() == again.json() == found.json()
    assert (found.json()["status"], found.json()["room"]) == ("pending", None)


async def test_the_same_id_for_another_placement_is_a_conflict(world: World) -> None:
    client = await world.client()
    await client.post("/v1/placements", json=WISH)

    problem_in(await client.post("/v1/placements", json={**WISH, "kind": "chess"}), 409, "conflict")


async def test_a_placement_is_given_up_while_it_is_pending(world: World) -> None:
    client = await world.client()
    location = (await client.post("/v1/placements", json=WISH)).headers["location"]

    stopped = await client.delete(location)

    assert (stopped.status_code, stopped.json()["status"]) == (200, "cancelled")
    problem_in(await client.delete(location), 409, "conflict")


async def test_placements_and_queues_are_listed(world: World) -> None:
    client = await world.client()
    started = (await client.post("/v1/placements", json=WISH)).json()

    assert (await client.get("/v1/placements")).json() == {"placements": [started], "missing": ["node-3"]}
    assert (await client.get("/v1/queues")).json() == {
        "queues": [{"name": "europe", "destinations": ["node-1"], "timeout_s": 30.0, "pending": 1}]
    }


async def test_a_queue_or_placement_that_does_not_exist_is_not_found(world: World) -> None:
    client = await world.client()

    problem_in(await client.post("/v1/placements", json={**WISH, "queue": "mars"}), 404, "not_found")
    problem_in(await client.get("/v1/placements/none"), 404, "not_found")
    problem_in(await client.delete("/v1/placements/none"), 404, "not_found")
