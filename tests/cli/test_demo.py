"""`holdfast demo`: what it shows is measured, and it ends as it should."""

import asyncio
import errno
import os
import pty
import re
import signal
import sys
import termios
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.cli.demo.arena import Tally
from holdfast.cli.demo.show import are_there_keys
from tests.deadlines import DEADLINE_S
from tests.e2e.serving import end_of, holdfast_process, read_until, result_of
from tests.forking import forked

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


def totals(output: str) -> dict[str, int]:
    """The numbers of the last word: `3 s: 7 drops, 7 resumes, …`."""
    last_words = output[output.rindex(" s: ") :]
    return {
        name: int(number.replace(",", "")) for number, name in re.findall(r"(\d[\d,]*) (?:messages )?(\w+)", last_words)
    }


@pytest.mark.parametrize("transport", ["websocket", "enet"])
async def test_links_break_and_nothing_is_lost_or_doubled(transport: str) -> None:
    options = ("--seconds", "2", "--plain", "--seed", "1", "--cut-every", "0.2", "--transport", transport)
    result = await result_of("demo", "--terminal", *options)

    total = totals(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert total["drops"] > 0
    assert total["resumes"] > 0
    assert total["sent"] > 100
    assert total["received"] > 20
    assert (total["lost"], total["duplicated"]) == (0, 0)


async def test_only_bots_in_the_terminal_choose_their_transport() -> None:
    result = await result_of("demo", "--transport", "enet")

    assert result.exit_code == 2
    assert "--transport enet needs --terminal" in result.stderr


async def test_the_server_is_killed_and_nothing_is_lost_or_doubled() -> None:
    options = ("--plain", "--crash-every", "2", "--seed", "1", "--cut-every", "0.4")
    async with holdfast_process("demo", "--terminal", *options) as process:
        await read_until(process, r"killed ([2-9]|\d\d+) times")
        result = await end_of(process, by=signal.SIGTERM)

    total = totals(result.stdout)
    killed = re.search(r"Server killed (\d+) times, back after [\d.]+ s\.", result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert killed is not None
    assert int(killed[1]) >= 2
    # Each kill cuts everybody off, but those who were disconnected.
    assert total["drops"] > 8
    assert total["resumes"] == total["drops"]
    assert total["replayed"] > 0
    assert (total["lost"], total["duplicated"]) == (0, 0)


async def test_every_session_has_its_row() -> None:
    result = await result_of("demo", "--terminal", "--seconds", "1", "--bots", "3", "--cut-every", "0")

    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if " connected " in line}
    assert sorted(rows) == ["Ada", "Bo", "Cleo", "all"]
    assert rows["Ada"][1:4] == ["connected", "0", "–"]


async def test_the_server_dies_with_the_demo_even_if_that_is_killed() -> None:
    async with holdfast_process("demo", "--terminal", "--plain") as process:
        seen = await read_until(process, r"^Server: process \d+")
        await read_until(process, r"^ *1\.\d s")
        process.kill()
        await process.wait()

    [server] = map(int, re.findall(r"^Server: process (\d+)", seen, re.MULTILINE))
    async with asyncio.timeout(DEADLINE_S):
        while is_running(server):  # noqa: ASYNC110 - nobody tells of the end of a process that is not one's child
            await asyncio.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def test_a_server_that_somebody_else_kills_is_back_too() -> None:
    async with holdfast_process("demo", "--terminal", "--plain", "--cut-every", "0") as process:
        seen = await read_until(process, r"^Server: process \d+")
        await read_until(process, r"^ *1\.\d s")
        [server] = map(int, re.findall(r"^Server: process (\d+)", seen, re.MULTILINE))
        os.kill(server, signal.SIGKILL)
        await read_until(process, "sessions 8 · disconnected 0 · drops 8 .* server up, killed once")
        result = await end_of(process, by=signal.SIGTERM)

    assert (result.exit_code, result.stderr) == (0, "")
    assert "Server killed once, back after" in result.stdout
    assert (totals(result.stdout)["lost"], totals(result.stdout)["duplicated"]) == (0, 0)


async def test_a_server_that_does_not_start_is_an_error_with_its_log() -> None:
    script = """
from holdfast.cli.demo import server
from holdfast.cli.main import main
server.PROGRAM = ("-c", "raise SystemExit('no luck')")
main(["demo", "--terminal", "--plain"])
"""
    async with forked("-c", script) as process:
        result = await end_of(process)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: The demo's server did not start:\nno luck\n"


async def test_ctrl_c_ends_it_with_a_summary_and_without_a_traceback() -> None:
    async with holdfast_process("demo", "--terminal", "--plain") as process:
        await read_until(process, r"^ *1\.\d s")
        result = await end_of(process, by=signal.SIGINT)

    assert (result.exit_code, result.stderr) == (0, "")
    assert totals(result.stdout)["lost"] == 0


@asynccontextmanager
async def in_a_terminal(*options: str) -> AsyncIterator[tuple[Process, int]]:
    """The demo, and the other end of the terminal that it runs in."""
    master, slave = pty.openpty()
    # Unbuffered: a write that a signal interrupts must be whole nevertheless.
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24", "PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "demo", "--bots", "2", *options),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
    )
    os.close(slave)
    try:
        yield process, master
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(master)


