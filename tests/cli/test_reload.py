"""`holdfast serve --reload`, with real processes: the code changes while somebody plays."""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast import ClientSession, Message
from holdfast.cli import reload
from holdfast.cli.reload import changed, free_ports, snapshot, syntax_errors
from holdfast.transports.port import DialError
from tests.cases import every_case
from tests.cli.served_games import CHAT, Say, write
from tests.deadlines import DEADLINE_S
from tests.e2e.serving import end_of, holdfast_process, python_process, read_until, websocket_address

# Without the HTTP API, which takes longer to import than all the rest.
GAME_PORTS = ("--port", "0", "--tcp-port", "0", "--no-http")

COUNTER = """
    import msgspec
    from holdfast import Message, PlayerData, Room, on
    from rules import NAME

    class Add(Message):
        n: int

    class Sum(Message):
        seen: list[int]
        by: str

    class Tally(msgspec.Struct):
        seen: list[int] = []

    class Counter(Room[PlayerData]):
        durability = "commit"
        state: Tally

        def on_create(self, config):
            self.state = Tally()

        @on(Add)
        def add(self, player, add):
            self.state.seen.append(add.n)
            player.send(Sum(self.state.seen, NAME))
"""


class Add(Message):
    n: int


class Sum(Message):
    seen: list[int]
    by: str


@pytest.fixture
def game(tmp_path: Path) -> Path:
    write(tmp_path, 'NAME = "old"\n', "rules.py")
    return write(tmp_path, COUNTER)


def supervised(*arguments: str, cwd: Path) -> AbstractAsyncContextManager[Process]:
    """A command whose temporary files are the test's own: one that is killed leaves them behind."""
    return holdfast_process(*arguments, cwd=cwd, environment={"TMPDIR": str(cwd)})


@asynccontextmanager
async def reloading(game: Path, *options: str) -> AsyncIterator[tuple[Process, str]]:
    """The command and what it announced. Whatever happens, its server does not outlive it."""
    async with supervised("serve", game.name, "--reload", *GAME_PORTS, *options, cwd=game.parent) as process:
        yield process, await read_until(process, "Press Ctrl-C to stop")


async def complaint(process: Process, pattern: str) -> str:
    """What it complains of, up to the first line that matches."""
    assert process.stderr is not None
    seen = ""
    async with asyncio.timeout(DEADLINE_S):
        while line := (await process.stderr.readline()).decode():
            seen += line
            if re.search(pattern, line):
                return seen
    raise AssertionError(f"it ended after it complained of:\n{seen}")


def url(announcement: str) -> str:
    host, port = websocket_address(announcement)
    return f"ws://{host}:{port}"


