"""What the dashboard asks for beside the directory: overview, settings, kinds, states, messages, broadcasts."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast.schemas.node import EventInfo
from tests.deadlines import DEADLINE_S
from tests.http.reader import reading
from tests.http.world import World, problem_in


async def test_the_overview_is_shown_once_and_again_and_again(world: World) -> None:
    world.backend.add_session("s", "ann")
    client = await world.client()

    once = (await client.get("/v1/overview")).json()
    async with reading(client, "/v1/overview/live") as reader:
        world.backend.publish("overview", players=1)
        live = await reader.event()

    assert (once["players"], once["node"]["name"]) == (1, "node-1")
    assert live is not None
    assert (live[1]["type"], live[1]["body"]) == ("overview", {"players": 1})


async def test_settings_and_kinds_are_shown(world: World) -> None:
    client = await world.client()

    settings = (await client.get("/v1/settings")).json()
    kinds = (await client.get("/v1/kinds")).json()["kinds"]

    assert settings["urls"] == {"websocket": "ws://127.0.0.1:7777"}
    assert [kind["kind"] for kind in kinds] == ["arena", "chess"]
    assert kinds[0]["messages"][0]["schema"]["properties"] == {"x": {"type": "number"}}


async def test_a_room_is_looked_into(world: World) -> None:
    world.backend.add_room("r")
    world.backend.add_session("s", "ann", "r")
    client = await world.client()

    state = (await client.get("/v1/rooms/r/state")).json()

    assert state["state"] == {"round": 3}
    assert state["players"] == [
        {"id": "ann", "seat": "taken", "data": {"hp": 100}, "owned": [], "name": "", "groups": [], "options": None}
    ]
    problem_in(await client.get("/v1/rooms/none/state"), 404, "not_found")


async def test_what_is_said_in_a_room_is_read_as_it_is_said(world: World) -> None:
    world.backend.add_room("r")
    client = await world.client()

    async with reading(client, "/v1/rooms/r/messages") as reader:
        world.backend.publish("message", player="ann", type="say")
        event = await reader.event()

    assert event is not None
    assert event[1]["body"] == {"player": "ann", "type": "say"}
    problem_in(await client.get("/v1/rooms/none/messages"), 404, "not_found")


@pytest.mark.parametrize(
    ("source", "path"), [("room_messages", "/v1/rooms/r/messages"), ("overviews", "/v1/overview/live")]
)
async def test_who_watches_is_waited_for_when_much_is_told_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch, source: str, path: str
) -> None:
    async def burst(*_: str) -> AsyncIterator[EventInfo]:
        for number in range(1, 51):
            yield EventInfo(number, "message", 0.0, {"text": "x" * 8_000})

    monkeypatch.setattr(world.backend, source, burst)
    client = await world.client(await world.serve(stream_bytes_max=50_000))

    async with reading(client, path) as reader:
        heard = [await reader.event() for _ in range(50)]
        end = await reader.event()

    assert [event and event[0] for event in heard] == [str(number) for number in range(1, 51)]
    assert end is None


async def test_who_watches_and_takes_nothing_is_cut_off_in_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = asyncio.Event()

    async def endless(_: str) -> AsyncIterator[EventInfo]:
        try:
            while True:
                yield EventInfo(1, "message", 0.0, {"text": "x" * 50_000})
        finally:
            left.set()

    monkeypatch.setattr(world.backend, "room_messages", endless)
    server = await world.serve(stream_bytes_max=100_000, heartbeat_s=0.01)
    stuck = await world.dial(server, buffer_bytes=2048)

    stuck.say("GET /v1/rooms/r/messages HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await stuck.hear("retry: 1000")

    async with asyncio.timeout(DEADLINE_S):
        await left.wait()


async def test_everybody_in_a_room_is_told_something(world: World) -> None:
    world.backend.add_room("r")
    world.backend.add_session("s", "ann", "r")
    client = await world.client()

    answer = await client.post("/v1/rooms/r/broadcast", json={"type": "notice", "body": {"text": "hello"}})

    assert answer.json() == {"players": 1}
    assert world.backend.told == [("broadcast", "r", "notice", {"text": "hello"})]
    problem_in(await client.post("/v1/rooms/r/broadcast", json={"type": "holdfast.left"}), 400, "invalid")
    problem_in(await client.post("/v1/rooms/none/broadcast", json={"type": "notice"}), 404, "not_found")


async def test_everybody_on_the_node_is_told_something(world: World) -> None:
    world.backend.add_session("s", "ann")
    client = await world.client()

    text = await client.post("/v1/broadcast", json={"text": "soon"})
    typed = await client.post("/v1/broadcast", json={"type": "wave", "body": {"n": 3}, "role": "gm", "kind": "arena"})

    assert (text.json(), typed.json()) == ({"sessions": 1, "missing": []},) * 2
    assert world.backend.told == [
        ("broadcast_to_sessions", "soon", "", {}, "", "", ""),
        ("broadcast_to_sessions", "", "wave", {"n": 3}, "gm", "arena", ""),
    ]
    problem_in(await client.post("/v1/broadcast", json={}), 400, "invalid")
    problem_in(await client.post("/v1/broadcast", json={"text": "x", "kind": "none"}), 404, "not_found")
    problem_in(await client.post("/v1/broadcast", json={"text": "x" * 1025}), 400, "invalid")


async def test_a_connection_is_dropped_and_sessions_are_searched(world: World) -> None:
    for number, player in enumerate(["ann", "bob", "anna"]):
        world.backend.add_session(f"s{number}", player)
    client = await world.client()

    found = (await client.get("/v1/sessions", params={"search": "ann", "status": "connected"})).json()
    players = (await client.get("/v1/players", params={"search": "bo"})).json()
    dropped = await client.post("/v1/sessions/s1/drop", params={"reason": "a test"})

    assert [session["player"] for session in found["sessions"]] == ["ann", "anna"]
    assert (await client.get("/v1/sessions", params={"status": "ended"})).json()["sessions"] == []
    assert [player["id"] for player in players["players"]] == ["bob"]
    assert dropped.status_code == 204
    assert world.backend.told == [("drop_session", "s1", "a test")]
    problem_in(await client.post("/v1/sessions/none/drop"), 404, "not_found")
