"""`holdfast serve` as its users meet it: arguments, output, signals and an exit code."""

import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

import holdfast
from holdfast import Auth
from holdfast.cli.main import main
from tests.cases import every_case
from tests.cli.served_games import CHAT, Say, only_line, write
from tests.compiled import IS_COMPILED
from tests.e2e.serving import (
    ANY_PORTS,
    end_of,
    holdfast_process,
    python_process,
    read_until,
    result_of,
    serving,
    websocket_address,
)


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    return write(tmp_path, CHAT)


# The command itself


def test_help_names_the_commands_and_how_to_begin() -> None:
    result = CliRunner().invoke(main, ["--help"])

    assert result.exit_code == 0
    assert "holdfast serve game.py" in result.stdout
    assert "holdfast demo" in result.stdout


@every_case("command", ["serve", "demo"])
def test_every_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--help"])

    assert result.exit_code == 0
    assert "Ctrl-C" in result.stdout


async def test_the_version_is_the_package_s() -> None:
    async with python_process("-m", "holdfast", "--version") as process:
        result = await end_of(process)

    build = "compiled" if IS_COMPILED else "pure Python"
    assert result == (0, f"holdfast, version {holdfast.__version__} ({build})\n", "")


# Serving


async def test_a_client_plays_on_a_served_game_and_ctrl_c_ends_it_cleanly(chat: Path) -> None:
    # Started, not forked: the imports are part of what is run here.
    async with python_process("-m", "holdfast", "serve", str(chat), *ANY_PORTS) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")
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


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
async def test_a_player_who_is_connected_does_not_keep_the_server_from_stopping(chat: Path, by: signal.Signals) -> None:
    async with holdfast_process("serve", str(chat), *ANY_PORTS, "--drain", "0.1") as process:
        host, port = websocket_address(await read_until(process, "Press Ctrl-C to stop"))
        async with holdfast.connect(f"ws://{host}:{port}") as session:
            await session.join_or_create("chat")

            result = await end_of(process, by=by)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("Stopped.\n")


async def test_sigterm_gives_the_players_time_and_a_second_one_ends_it_at_once(chat: Path) -> None:
    async with holdfast_process("serve", str(chat), *ANY_PORTS, "--drain", "600") as process:
        host, port = websocket_address(await read_until(process, "Press Ctrl-C to stop"))
        session = await holdfast.connect(f"ws://{host}:{port}", messages=[Say])
        room = await session.join_or_create("chat")
        process.send_signal(signal.SIGTERM)
        announcement = await read_until(process, "Draining")
        await room.send(Say("still here"))
        heard = await room.receive()
        result = await end_of(process, by=signal.SIGTERM)
        await session.suspend()

    assert "1 room may go on for 600 s" in announcement
    assert heard == Say("still here")
    assert result.exit_code == -signal.SIGTERM


async def test_sigterm_ends_a_server_that_nobody_plays_on_cleanly(chat: Path) -> None:
    async with holdfast_process("serve", str(chat), *ANY_PORTS) as process:
        await read_until(process, "Press Ctrl-C to stop")
        result = await end_of(process, by=signal.SIGTERM)

    assert result == (0, "Stopped.\n", "")


async def test_a_list_of_rooms_says_what_is_served(tmp_path: Path) -> None:
    write(tmp_path, CHAT, "parts.py")
    game = write(tmp_path, "from parts import Chat\nclass Lobby(Chat): ...\nrooms = [Chat]\n")

    async with holdfast_process("serve", str(game), *ANY_PORTS) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")

    assert "chat" in announcement
    assert "lobby" not in announcement


async def test_a_server_of_the_game_s_own_is_run_as_it_is(tmp_path: Path) -> None:
    game = write(
        tmp_path,
        CHAT
        + "\n    from holdfast import Server, WebSocket\n    server = Server([Chat], listen=[WebSocket(port=0)])\n",
    )

    async with holdfast_process("serve", str(game)) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")
        result = await end_of(process, by=signal.SIGINT)

    assert "ws://" in announcement
    assert "tcp://" not in announcement
    assert result.exit_code == 0


async def test_a_module_is_served_by_its_name(chat: Path) -> None:
    async with holdfast_process("serve", "game", *ANY_PORTS, cwd=chat.parent) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")

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


async def test_a_store_keeps_guests_known_across_a_restart(chat: Path, tmp_path: Path) -> None:
    first, second = await player_after_restart(chat, "--store", f"sqlite:{tmp_path / 'game.db'}")

    assert first == second


@pytest.mark.parametrize("options", [(), ("--store", "memory:")])
async def test_without_a_secret_it_says_that_guests_will_not_be_known(chat: Path, options: tuple[str, ...]) -> None:
    environment = {"HOLDFAST_SECRET": ""}

    async with holdfast_process("serve", str(chat), *ANY_PORTS, *options, environment=environment) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")

    assert "guests    lose their identity when the server restarts" in announcement


async def test_with_a_secret_in_the_environment_it_does_not(chat: Path) -> None:
    environment = {"HOLDFAST_SECRET": "0123456789abcdef" * 4}

    async with holdfast_process("serve", str(chat), *ANY_PORTS, environment=environment) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")

    assert "guests" not in announcement


async def test_a_secret_that_is_too_short_is_refused_with_a_recipe(chat: Path) -> None:
    line = only_line(await result_of("serve", str(chat), environment={"HOLDFAST_SECRET": "hunter2"}))

    assert "$HOLDFAST_SECRET has 7 bytes and needs 32" in line
    assert "token_hex" in line
    assert "hunter2" not in line


async def test_a_secret_file_that_cannot_be_read_is_named(chat: Path, tmp_path: Path) -> None:
    line = only_line(await result_of("serve", str(chat), "--secret-file", str(tmp_path / "nowhere")))

    assert "nowhere cannot be read: No such file or directory" in line
