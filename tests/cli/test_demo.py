"""`holdfast demo`: what it shows is measured, and it ends as it should."""

import asyncio
import os
import pty
import re
import signal
import sys

import pytest

from holdfast.cli.demo.arena import Tally
from tests.e2e.serving import end_of, holdfast_process, python_process, read_until, result_of

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


def totals(output: str) -> dict[str, int]:
    """The numbers of the last word: `3 s: 7 drops, 7 resumes, …`."""
    last_words = output[output.rindex(" s: ") :]
    return {
        name: int(number.replace(",", "")) for number, name in re.findall(r"(\d[\d,]*) (?:messages )?(\w+)", last_words)
    }


async def test_links_break_and_nothing_is_lost_or_doubled() -> None:
    result = await result_of("demo", "--seconds", "3", "--plain", "--seed", "1", "--cut-every", "0.2")

    total = totals(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert total["drops"] > 0
    assert total["resumes"] > 0
    assert total["sent"] > 100
    assert total["received"] > 100
    assert (total["lost"], total["doubled"]) == (0, 0)


async def test_every_session_has_its_row() -> None:
    result = await result_of("demo", "--seconds", "1", "--bots", "3", "--cut-every", "0")

    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if " taken " in line}
    assert list(rows) == ["Ada", "Bo", "Cleo", "Gull", "Crab"]
    assert rows["Ada"][1:4] == ["connected", "taken", "0"]
    assert rows["Crab"][1] == "npc"


async def test_ctrl_c_ends_it_with_a_summary_and_without_a_traceback() -> None:
    async with holdfast_process("demo", "--plain") as process:
        await read_until(process, r"^ *1\.\d s")
        result = await end_of(process, by=signal.SIGINT)

    assert (result.exit_code, result.stderr) == (0, "")
    assert totals(result.stdout)["lost"] == 0


async def test_in_a_terminal_the_table_is_drawn_in_place_and_the_cursor_returns() -> None:
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "demo"), stdin=slave, stdout=slave, stderr=slave, env=environment
    )
    os.close(slave)
    try:
        screen = await asyncio.to_thread(read_screen, master, until="must stay 0")
        process.send_signal(signal.SIGINT)
        screen += await asyncio.to_thread(read_screen, master)
        exit_code = await process.wait()
    finally:
        os.close(master)

    assert exit_code == 0
    assert "Traceback" not in screen
    assert "Ctrl-C ends it" in screen
    assert "0 lost, 0 doubled." in screen
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


BROKEN_GAME = """
from holdfast.cli.demo.arena import Arena, View
from holdfast.cli.main import main

tick = Arena.on_tick

def broken_tick(self, dt_s):
    tick(self, dt_s)
    if self.views % 10 == 0:
        {plant}

Arena.on_tick = broken_tick
main(["demo", "--plain", "--seconds", "3", "--bots", "2", "--cut-every", "0"])
"""


@pytest.mark.parametrize(
    ("plant", "wrong", "right"),
    [
        ("self.views += 1", "lost", "doubled"),
        ("self.broadcast(View(self.views, {}, self.coin))", "doubled", "lost"),
    ],
)
async def test_a_game_that_loses_or_doubles_messages_is_found_out(plant: str, wrong: str, right: str) -> None:
    async with python_process("-c", BROKEN_GAME.format(plant=plant)) as process:
        result = await end_of(process)

    total = totals(result.stdout)
    assert result.exit_code == 1
    assert total[wrong] > 0
    assert total[right] == 0


def test_a_tally_counts_gaps_and_doubles() -> None:
    tally = Tally()

    for number in (1, 2, 5, 5, 4, 6):
        tally.count(number)

    assert (tally.last, tally.lost, tally.doubled) == (6, 2, 2)