async def last_sum(room: holdfast.ClientRoom, n: int) -> Sum:
    """The answer to the message with this number."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            message = await room.receive()
            assert isinstance(message, Sum)
            if message.seen[-1] == n:
                return message


async def send_all(room: holdfast.ClientRoom, numbers: Iterable[int]) -> None:
    for number in numbers:
        await room.send(Add(number))


async def test_who_plays_while_the_code_changes_goes_on_with_the_new_code_and_nothing_is_lost_or_doubled(
    game: Path,
) -> None:
    async with reloading(game) as (process, announcement):
        async with holdfast.connect(url(announcement), messages=[Sum]) as session:
            room = await session.join_or_create("counter")
            await send_all(room, range(20))
            before = await last_sum(room, 19)

            write(game.parent, 'NAME = "new"\n', "rules.py")
            sending = asyncio.create_task(send_all(room, range(20, 400)))
            said = await read_until(process, "Press Ctrl-C to stop")
            await sending
            await room.send(Add(400))
            after = await last_sum(room, 400)

            assert session.drops == 1
            assert session.outcome is not None
            assert session.outcome.kind == "resumed"
        result = await end_of(process, by=signal.SIGINT)
        left_behind = list(game.parent.glob("holdfast-*"))

    assert left_behind == []
    assert before == Sum(list(range(20)), "old")
    assert after == Sum(list(range(401)), "new")
    assert "Restarting: rules.py changed." in said
    assert "recovered 1 room, 1 session" in said
    assert url(said) == url(announcement)
    assert result == (0, "Stopped.\n", "")


async def test_it_says_at_the_start_what_is_kept(game: Path) -> None:
    async with reloading(game) as (_, announcement):
        pass

    assert "store     temporary, until this command ends" in announcement
    assert "reload    restarts when a .py file changes" in announcement
    assert "in memory" not in announcement


async def test_rooms_that_are_not_kept_are_named(game: Path) -> None:
    write(game.parent, COUNTER + CHAT.replace("from holdfast import", "from holdfast import Player,"))

    async with reloading(game, "--store", "sqlite:game.db") as (_, announcement):
        pass

    assert "restarts end rooms in memory: chat;" in announcement
    assert "store     sqlite:game.db" in announcement


async def test_code_that_cannot_be_read_leaves_the_old_server_running(game: Path) -> None:
    async with (
        reloading(game) as (process, announcement),
        holdfast.connect(url(announcement), messages=[Sum]) as session,
    ):
        room = await session.join_or_create("counter")

        write(game.parent, "NAME = 'unfinished\n", "rules.py")
        said = await complaint(process, "until this is fixed")
        await room.send(Add(1))
        meanwhile = await last_sum(room, 1)
        write(game.parent, 'NAME = "mended"\n', "rules.py")
        await read_until(process, "Press Ctrl-C to stop")
        await room.send(Add(2))
        after = await last_sum(room, 2)

    assert "SyntaxError: unterminated string literal" in said
    assert "The server keeps running the old code" in said
    assert (meanwhile.by, after) == ("old", Sum([1, 2], "mended"))


def test_a_broken_file_that_is_deleted_again_changes_nothing(
    game: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = write(game.parent, "NAME = 'unfinished\n", "broken.py")
    with_it = snapshot(game.parent)
    before = {file: state for file, state in with_it.items() if file != broken}
    seen = iter([before, with_it, before, before])
    monkeypatch.setattr(reload, "snapshot", lambda _folder: next(seen))
    monkeypatch.setattr(reload, "POLL_S", 0.01)
    reloader = reload.Reloader([sys.executable, "-c", "import sys; sys.stdin.read()"], game.parent)

    with pytest.raises(StopIteration):
        reloader.run()

    reloader.stop()
    said = capsys.readouterr()
    assert "until this is fixed" in said.err
    assert "Restarting" not in said.out


async def test_code_that_fails_is_shown_and_the_next_change_is_waited_for(game: Path) -> None:
    async with (
        reloading(game) as (process, announcement),
        holdfast.connect(url(announcement), messages=[Sum]) as session,
    ):
        room = await session.join_or_create("counter")

        write(game.parent, "NAME = undefined\n", "rules.py")
        said = await complaint(process, "Waiting for a file to change")
        write(game.parent, 'NAME = "mended"\n', "rules.py")
        await read_until(process, "Press Ctrl-C to stop")
        await room.send(Add(1))
        after = await last_sum(room, 1)

    assert "NameError: name 'undefined' is not defined" in said
    assert after == Sum([1], "mended")


async def test_a_game_that_fails_at_the_start_is_waited_for_too(game: Path) -> None:
    write(game.parent, "NAME = undefined\n", "rules.py")

    async with supervised("serve", "game.py", "--reload", *GAME_PORTS, cwd=game.parent) as process:
        await complaint(process, "Waiting for a file to change")
        write(game.parent, 'NAME = "mended"\n', "rules.py")
        announcement = await read_until(process, "Press Ctrl-C to stop")

    assert "ws://" in announcement


async def connected(address: str) -> ClientSession:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await holdfast.connect(address, messages=[Sum])
            except DialError:
                await asyncio.sleep(0.05)


async def test_a_change_while_the_server_is_starting_starts_it_again(game: Path) -> None:
    write(game.parent, "NAME = undefined\n", "rules.py")

    async with supervised("serve", "game.py", "--reload", *GAME_PORTS, cwd=game.parent) as process:
        await complaint(process, "Waiting for a file to change")
        for turn in range(5):
            write(game.parent, f'NAME = "of turn {turn}"\n', "rules.py")
            await read_until(process, "Restarting")
        announcement = await read_until(process, "Press Ctrl-C to stop")
        # It may be that of a server which is being stopped already: the next one has the same port.
        session = await connected(url(announcement))
        room = await session.join_or_create("counter")
        await room.send(Add(1))
        answer = await last_sum(room, 1)
        await session.close()
        result = await end_of(process, by=signal.SIGINT)

    assert answer == Sum([1], "of turn 4")
    assert "Abort" not in result.stderr, "it is no news that a start was stopped"


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
async def test_ctrl_c_ends_both_cleanly_while_somebody_plays(game: Path, by: signal.Signals) -> None:
    async with reloading(game) as (process, announcement):
        session = await holdfast.connect(url(announcement), messages=[Say])
        await session.join_or_create("counter")
        result = await end_of(process, by=by)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*websocket_address(announcement))
        await session.suspend()

    assert result == (0, "Stopped.\n", "")


async def test_a_server_does_not_outlive_a_supervisor_that_was_killed(game: Path) -> None:
    async with reloading(game) as (process, announcement):
        process.kill()
        # Its output ends when nobody is left who could write to it.
        await end_of(process)

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*websocket_address(announcement))


ENDLESS = """
    import asyncio, signal, sys
    from pathlib import Path
    from holdfast.cli.reload import Supervised

    async def main():
        Supervised(Path()).obey(patience_s=0.1)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, sys.exit)
        print("up", flush=True)
        while True:
            pass

    asyncio.run(main())
