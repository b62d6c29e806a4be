"""Accounts and tickets over HTTP."""

import pytest

from tests.http.world import World, problem_in

ADA = {"name": "Ada", "password": "correct horse", "player": "ada-1", "roles": ["gm"]}


async def test_an_account_is_made_shown_and_deleted(world: World) -> None:
    client = await world.client()

    made = await client.post("/v1/accounts", json=ADA)
    shown = await client.get(made.headers["location"])
    deleted = await client.delete(made.headers["location"])

    assert made.status_code == 201
    assert made.json() == {"name": "ada", "player": "ada-1", "roles": ["gm"], "created_at": 1.7e9}
    assert made.headers["location"] == "/v1/accounts/ada"
    assert shown.json() == made.json()
    assert deleted.status_code == 204
    problem_in(await client.get("/v1/accounts/ada"), 404, "not_found")


async def test_a_name_that_is_taken_is_a_conflict(world: World) -> None:
    client = await world.client()
    await client.post("/v1/accounts", json=ADA)

    problem_in(await client.post("/v1/accounts", json={**ADA, "name": "ADA"}), 409, "conflict")


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "a:b"},
        {"name": "x" * 65},
        {"password": "7 chars"},
        {"password": "x" * 257},
        {"player": "two\nlines"},
        {"roles": "gm"},
        {"roles": [""]},
        {"roles": ["r"] * 33},
        {"hash": "…"},
    ],
)
async def test_what_cannot_be_an_account_is_refused(world: World, change: dict[str, object]) -> None:
    client = await world.client()

    problem_in(await client.post("/v1/accounts", json=ADA | change), 400, "invalid")
    assert world.backend.accounts == {}


async def test_a_password_is_changed(world: World) -> None:
    client = await world.client()
    await client.post("/v1/accounts", json=ADA)

    changed = await client.put("/v1/accounts/ada/password", json={"password": "another one"})

    assert changed.status_code == 204
    assert world.backend.told[-1] == ("set_password", "ada", "another one")
    problem_in(await client.put("/v1/accounts/zoe/password", json={"password": "another one"}), 404, "not_found")
    problem_in(await client.put("/v1/accounts/ada/password", json={"password": "short"}), 400, "invalid")


async def test_no_answer_repeats_a_password(world: World) -> None:
    client = await world.client()
    secret = "p4ssw0rd-p4ssw0rd"

    answers = [
        await client.post("/v1/accounts", json={**ADA, "password": secret}),
        await client.post("/v1/accounts", json={**ADA, "password": secret}),
        await client.post("/v1/accounts", json={**ADA, "password": secret * 20}),
        await client.post("/v1/accounts", json={"name": 5, "password": secret}),
        await client.get("/v1/accounts/ada"),
    ]

    assert [answer.text for answer in answers if secret in answer.text] == []


async def test_a_ticket_is_issued(world: World) -> None:
    client = await world.client()

    issued = await client.post("/v1/tickets", json={"player": "ada", "roles": ["gm"], "ttl_s": 10})

    assert issued.status_code == 201
    assert issued.json() == {"ticket": "a.ticket", "player": "ada", "expires_at": 1.7e9 + 10}
    assert world.backend.told == [("issue_ticket", "ada", ["gm"], 10)]
    for body in ({}, {"player": ""}, {"player": "ada", "ttl_s": 0}, {"player": "ada", "ttl_s": 301}):
        problem_in(await client.post("/v1/tickets", json=body), 400, "invalid")
