"""A recording becomes a test: it fails as the game did, and passes once the game is right."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast import on
from holdfast.core.recording import NotARecording
from holdfast.testing import GameFailed, MemoryServer, replay, run
from tests.server.recorded_table import Dealt, Play, Played, Table, operations_of, play_some, seen_of


class Broken(Table):
    kind = "table"

    @on(Play)
    def play(self, player: Any, play: Play) -> None:
        if play.number == 4_711:
            raise KeyError("no such card")
        super().play(player, play)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A recording of a game that has failed in its last turn but one."""
    path = tmp_path / "bug.recording"

    async def recorded() -> None:
        async with MemoryServer([Broken], allow_errors=KeyError) as server:
            ada = await server.connect("ada", messages=[Played, Dealt])
            room = await ada.join_or_create("table")
            await play_some(room, Random(5), 40)
            await room.send(Play(4_711))
            await room.send(Play(15))
            await asyncio.sleep(1)
            path.write_bytes(operations_of(server).file(room.id))

    run(recorded())
    return path


def test_a_recording_fails_again_with_the_game_that_failed(file: Path) -> None:
    async def scenario() -> None:
        async with MemoryServer([Broken]) as server:
            await replay(file).run(server, turn=20)

    with pytest.raises(GameFailed) as failed:
        run(scenario())

    assert [str(error) for error in failed.value.exceptions] == ["'no such card'"]


def test_it_passes_with_a_game_that_is_right_and_comes_to_the_recorded_state(file: Path) -> None:
    async def scenario() -> None:
        recording = replay(file)
        # After it the failure, one more card, and the announcement of the room's new entry.
        before = recording.last - 3
        async with MemoryServer([Table]) as server:
            room = await recording.run(server, turn=20, until=before)

            recorded = recording.state_at(before)
            assert seen_of(room) == {name: recorded[name] for name in ("state", "players")}

    run(scenario())


def test_a_room_is_restored_at_any_turn(file: Path) -> None:
    async def scenario() -> None:
        recording = replay(file)
        async with MemoryServer([Table]) as server:
            for turn in (3, 10, recording.last):
                room = await recording.restore(server, turn)
                assert seen_of(room)["players"] == recording.state_at(turn)["players"]

    run(scenario())


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")

    with pytest.raises(NotARecording):
        replay(tmp_path / "x")