async def test_in_a_terminal_the_table_is_drawn_in_place_and_the_cursor_returns() -> None:
    """The terminal stays blocking: held up by Ctrl-S, it would otherwise make the next table an error."""
    async with in_a_terminal() as (process, terminal):
        screen = await asyncio.to_thread(read_screen, terminal, until="must stay 0")
        flags = await asyncio.to_thread(open_flags, process.pid)
        process.send_signal(signal.SIGINT)
        screen += await asyncio.to_thread(read_screen, terminal)
        exit_code = await process.wait()

    assert exit_code == 0
    assert "Traceback" not in screen
    assert "Ctrl-C" in screen
    assert "0 lost, 0 duplicated." in screen
    assert screen.rindex(SHOW_CURSOR) > screen.rindex(HIDE_CURSOR)
    assert not flags & os.O_NONBLOCK


def open_flags(pid: int) -> int:
    """How a process has its standard output open; 0 where the system does not tell."""
    about = Path(f"/proc/{pid}/fdinfo/1")
    return int(re.findall(r"flags:\s*(\d+)", about.read_text())[0], 8) if about.exists() else 0


def test_a_terminal_that_has_no_name_here_has_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the host, in a container: the demo runs all the same."""

    def unnamed(_descriptor: int) -> str:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    controller, terminal = os.openpty()
    with os.fdopen(controller), os.fdopen(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with_name = are_there_keys()
        monkeypatch.setattr("os.ttyname", unnamed)

        assert (with_name, are_there_keys()) == (True, False)


async def test_the_key_c_kills_the_server_and_the_key_q_ends_the_demo() -> None:
    async with in_a_terminal("--terminal", "--cut-every", "0") as (process, terminal):
        before = termios.tcgetattr(terminal)
        screen = await asyncio.to_thread(read_screen, terminal, until="Press c to kill it")
        during = termios.tcgetattr(terminal)
        os.write(terminal, b"c")
        screen += await asyncio.to_thread(read_screen, terminal, until="Server killed once, restarting")
        screen += await asyncio.to_thread(read_screen, terminal, until="Server killed once, back after")
        os.write(terminal, b"c")
        screen += await asyncio.to_thread(read_screen, terminal, until="Server killed 2 times, back after")
        os.write(terminal, b"q")
        # The other end is gone with the process, and its settings with it: look just before.
        screen += await asyncio.to_thread(read_screen, terminal, until="0 lost, 0 duplicated.")
        after = termios.tcgetattr(terminal)
        screen += await asyncio.to_thread(read_screen, terminal)
        exit_code = await process.wait()

    assert exit_code == 0
    assert "Traceback" not in screen
    assert after == before != during


async def test_a_second_ctrl_c_ends_it_at_once() -> None:
    async with in_a_terminal("--terminal") as (process, terminal):
        screen = await asyncio.to_thread(read_screen, terminal, until="must stay 0")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        screen += await asyncio.to_thread(read_screen, terminal)
        await process.wait()

    assert "Traceback" not in screen
    assert screen.rindex(SHOW_CURSOR) > screen.rindex(HIDE_CURSOR)


def read_screen(terminal: int, until: str | None = None) -> str:
    """What is written to a terminal, up to a text or to the end of the process that writes."""
    seen = b""
    while until is None or until.encode() not in seen:
        try:
            seen += os.read(terminal, 4096)
        except OSError:  # so a terminal says that nobody writes to it any more
            break
    return seen.decode()


BROKEN_SERVER = """
from holdfast.cli.demo.arena import Arena
from holdfast.cli.demo.server import main

broadcast = Arena.broadcast

def broken_broadcast(self, message):
    broadcast(self, message)
    if self.state.found % 3 == 0:
        {plant}

Arena.broadcast = broken_broadcast
main()
"""
WITH_SERVER = """
import sys
from holdfast.cli.demo import server
from holdfast.cli.main import main

server.PROGRAM = ("-c", sys.argv[1])
main(["demo", "--terminal", "--plain", "--seconds", "3", "--bots", "2", "--cut-every", "0", *sys.argv[2:]])
"""


@pytest.mark.parametrize(
    ("plant", "wrong", "right"),
    [
        ("self.state.found += 1", "lost", "duplicated"),
        ("broadcast(self, message)", "duplicated", "lost"),
    ],
)
async def test_a_game_that_loses_or_doubles_messages_is_found_out(plant: str, wrong: str, right: str) -> None:
    async with forked("-c", WITH_SERVER, BROKEN_SERVER.format(plant=plant)) as process:
        result = await end_of(process)

    total = totals(result.stdout)
    assert result.exit_code == 1
    assert total[wrong] > 0
    assert total[right] == 0
    assert "nothing lost" not in result.stdout


FORGETFUL_SERVER = """
from holdfast.cli.demo.arena import Arena
from holdfast.cli.demo.server import main

Arena.durability = "checkpoint"
main()
"""


async def test_a_server_that_forgets_what_it_acknowledged_is_found_out() -> None:
    async with forked("-c", WITH_SERVER, FORGETFUL_SERVER, "--crash-every", "1.5") as process:
        result = await end_of(process)

    total = totals(result.stdout)
    assert result.exit_code == 1
    assert total["lost"] + total["duplicated"] + total.get("refused", 0) > 0


def test_a_tally_counts_gaps_and_doubles() -> None:
    tally = Tally()

    for number in (1, 2, 5, 5, 4, 6):
        tally.count(number)

    assert (tally.last, tally.lost, tally.duplicated) == (6, 2, 2)
