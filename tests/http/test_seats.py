"""Seats over HTTP: seen, reserved for a party, given back, freed by force."""

from tests.http.world import World, problem_in


async def test_the_seats_of_a_room_are_shown(world: World) -> None:
    world.backend.add_room("r")
    world.backend.add_session("s", "ann", "r")
    client = await world.client()

    seats = (await client.get("/v1/rooms/r/seats")).json()

    assert seats == {
        "seats": [
            {
                "player": "ann",
                "state": "taken",
                "session": "s",
                "latency_ms": 20.0,
                "expires_in_s": 0.0,
                "is_host": False,
                "name": "",
                "is_agent": False,
            }
        ]
    }


async def test_seats_are_reserved_for_a_party_and_given_back_one_by_one(world: World) -> None:
    world.backend.add_room("r")
    client = await world.client()

    made = await client.post("/v1/rooms/r/reservations", json={"players": ["ann", "bob"], "ttl_s": 5})
    given_back = await client.delete("/v1/rooms/r/reservations/ann")

    assert (made.status_code, made.json()) == (201, {"room": "r", "players": ["ann", "bob"], "expires_in_s": 5.0})
    assert (given_back.status_code, given_back.content) == (204, b"")
    assert [seat.player for seat in world.backend.seats["r"]] == ["bob"]


async def test_a_party_that_does_not_fit_gets_no_seat_at_all(world: World) -> None:
    world.backend.add_room("r")
    client = await world.client()

    answer = await client.post("/v1/rooms/r/reservations", json={"players": ["a", "b", "c", "d", "e"]})

    problem_in(answer, 409, "room_full")
    assert world.backend.seats["r"] == []


async def test_seats_are_reserved_for_somebody(world: World) -> None:
    world.backend.add_room("r")
    client = await world.client()

    answer = await client.post("/v1/rooms/r/reservations", json={"players": []})

    assert problem_in(answer, 400, "invalid")["errors"][0]["at"] == "$.players"


async def test_a_player_is_kicked_with_a_reason(world: World) -> None:
    world.backend.add_room("r")
    world.backend.add_session("s", "ann", "r")
    client = await world.client()

    answer = await client.delete("/v1/rooms/r/seats/ann", params={"reason": "be nice"})

    assert answer.status_code == 204
    assert world.backend.told == [("kick", "r", "ann", "be nice")]
    assert world.backend.seats["r"] == []


async def test_a_player_without_a_seat_is_not_found(world: World) -> None:
    world.backend.add_room("r")
    client = await world.client()

    problem_in(await client.delete("/v1/rooms/r/seats/ann"), 404, "not_found")
    problem_in(await client.delete("/v1/rooms/r/reservations/ann"), 404, "not_found")
    problem_in(await client.get("/v1/rooms/none/seats"), 404, "not_found")
