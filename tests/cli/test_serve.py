"""`holdfast serve` as its users meet it: arguments, output, signals and an exit code."""

import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from textwrap import dedent

import pytest

import holdfast
from holdfast import Auth, Message
from holdfast.stores import SqliteStore
from tests.e2e.serving import (
    ANY_PORTS,
    Result,
    end_of,
    holdfast_process,
    read_until,
    result_of,
    serving,
    websocket_address,
)

CHAT = """
    from holdfast import Message, PlayerData, Room, on

    class Say(Message):
        text: str

    class Chat(Room[PlayerData]):
        @on(Say)
        def say(self, player, say):
            self.broadcast(say)
"""

DURABLE_CHAT = """
    import msgspec
    from holdfast import Message, PlayerData, Room, on

    class Say(Message):
        text: str

    class Said(msgspec.Struct):
        texts: list[str] = []

    class Chat(Room[PlayerData]):
        durability = "commit"
        state: Said

        def on_create(self, config):
            self.state = Said()

        @on(Say)
        def say(self, player, say):
            self.state.texts.append(say.text)
            self.broadcast(Say(", ".join(self.state.texts)))
"""

BREAKING_STORE = """
    from holdfast import Server
    from holdfast.stores import Broken, SqliteStore

    class BreakingStore(SqliteStore):
        async def commit(self, batches):
            if any(b"hello" in (write.value or b"") for batch in batches for write in batch):
                raise Broken("the disk has failed")
            return await super().commit(batches)

    server = Server([Chat], port=0, tcp_port=None, store=BreakingStore("game.db"))
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


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
async def test_a_player_who_is_connected_does_not_keep_the_server_from_stopping(chat: Path, by: signal.Signals) -> None:
    async with holdfast_process("serve", str(chat), *ANY_PORTS, "--drain", "0.1") as process:
        host, port = websocket_address(await read_until(process, "Ctrl-C ends it"))
        async with holdfast.connect(f"ws://{host}:{port}") as session:
            await session.join_or_create("chat")

            result = await end_of(process, by=by)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("Stopped.\n")


async def test_sigterm_gives_the_players_time_and_a_second_one_ends_it_at_once(chat: Path) -> None:
    async with holdfast_process("serve", str(chat), *ANY_PORTS, "--drain", "600") as process:
        host, port = websocket_address(await read_until(process, "Ctrl-C ends it"))
        session = await holdfast.connect(f"ws://{host}:{port}", messages=[Say])
        room = await session.join_or_create("chat")
        process.send_signal(signal.SIGTERM)
        announcement = await read_until(process, "Draining")
        await room.send(Say("still here"))
        heard = await room.receive()
        result = await end_of(process, by=signal.SIGTERM)
        await session.suspend()

    assert "one room may go on for 600 s" in announcement
    assert heard == Say("still here")
    assert result.exit_code == -signal.SIGTERM


async def test_sigterm_ends_a_server_that_nobody_plays_on_cleanly(chat: Path) -> None:
    async with holdfast_process("serve", str(chat), *ANY_PORTS) as process:
        await read_until(process, "Ctrl-C ends it")
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


async def test_a_store_keeps_guests_known_across_a_restart(chat: Path, tmp_path: Path) -> None:
    first, second = await player_after_restart(chat, "--store", f"sqlite:{tmp_path / 'game.db'}")

    assert first == second


@pytest.mark.parametrize("options", [(), ("--store", "memory:")])
async def test_without_a_secret_it_says_that_guests_will_not_be_known(chat: Path, options: tuple[str, ...]) -> None:
    environment = {"HOLDFAST_SECRET": ""}

    async with holdfast_process("serve", str(chat), *ANY_PORTS, *options, environment=environment) as process:
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


# A store


@pytest.fixture
def durable(tmp_path: Path) -> Path:
    return write(tmp_path, DURABLE_CHAT, "durable.py")


async def announced(*arguments: str, cwd: Path) -> str:
    """What a server says at its start; it is killed right after, with SIGKILL."""
    environment = {"HOLDFAST_SECRET": ""}
    async with holdfast_process("serve", *arguments, *ANY_PORTS, cwd=cwd, environment=environment) as process:
        return await read_until(process, "Ctrl-C ends it")


async def test_a_room_and_its_session_outlive_a_killed_server(durable: Path) -> None:
    arguments = ("serve", "durable.py", "--store", "sqlite:game.db", *ANY_PORTS)
    async with holdfast_process(*arguments, cwd=durable.parent) as process:
        host, port = websocket_address(await read_until(process, "Ctrl-C ends it"))
        session = await holdfast.connect(f"ws://{host}:{port}", messages=[Say])
        room = await session.join_or_create("chat")
        await room.send(Say("remember me"))
        assert await room.receive() == Say("remember me")
        saved = await session.suspend()
        process.kill()
        await process.wait()

    async with holdfast_process(*arguments, cwd=durable.parent) as process:
        announcement = await read_until(process, "Ctrl-C ends it")
        host, port = websocket_address(announcement)
        async with holdfast.connect(f"ws://{host}:{port}", resume=saved, messages=[Say]) as session:
            assert session.outcome is not None
            assert session.outcome.kind == "resumed"
            assert session.room is not None
            await session.room.send(Say("what did I say?"))
            heard = await session.room.receive()

    assert heard == Say("remember me, what did I say?")
    assert "chat (16 seats, commit)" in announcement
    assert "store     sqlite:game.db\n" in announcement
    assert "recovered 1 room, 1 session\n" in announcement
    assert "guests" not in announcement


async def test_what_cannot_be_read_is_counted_and_left_alone(durable: Path) -> None:
    store = SqliteStore(durable.parent / "game.db")
    await store.open()
    await store.put("room/r1", b"nonsense", 0)
    await store.put("session/s1", b"nonsense", 0)
    await store.close()

    announcement = await announced("durable.py", "--store", "sqlite:game.db", cwd=durable.parent)

    assert "recovered 0 rooms, 0 sessions; 2 records set aside, see the log\n" in announcement


async def test_lazy_recovery_says_so(durable: Path) -> None:
    arguments = ("durable.py", "--store", "sqlite:game.db", "--recovery", "lazy")

    announcement = await announced(*arguments, cwd=durable.parent)

    assert "others come back when they are asked for" in announcement


async def test_a_store_in_memory_says_that_it_forgets(durable: Path) -> None:
    announcement = await announced("durable.py", "--store", "memory:", cwd=durable.parent)

    assert "when this process ends, everything is forgotten" in announcement
    assert "guests    will not be known after a restart" in announcement


async def test_a_store_for_rooms_that_are_not_durable_says_that_nothing_is_saved(chat: Path) -> None:
    announcement = await announced("game.py", "--store", "sqlite:game.db", cwd=chat.parent)

    assert "no room is durable, so none is saved" in announcement
    assert "recovered" not in announcement


async def test_a_durable_room_without_a_store_is_refused_with_what_to_type(durable: Path) -> None:
    line = only_line(await result_of("serve", "durable.py", cwd=durable.parent))

    assert "durable.py: Chat.durability is 'commit', but the server has no store" in line
    assert "holdfast serve --store sqlite:game.db" in line


async def test_recovery_without_a_store_is_refused(chat: Path) -> None:
    assert "without a --store" in only_line(await result_of("serve", str(chat), "--recovery", "lazy"))


def make_nothing(_: Path) -> None: ...


def make_another_program_s_database(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")


@pytest.mark.parametrize(
    ("url", "make", "says"),
    [
        ("game.db", make_nothing, "'game.db' names no store"),
        ("postgres:game", make_nothing, "'postgres:game' names no store"),
        ("sqlite:", make_nothing, "'sqlite:' names no store"),
        ("sqlite:folder/game.db", make_nothing, "there is no folder folder"),
        ("sqlite:game.db", make_another_program_s_database, "game.db is another program's database"),
        ("sqlite:game.db", Path.mkdir, "it is a folder, and a store is a file"),
        # Nobody may make files there, not even root.
        ("sqlite:/proc/game.db", make_nothing, "it cannot be opened; may this user read and write it"),
    ],
)
async def test_a_store_that_cannot_be_opened_says_why_in_one_line(
    durable: Path, url: str, make: Callable[[Path], None], says: str
) -> None:
    make(durable.parent / "game.db")

    line = only_line(await result_of("serve", "durable.py", "--store", url, *ANY_PORTS, cwd=durable.parent))

    assert says in line


async def test_a_store_that_is_damaged_at_the_start_says_so_and_exits_with_74(durable: Path) -> None:
    (durable.parent / "game.db").write_text("not a database, but longer than the header of one " * 10)

    result = await result_of("serve", "durable.py", "--store", "sqlite:game.db", *ANY_PORTS, cwd=durable.parent)

    assert (result.exit_code, result.stdout) == (74, "")
    (line,) = result.stderr.splitlines()
    assert "game.db is damaged or its disk fails" in line
    assert "put back a copy of it" in line


async def test_a_store_that_breaks_ends_the_server_with_74(tmp_path: Path) -> None:
    write(tmp_path, DURABLE_CHAT + BREAKING_STORE)

    async with holdfast_process("serve", "game.py", cwd=tmp_path) as process:
        host, port = websocket_address(await read_until(process, "Ctrl-C ends it"))
        session = await holdfast.connect(f"ws://{host}:{port}", messages=[Say])
        room = await session.join_or_create("chat")
        await room.send(Say("hello"))
        result = await end_of(process)
        await session.suspend()

    assert (result.exit_code, result.stdout) == (74, "")
    assert "the disk has failed" in result.stderr
    assert "Traceback" not in result.stderr


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
    line = only_line(await result_of("serve", str(chat), taken, str(taken_port), free, "0", "--http-port", "0"))

    assert f"127.0.0.1:{taken_port} is in use" in line
    assert taken in line


async def test_an_address_of_another_machine_is_refused(chat: Path) -> None:
    line = only_line(await result_of("serve", str(chat), "--host", "192.0.2.1", "--insecure", *ANY_PORTS))

    assert "Cannot listen at 192.0.2.1:0" in line


async def test_options_for_a_server_that_the_game_makes_are_refused(tmp_path: Path) -> None:
    write(tmp_path, CHAT + "\n    from holdfast import Server\n    server = Server([Chat], port=0, tcp_port=None)\n")

    line = only_line(await result_of("serve", "game.py", "--port", "5", cwd=tmp_path))

    assert "game.py makes its own server: set what --port asks for there" in line
