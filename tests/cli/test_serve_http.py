"""The HTTP API that `holdfast serve` opens beside the game."""

import asyncio
import json
import re
import socket
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.e2e.serving import holdfast_process, read_until, result_of

GAME = """
from holdfast import PlayerData, Room


class Hall(Room[PlayerData]): ...
"""
EVERYWHERE = "0.0.0.0"  # noqa: S104 - to be refused, or with a key
DOORS = ("--port", "0", "--tcp-port", "0")


def written(folder: Path, *more: str) -> Path:
    """A game's file."""
    file = folder / "game.py"
    file.write_text("\n".join([GAME, *more]))
    return file


@pytest.fixture
def game(tmp_path: Path) -> Path:
    return written(tmp_path)


async def asked(url: str, key: str = "") -> object:
    """What the API answers."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = await asyncio.to_thread(urlopen, Request(url, headers=headers), timeout=30)  # noqa: S310 - ours
    return json.loads(answer.read())


async def test_the_api_is_open_on_this_machine(game: Path) -> None:
    async with holdfast_process("serve", str(game), *DOORS, "--http-port", "0") as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")
        found = re.search(r"http://127\.0\.0\.1:\d+", announcement)
        assert found is not None

        assert await asked(f"{found[0]}/v1/rooms") == {"rooms": [], "cursor": "", "hint": "", "missing": []}


async def test_the_api_can_be_left_out(game: Path) -> None:
    async with holdfast_process("serve", str(game), *DOORS, "--no-http") as process:
        assert "http://" not in await read_until(process, "Press Ctrl-C to stop")


async def test_a_key_in_the_environment_is_asked_for(game: Path) -> None:
    environment = {"HOLDFAST_API_KEY": "0123456789abcdef"}
    async with holdfast_process(
        "serve", str(game), *DOORS, "--http-port", "0", "--http-host", EVERYWHERE, environment=environment
    ) as process:
        found = re.search(r"http://[\d.]+:(\d+)", await read_until(process, "Press Ctrl-C to stop"))
        assert found is not None
        url = f"http://127.0.0.1:{found[1]}/v1/rooms"

        with pytest.raises(OSError, match="401"):
            await asked(url)
        assert await asked(url, "0123456789abcdef") == {"rooms": [], "cursor": "", "hint": "", "missing": []}


async def test_the_api_is_not_opened_to_everybody_without_a_key(game: Path) -> None:
    result = await result_of(
        "serve", str(game), *DOORS, "--http-host", EVERYWHERE, environment={"HOLDFAST_API_KEY": ""}
    )

    assert result.exit_code == 1
    assert "set $HOLDFAST_API_KEY" in result.stderr


async def test_a_port_that_is_taken_is_named_with_what_to_do(game: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = await result_of("serve", str(game), *DOORS, "--http-port", str(port))

    assert result.exit_code == 1
    assert f"127.0.0.1:{port} is in use" in result.stderr
    assert "--http-port" in result.stderr


async def test_a_game_names_its_queues(tmp_path: Path) -> None:
    game = written(tmp_path, "from holdfast import Queue", "queues = [Queue('eu', ('region:eu',))]")
    async with holdfast_process("serve", str(game), *DOORS, "--http-port", "0", "--region", "eu") as process:
        found = re.search(r"http://127\.0\.0\.1:\d+", await read_until(process, "Press Ctrl-C to stop"))
        assert found is not None

        queues = await asked(f"{found[0]}/v1/queues")

    assert queues == {"queues": [{"name": "eu", "destinations": ["region:eu"], "timeout_s": 60.0, "pending": 0}]}


async def test_queues_that_are_none_are_refused(tmp_path: Path) -> None:
    game = written(tmp_path, "queues = ['eu']")

    result = await result_of("serve", str(game), *DOORS, "--no-http")

    assert result.exit_code == 1
    assert "must be a list of holdfast.Queue" in result.stderr
