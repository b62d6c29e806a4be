"""`holdfast serve` as its users meet it: arguments, output, signals and an exit code."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import holdfast
from holdfast import Auth, Message
from tests.e2e.serving import Result, end_of, holdfast_process, read_until, result_of, serving, websocket_address

ANY_PORTS = ("--port", "0", "--tcp-port", "0")

CHAT = """
    from holdfast import Message, PlayerData, Room, on

    class Say(Message):
        text: str

    class Chat(Room[PlayerData]):
        @on(Say)
        def say(self, player, say):
            self.broadcast(say)
"""


class Say(Message):
    text: str


def write(folder: Path, text: str, name: str = "game.py") -> Path:
    file = folder / name
    file.write_text(dedent(text), "utf-8")
    return file


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    return write(tmp_path, CHAT)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


def only_line(result: Result) -> str:
    """The one line that a command had to say, and that it was an error."""
    assert result.exit_code == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


# The command itself


async def test_help_names_the_commands_and_how_to_begin() -> None:
    result = await result_of("--help")

    assert result.exit_code == 0
    assert "holdfast serve game.py" in result.stdout
    assert "holdfast demo" in result.stdout


@pytest.mark.parametrize("command", ["serve", "demo"])
async def test_every_command_explains_itself(command: str) -> None:
    result = await result_of(command, "--help")

    assert result.exit_code == 0
    assert "Ctrl-C" in result.stdout


async def test_the_version_is_the_package_s() -> None:
    result = await result_of("--version")

    assert result == (0, f"holdfast, version {holdfast.__version__}\n", "")


# Serving


async def test_a_client_plays_on_a_served_game_and_ctrl_c_ends_it_cleanly(chat: Path) -> None:
    async with holdfast_process("serve", str(chat), *ANY_PORTS) as process:
        announcement = await read_until(process, "Ctrl-C ends it")
        host, port = websocket_address(announcement)
        async with holdfast.connect(f"ws://{host}:{port}", messages=[Say]) as session:
            room = await session.join_or_create("chat")
            await room.send(Say("hello"))
            heard = await room.receive()
        result = await end_of(process, by=signal.SIGINT)

    assert heard == Say("hello")
    assert result == (0, "Stopped.\n", "")
    assert "chat (16 seats)" in announcement
    assert "tcp://127.0.0.1:" in announcement


async def test_a_player_who_is_connected_does_not_keep_the_server_from_stopping(chat: Path) -> None:
    async with holdfast_process("serve", str(chat), *ANY_PORTS) as process:
        host, port = websocket_address(await read_until(process, "Ctrl-C ends it"))
        async with holdfast.connect(f"ws://{host}:{port}") as session:
            await session.join_or_create("chat")

            result = await end_of(process, by=signal.SIGTERM)

    assert result == (0, "Stopped.\n", "")


async def test_a_list_of_rooms_says_what_is_served(tmp_path: Path) -> None:
    write(tmp_path, CHAT, "parts.py")
    game = write(tmp_path, "from parts import Chat\nclass Lobby(Chat): ...\nrooms = [Chat]\n")

    async with holdfast_process("serve", str(game), *ANY_PORTS) as process:
        announcement = await read_until(process, "Ctrl-C ends it")

    assert "chat" in announcement
    assert "lobby" not in announcement


async def test_a_server_of_the_game_s_own_is_run_as_it_is(tmp_path: Path) -> None:
    game = write(
        tmp_path, CHAT + "\n    from holdfast import Server\n    server = Server([Chat], port=0, tcp_port=None)\n"
    )

    async with holdfast_process("serve", str(game)) as process:
        announcement = await read_until(process, "Ctrl-C ends it")
        result = await end_of(process, by=signal.SIGINT)

    assert "ws://" in announcement
    assert "tcp://" not in announcement
    assert result.exit_code == 0


async def test_a_module_is_served_by_its_name(chat: Path) -> None:
    async with holdfast_process("serve", "game", *ANY_PORTS, cwd=chat.parent) as process:
        announcement = await read_until(process, "Ctrl-C ends it")

    assert "chat" in announcement


async def test_a_file_may_have_the_name_of_a_module_that_exists(tmp_path: Path) -> None:
    game = write(tmp_path, CHAT, "logging.py")

    async with serving(game) as (host, port), holdfast.connect(f"ws://{host}:{port}") as session:
        room = await session.join_or_create("chat")

    assert room.kind == "chat"


# Guests


async def player_after_restart(game: Path, *options: str) -> tuple[str, str]:
    """A guest's player id, and the one that the same guest has when the server was restarted."""
    async with serving(game, *options) as (host, port), holdfast.connect(f"ws://{host}:{port}") as session:
        first, credential = session.player_id, session.credential
    async with serving(game, *options) as (host, port):
        auth = Auth("guest", credential)
        async with holdfast.connect(f"ws://{host}:{port}", auth=auth) as session:
            return first, session.player_id


