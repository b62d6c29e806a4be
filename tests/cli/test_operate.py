"""The commands that operate a running node, against a real one with its HTTP API."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner, Result

import holdfast
from holdfast import Queue, Room, Server, WebSocket
from holdfast.cli.main import main
from holdfast.cli.operate import showing
from holdfast.http.api import HttpApi
from holdfast.http.keys import ApiKey


class Hall(Room[holdfast.PlayerData]):
    """A room with two seats."""

    kind = "hall"
    max_players = 2


@dataclass
class Desk:
    """A running node, and how to operate it."""

    server: Server
    url: str
    key: str = ""

    async def say(self, *words: str) -> Result:
        """Run a command against it, in a thread: the node answers on this loop."""
        environment = {"HOLDFAST_URL": self.url, "HOLDFAST_API_KEY": self.key}
        return await asyncio.to_thread(CliRunner().invoke, main, words, env=environment)

    async def json(self, *words: str) -> Any:
        """What a command prints for programs."""
        result = await self.say(*words, "--json")
        assert result.exit_code == 0, result
        return json.loads(result.stdout)


KEY = "0123456789abcdef"


@pytest.fixture(params=[(), (ApiKey(KEY, ["admin"]),)], ids=["open", "with a key"])
async def desk(request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    keys = request.param
    api = HttpApi(port=0, keys=keys)
    async with Server([Hall], listen=[WebSocket(port=0)], http=api, queues=[Queue("all", ("*",))]) as server:
        host, port = server.addresses["http"]
        yield Desk(server, f"http://{host}:{port}", KEY if keys else "")


async def test_a_room_is_made_found_shown_and_ended(desk: Desk) -> None:
    assert (await desk.say("rooms", "list")).stdout.strip() == "There are no rooms."

    made = await desk.json("rooms", "create", "hall", "--name", "Great Hall", "--property", "level=3")
    assert (made["name"], made["properties"], made["max_players"]) == ("Great Hall", {"level": 3}, 2)

    table = (await desk.say("rooms", "list", "--where", "properties.level > 2")).stdout
    assert made["id"] in table
    assert "Great Hall" in table
    assert await desk.json("rooms", "list", "--where", "properties.level > 3") == []
    assert "Great Hall" in (await desk.say("rooms", "show", made["id"])).stdout
    assert (await desk.say("rooms", "seats", made["id"])).stdout.strip() == "No seats are taken."

    ended = await desk.json("rooms", "end", made["id"], "--reason", "maintenance")
    assert ended["reason"] == "maintenance"


async def test_the_same_key_makes_the_same_room(desk: Desk) -> None:
    first = await desk.json("rooms", "create", "hall", "--key", "k1")
    again = await desk.json("rooms", "create", "hall", "--key", "k1")
    other = await desk.say("rooms", "create", "hall", "--key", "k1", "--name", "Another")

    assert first["id"] == again["id"]
    assert other.exit_code == 1
    assert "used before" in other.stderr


async def test_players_and_sessions_are_listed_kicked_and_ended(desk: Desk) -> None:
    room = await desk.server.create_room("hall")
    async with holdfast.connect(desk.server.url) as ada:
        await ada.join(room.id)

        [session] = await desk.json("sessions", "list")
        [player] = await desk.json("players", "list")
        assert (session["id"], session["player"], session["room"]) == (ada.id, ada.player_id, room.id)
        assert player == {"id": ada.player_id, "sessions": [ada.id], "rooms": [room.id]}
        assert ada.player_id in (await desk.say("rooms", "seats", room.id)).stdout

        kicked = await desk.say("players", "kick", room.id, ada.player_id, "--reason", "be nice")
        assert kicked.stdout.strip() == f"Player {ada.player_id} was removed from room {room.id}."
        assert room.players == ()

        ended = await desk.say("sessions", "end", ada.id)
        assert ended.stdout.strip() == f"Session {ada.id} has ended."
        assert len(desk.server.sessions) == 0


async def test_a_placement_is_started_and_shown(desk: Desk) -> None:
    await desk.json("placements", "start", "all", "hall", "--player", "ada", "--id", "p-1")

    shown = await desk.json("placements", "show", "p-1")
    listed = await desk.json("placements", "list")
    queues = (await desk.say("placements", "queues")).stdout
    assert shown["status"] == "fulfilled"
    assert shown["players"] == ["ada"]
    assert listed == [shown]
    assert "all" in queues


async def test_a_mistake_in_a_search_is_pointed_at(desk: Desk) -> None:
    result = await desk.say("rooms", "list", "--where", "players >> 2")

    assert result.exit_code == 1
    assert result.stderr.splitlines()[0].startswith("Error: where, column 10:")
    assert result.stderr.rstrip().endswith("^")


async def test_a_node_that_is_not_there_is_said_to_be(desk: Desk) -> None:
    result = await desk.say("rooms", "list", "--url", "http://127.0.0.1:9")

    assert result.exit_code == 1
    assert "No node answers at http://127.0.0.1:9" in result.stderr


async def test_a_wrong_key_is_refused_and_nothing_is_shown() -> None:
    api = HttpApi(port=0, keys=[ApiKey(KEY, ["read"])])
    async with Server([Hall], listen=[WebSocket(port=0)], http=api) as server:
        host, port = server.addresses["http"]
        desk = Desk(server, f"http://{host}:{port}")

        without = await desk.say("rooms", "list")
        may_only_read = await desk.say("rooms", "create", "hall", "--api-key", KEY)

    assert without.exit_code == may_only_read.exit_code == 1
    assert "Give one with --api-key" in without.stderr
    assert KEY not in without.stderr + may_only_read.stderr


async def test_what_players_write_cannot_steer_the_operator_s_terminal(desk: Desk) -> None:
    await desk.server.create_room("hall", name="\x1b]0;mine\x07\x1b[2Jred\nrow")

    listed = (await desk.say("rooms", "list")).stdout

    assert "\x1b" not in listed
    assert "\\x1b]0;mine\\x07\\x1b[2Jred\\nrow" in listed


async def test_an_id_is_whole_however_long_the_names_are(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "PIPE_COLUMNS", 80)
    rooms = [await desk.server.create_room("hall", name="long " * 20, properties={"map": "x" * 100}) for _ in range(2)]

    listed = (await desk.say("rooms", "list")).stdout

    assert all(room.id in listed for room in rooms)
    assert "0 of 2" in listed
