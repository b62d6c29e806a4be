"""The node over HTTP: what it is, whether it lives, whether it is ready."""

import pytest
from msgspec.structs import replace

from tests.http.world import KEYS, World, problem_in


async def test_the_node_is_shown(world: World) -> None:
    client = await world.client()

    node = (await client.get("/v1/node")).json()

    assert node == {
        "name": "node-1",
        "region": "eu-west",
        "is_ready": True,
        "is_healthy": True,
        "rooms": 0,
        "rooms_max": 100,
        "sessions": 0,
        "reasons": [],
    }


@pytest.mark.parametrize("state", [{"is_ready": False}, {"is_healthy": False}], ids=["not ready", "not healthy"])
async def test_a_node_that_takes_no_rooms_says_why_and_still_lives(world: World, state: dict[str, bool]) -> None:
    client = await world.client()
    assert (await client.get("/readyz")).json() == {"status": "ready"}

    world.backend.info = replace(world.backend.info, reasons=["it is stopping", "its disk is full"], **state)
    ready = await client.get("/readyz")
    live = await client.get("/livez")

    problem = problem_in(ready, 503, "not_ready")
    assert problem["reasons"] == ["it is stopping", "its disk is full"]
    assert problem["detail"] == "it is stopping; its disk is full"
    assert (live.status_code, live.json()) == (200, {"status": "live"})


async def test_probes_and_documents_need_no_key(world: World) -> None:
    client = await world.client(await world.serve(KEYS))

    for path in ("/livez", "/readyz", "/openapi.json", "/docs"):
        assert (await client.get(path)).status_code == 200
