"""What happened to a session, asked for over HTTP."""

from tests.http.world import World, problem_in


async def test_a_session_is_explained_by_its_id_and_by_its_player(world: World) -> None:
    world.backend.add_session("s/1", "ann")
    client = await world.client()

    by_id = await client.get("/v1/sessions/s%2F1/timeline")
    by_player = await client.get("/v1/players/ann/timeline")

    assert by_id.status_code == 200
    assert by_id.json() == by_player.json()
    assert by_id.json() == {
        "session": "s/1",
        "player": "ann",
        "status": "connected",
        "explanation": "Nothing has gone wrong.",
        "entries": [
            {
                "at": 1_700_000_000.5,
                "type": "session.opened",
                "text": "signed in",
                "body": {"session": "s/1"},
                "node": "",
            }
        ],
        "advice": "",
        "reason": "",
        "forgotten": 0,
        "name": "",
        "node": "",
        "missing": [],
    }


async def test_of_whom_nothing_is_known_nothing_is_told(world: World) -> None:
    client = await world.client()

    problem_in(await client.get("/v1/sessions/s/timeline"), 404, "not_found")
    problem_in(await client.get("/v1/players/zoe/timeline"), 404, "not_found")
