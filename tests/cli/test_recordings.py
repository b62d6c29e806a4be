"""`holdfast rooms replay`, `rerun`, `recording` and `fork`, against a real node with its HTTP API."""

import stat
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Server, WebSocket
from holdfast.http.api import ApiKey, HttpApi
from holdfast.server.operate.player_view import player_view as right
from tests.cli.operator import Operator
from tests.server.recorded_table import Dealt, Play, Played, Table

KEY = "0123456789abcdef"


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    api = HttpApi(port=0, keys=[ApiKey(KEY, ["admin"]), ApiKey(KEY[::-1], ["rooms"])])
    async with Server([Table], listen=[WebSocket(port=0)], http=api) as server:
        yield Operator(server, KEY)


async def _play(operator: Operator) -> tuple[Any, str]:
    session = await holdfast.connect(operator.server.url, messages=[Played, Dealt])
    room = await session.join_or_create("table")
    for number in (7, 8, 15):
        await room.send(Play(number, "a"))
    while (await room.receive()) != Played(15):
        pass
    return session, room.id


async def test_a_room_is_replayed_turn_by_turn(operator: Operator) -> None:
    session, room_id = await _play(operator)

    text = await operator.output("rooms", "replay", room_id)
    turns = await operator.json("rooms", "replay", room_id, "--last", "3")
    shown = await operator.json("rooms", "replay", room_id, "--turn", "4")

    me = session.player_id
    assert f'{me}: play {{"number": 7, "about": "a"}}' in text
    assert f"~ players.{me}.score, room.groups.a" in text
    assert "! refused: not this one" in text
    assert f'> played {{"number": 15}} to {me}' in text
    assert [turn["number"] for turn in turns] == [4, 5, 6]
    assert shown["state"]["players"][me]["score"] == 7
    none = await operator.run("rooms", "replay", room_id, "--turn", "99")
    assert (none.exit_code, "no turn 99: turns 1 to 6 are kept" in none.output) == (1, True)
    await session.close()


async def test_a_recording_is_read_beside_the_games(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    session, room_id = await _play(operator)
    threads: set[int] = set()

    def player_view(*args: Any) -> Any:
        threads.add(threading.get_ident())
        return right(*args)

    monkeypatch.setattr("holdfast.server.operate.recordings.player_view", player_view)

    await operator.output("rooms", "replay", room_id, "--player", session.player_id)
    await operator.output("rooms", "replay", room_id, "--turn", "4", "--player", session.player_id)

    assert threads
    assert threading.get_ident() not in threads
    await session.close()


async def test_a_replay_for_a_player_shows_what_they_were_sent(operator: Operator) -> None:
    session, room_id = await _play(operator)

    shown = await operator.json("rooms", "replay", room_id, "--turn", "6", "--player", session.player_id)
    stranger = await operator.json("rooms", "replay", room_id, "--turn", "6", "--player", "nobody")

    assert shown["state"].keys() == {"state", "players", "mine"}
    assert stranger["state"] == {}
    assert (stranger["turn"]["sent"], stranger["turn"]["player"]) == ([], "")
    await session.close()


async def test_a_downloaded_recording_is_for_its_owner_and_replayed_without_the_node(
    operator: Operator, tmp_path: Path
) -> None:
    session, room_id = await _play(operator)
    file = tmp_path / "bug.recording"

    await operator.output("rooms", "recording", room_id, "-o", str(file))

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    nowhere = ("--url", "http://127.0.0.1:9")
    for words in (("--last", "2"), ("--turn", "5")):
        from_file = await operator.json("rooms", "replay", str(file), *words, *nowhere)
        assert from_file == await operator.json("rooms", "replay", room_id, *words)
    hidden = await operator.run("rooms", "replay", str(file), "--player", "ada", *nowhere)
    assert "--player needs the room's node" in hidden.output
    await session.close()


async def test_a_file_that_is_no_recording_is_refused_in_a_sentence(operator: Operator, tmp_path: Path) -> None:
    file = tmp_path / "room.json"
    file.write_text('{"format": "holdfast-room"}')

    result = await operator.run("rooms", "replay", str(file))

    assert result.exit_code == 1
    assert result.output.strip() == f"Error: {file} cannot be opened: it is not a recording of a room."


GAME = """
from holdfast import on
from tests.server.recorded_table import Play, Table as Before


class Table(Before):
    kind = "table"

    @on(Play)
    def play(self, player, play):
        super().play(player, play)
        player.data.score {change}


rooms = [Table]
"""


async def test_turns_are_taken_again_on_todays_code(operator: Operator, tmp_path: Path) -> None:
    session, room_id = await _play(operator)
    same, other = tmp_path / "same_table.py", tmp_path / "other_table.py"
    same.write_text(GAME.format(change="+= 0"))
    other.write_text(GAME.format(change="+= 1"))

    text = await operator.output("rooms", "rerun", room_id, str(same))
    differs = await operator.run("rooms", "rerun", room_id, str(other), "--first", "3")
    nothing = await operator.run("rooms", "rerun", room_id, str(tmp_path / "none.py"))

    assert text.strip() == "Turns 1 to 6 end as they were recorded."
    assert differs.exit_code == 1
    lines = differs.output.splitlines()
    assert lines[0] == "Turn 4 differs."
    assert f'{session.player_id}: play {{"number": 7, "about": "a"}}' in lines[1]
    assert lines[-1].strip() == f"≠ players.{session.player_id}.score: 7 was recorded, and is 8 now"
    assert (nothing.exit_code, "There is no file" in nothing.output) == (1, True)
    await session.close()


async def test_a_fork_is_joined_by_the_same_player(operator: Operator) -> None:
    session, room_id = await _play(operator)

    forked = await operator.json("rooms", "fork", room_id, "--turn", "4")

    assert (forked["kind"], forked["visibility"], forked["players"]) == ("table", "private", 1)
    assert session.room is not None
    await session.room.leave()
    await session.join(forked["id"])
    player = operator.server.rooms.runner(forked["id"]).room.player(session.player_id)
    assert player is not None
    assert player.data.score == 7
    await session.close()


async def test_a_key_for_less_than_everything_reads_no_recording(operator: Operator) -> None:
    session, room_id = await _play(operator)

    for words in (("replay", room_id), ("recording", room_id), ("fork", room_id, "--turn", "1")):
        result = await operator.run("rooms", *words, "--api-key", KEY[::-1])
        assert (result.exit_code, "admin" in result.output) == (1, True)
    await session.close()