async def test_a_secret_file_keeps_guests_known_across_a_restart(chat: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef" * 4 + "\n", "utf-8")

    first, second = await player_after_restart(chat, "--secret-file", str(secret))

    assert first == second


async def test_without_a_secret_it_says_that_guests_will_not_be_known(chat: Path) -> None:
    async with holdfast_process("serve", str(chat), *ANY_PORTS, environment={"HOLDFAST_SECRET": ""}) as process:
        announcement = await read_until(process, "Ctrl-C ends it")

    assert "guests    will not be known after a restart" in announcement


async def test_with_a_secret_in_the_environment_it_does_not(chat: Path) -> None:
    environment = {"HOLDFAST_SECRET": "0123456789abcdef" * 4}

    async with holdfast_process("serve", str(chat), *ANY_PORTS, environment=environment) as process:
        announcement = await read_until(process, "Ctrl-C ends it")

    assert "guests" not in announcement


async def test_a_secret_that_is_too_short_is_refused_with_a_recipe(chat: Path) -> None:
    line = only_line(await result_of("serve", str(chat), environment={"HOLDFAST_SECRET": "hunter2"}))

    assert "$HOLDFAST_SECRET has 7 bytes and needs 32" in line
    assert "token_hex" in line
    assert "hunter2" not in line


async def test_a_secret_file_that_cannot_be_read_is_named(chat: Path, tmp_path: Path) -> None:
    line = only_line(await result_of("serve", str(chat), "--secret-file", str(tmp_path / "nowhere")))

    assert "nowhere cannot be read: No such file or directory" in line


# What can be wrong


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nosuch.py", "There is no file nosuch.py."),
        ("folder/nosuch.py", "There is no file folder/nosuch.py."),
        ("nosuch", "There is no module nosuch here"),
        ("nosuch.game", "There is no module nosuch.game here"),
    ],
)
async def test_a_game_that_is_not_there_is_named(tmp_path: Path, target: str, says: str) -> None:
    assert says in only_line(await result_of("serve", target, cwd=tmp_path))


@pytest.mark.parametrize(
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
            "two kinds of rooms are called 'x'",
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
    assert result.stderr.splitlines()[-1] == "Error: game.py failed while it was loaded; see above."
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
    line = only_line(await result_of("serve", str(chat), taken, str(taken_port), free, "0"))

    assert f"127.0.0.1:{taken_port} is in use" in line
    assert taken in line


async def test_an_address_of_another_machine_is_refused(chat: Path) -> None:
    line = only_line(await result_of("serve", str(chat), "--host", "192.0.2.1", *ANY_PORTS))

    assert "Cannot listen at 192.0.2.1:0" in line


async def test_options_for_a_server_that_the_game_makes_are_refused(tmp_path: Path) -> None:
    write(tmp_path, CHAT + "\n    from holdfast import Server\n    server = Server([Chat], port=0, tcp_port=None)\n")

    line = only_line(await result_of("serve", "game.py", "--port", "5", cwd=tmp_path))

    assert "game.py makes its own server: set what --port asks for there" in line
