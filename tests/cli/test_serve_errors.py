"""`holdfast serve` with what cannot be served: one line that says why and what to do."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import every_case
from tests.cli.served_games import CHAT, only_line, write
from tests.e2e.serving import (
    ANY_PORTS,
    result_of,
)


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    return write(tmp_path, CHAT)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


# What can be wrong


@every_case(
    ("target", "says"),
    [
        ("nosuch.py", "There is no file nosuch.py."),
        ("folder/nosuch.py", "There is no file folder/nosuch.py."),
        ("nosuch", "There is no module or file named nosuch here"),
        ("nosuch.game", "There is no module or file named nosuch.game here"),
    ],
)
async def test_a_game_that_is_not_there_is_named(tmp_path: Path, target: str, says: str) -> None:
    assert says in only_line(await result_of("serve", target, cwd=tmp_path))


@every_case(
    ("text", "says"),
    [
        ("x = 1", "has no rooms: define a class that subclasses holdfast.Room"),
        ("from holdfast import Room", "has no rooms"),
        ("from holdfast import Room\nclass _Base(Room): ...", "has no rooms"),
        ("rooms = [1]", "`rooms` in game.py must hold Room classes; got 1"),
        (
            "from holdfast import Room\nclass A(Room):\n    disconnect = 'softly'",
            "A.disconnect must be one of soft, hard",
        ),
        ("from holdfast import Room\nclass A(Room):\n    max_players = 0", "A.max_players"),
        (
            "from holdfast import Room\nclass A(Room):\n    kind = 'x'\nclass B(Room):\n    kind = 'x'",
            "two room classes have the kind 'x'",
        ),
    ],
)
async def test_a_file_that_cannot_be_served_says_why_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    write(tmp_path, text)

    line = only_line(await result_of("serve", "game.py", *ANY_PORTS, cwd=tmp_path))

    assert "game.py" in line
    assert says in line


async def test_an_exception_in_the_file_is_shown_without_our_frames(tmp_path: Path) -> None:
    write(tmp_path, "def load_map():\n    raise LookupError('no map')\n\nload_map()\n")

    result = await result_of("serve", "game.py", cwd=tmp_path)

    assert result.exit_code == 1
    assert "in load_map" in result.stderr
    assert "LookupError: no map" in result.stderr
    assert result.stderr.splitlines()[-1] == "Error: game.py could not be loaded; see above."
    assert "holdfast/cli" not in result.stderr
    assert "importlib" not in result.stderr


async def test_a_syntax_error_in_the_file_is_shown_where_it_is(tmp_path: Path) -> None:
    write(tmp_path, "class Arena(:\n")

    result = await result_of("serve", "game.py", cwd=tmp_path)

    assert result.exit_code == 1
    assert 'game.py", line 1' in result.stderr
    assert "SyntaxError" in result.stderr
    assert "holdfast/cli" not in result.stderr


async def test_a_module_that_the_file_misses_is_shown_where_it_is_imported(tmp_path: Path) -> None:
    write(tmp_path, "import no_such_thing\n")

    result = await result_of("serve", "game", cwd=tmp_path)

    assert result.exit_code == 1
    assert "ModuleNotFoundError: No module named 'no_such_thing'" in result.stderr


async def test_the_whole_traceback_is_there_when_it_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, "raise LookupError('no map')\n")

    result = await result_of("serve", "-v", "game.py", cwd=tmp_path)

    assert "holdfast/cli/loading.py" in result.stderr


@pytest.mark.parametrize(("taken", "free"), [("--port", "--tcp-port"), ("--tcp-port", "--port")])
async def test_a_port_in_use_is_named_with_what_to_do(chat: Path, taken_port: int, taken: str, free: str) -> None:
    line = only_line(await result_of("serve", str(chat), taken, str(taken_port), free, "0", "--http-port", "0"))

    assert f"127.0.0.1:{taken_port} is in use" in line
    assert taken in line


async def test_an_address_of_another_machine_is_refused(chat: Path) -> None:
    line = only_line(await result_of("serve", str(chat), "--host", "192.0.2.1", "--insecure", *ANY_PORTS))

    assert "Cannot listen on 192.0.2.1:0" in line


async def test_options_for_a_server_that_the_game_makes_are_refused(tmp_path: Path) -> None:
    write(
        tmp_path,
        CHAT
        + "\n    from holdfast import Server, WebSocket\n    server = Server([Chat], listen=[WebSocket(port=0)])\n",
    )

    line = only_line(await result_of("serve", "game.py", "--port", "5", cwd=tmp_path))

    assert "game.py makes its own server: set --port there" in line