"""


async def test_a_server_that_is_caught_in_a_loop_does_not_outlive_its_supervisor_either(tmp_path: Path) -> None:
    # The supervisor's end of the pipe is the only one, and closes with it.
    reads, writes = os.pipe()
    with os.fdopen(reads), os.fdopen(writes, "w") as supervisor:
        async with python_process(str(write(tmp_path, ENDLESS)), stdin=reads) as process:
            await read_until(process, "up")
            supervisor.close()
            result = await end_of(process)

    assert result.exit_code == 1


async def test_what_a_server_started_ends_with_it_when_it_has_to_be_killed(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import signal, subprocess, sys, time

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(90)"])
        print("deaf", flush=True)
        time.sleep(90)
        """,
    )

    async with supervised("serve", "game.py", "--reload", *GAME_PORTS, cwd=tmp_path) as process:
        await read_until(process, "deaf")
        process.send_signal(signal.SIGINT)
        # Its output ends when nobody is left who could write to it.
        result = await end_of(process)

    assert result == (0, "Stopped.\n", "")


async def test_a_server_of_the_game_s_own_starts_again_too(tmp_path: Path) -> None:
    own = (
        CHAT + "\n    from holdfast import Server, WebSocket\n    server = Server([Chat], listen=[WebSocket(port=0)])\n"
    )
    game = write(tmp_path, own)

    async with supervised("serve", "game.py", "--reload", cwd=tmp_path) as process:
        await read_until(process, "Press Ctrl-C to stop")
        write(tmp_path, own + "    # changed\n")
        said = await read_until(process, "Press Ctrl-C to stop")
        result = await end_of(process, by=signal.SIGINT)

    assert f"Restarting: {game.name} changed." in said
    assert "restarts end rooms in memory: chat;" in said
    assert result.exit_code == 0


# Ports


def test_each_listener_that_takes_any_port_is_given_one_of_its_own() -> None:
    ports = {f"--{number}": ("127.0.0.1", 0 if number % 2 else 7777) for number in range(100)}

    options = free_ports(ports)

    assert options[::2] == [f"--{number}" for number in range(1, 100, 2)]
    assert len({int(port) for port in options[1::2]} - {0}) == 50


def test_an_address_that_is_not_ours_is_left_to_the_server_to_complain_of() -> None:
    assert free_ports({"--port": ("192.0.2.1", 0)}) == []


# What is watched


def test_the_python_files_of_a_project_are_watched_and_nobody_else_s(tmp_path: Path) -> None:
    for name in ("game.py", "parts/rules.py", ".hidden/x.py", "env/pyvenv.cfg", "env/lib/x.py", "node_modules/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", "utf-8")
    (tmp_path / "notes.txt").write_text("", "utf-8")

    assert sorted(snapshot(tmp_path)) == [tmp_path / "game.py", tmp_path / "parts" / "rules.py"]


def test_a_file_that_is_other_new_or_gone_has_changed(tmp_path: Path) -> None:
    for name in ("same.py", "other.py", "gone.py"):
        (tmp_path / name).write_text("1", "utf-8")
    before = snapshot(tmp_path)
    (tmp_path / "gone.py").unlink()
    (tmp_path / "new.py").write_text("", "utf-8")
    state = (tmp_path / "other.py").stat()
    os.utime(tmp_path / "other.py", ns=(state.st_atime_ns, state.st_mtime_ns + 1))

    assert [file.name for file in changed(before, snapshot(tmp_path))] == ["gone.py", "new.py", "other.py"]


@every_case(
    "source",
    [
        "def",
        "return 1",
        "def said(self, player, player): ...",
        "def said(self):\n    await self.save()",
        "for x in ():\n    pass\ncontinue",
        "def count():\n    nonlocal total",
    ],
)
def test_only_what_python_cannot_compile_is_an_error(tmp_path: Path, source: str) -> None:
    (tmp_path / "fine.py").write_text("1 / 0", "utf-8")
    (tmp_path / "broken.py").write_text(source, "utf-8")

    (error,) = syntax_errors([tmp_path / "fine.py", tmp_path / "broken.py", tmp_path / "gone.py"])

    assert error.filename == str(tmp_path / "broken.py")
