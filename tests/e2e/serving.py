"""Processes: Python, the command `holdfast`, and `holdfast serve` as a server to connect to."""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.deadlines import DEADLINE_S
from tests.forking import forked

ROOT = Path(__file__).parents[2]
# Each must be named: a default port may be taken by another test that runs at this moment.
ANY_PORTS = ("--port", "0", "--tcp-port", "0", "--http-port", "0")


class Result(NamedTuple):
    """How a process ended, and what it said that was not read before."""

    exit_code: int | None
    stdout: str
    stderr: str


@asynccontextmanager
async def python_process(
    *arguments: str, cwd: Path = ROOT, environment: Mapping[str, str] | None = None, stdin: int | None = None
) -> AsyncIterator[Process]:
    """A Python like this one; SIGKILL at the end of the block, if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *arguments),
        stdin=stdin,
        stdout=PIPE,
        stderr=PIPE,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def holdfast_process(
    *arguments: str, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
) -> AbstractAsyncContextManager[Process]:
    """The real command, without the half second that its imports take."""
    return forked("-m", "holdfast", *arguments, cwd=cwd, environment=environment)


async def result_of(*arguments: str, cwd: Path = ROOT, environment: Mapping[str, str] | None = None) -> Result:
    """Run the command to its end."""
    async with holdfast_process(*arguments, cwd=cwd, environment=environment) as process:
        return await end_of(process)


async def end_of(process: Process, *, by: signal.Signals | None = None) -> Result:
    """Wait for the end of a process, after a signal if one is given."""
    if by is not None:
        process.send_signal(by)
    async with asyncio.timeout(DEADLINE_S):
        stdout, stderr = await process.communicate()
    return Result(process.returncode, stdout.decode(), stderr.decode())


async def read_until(process: Process, pattern: str) -> str:
    """What the process prints, up to the first line that matches; if none does, the test fails with all it said."""
    assert process.stdout is not None
    seen = ""
    try:
        async with asyncio.timeout(DEADLINE_S):
            while line := (await process.stdout.readline()).decode():
                seen += line
                if re.search(pattern, line):
                    return seen
        failure = "the process ended"
    except TimeoutError:
        failure = f"the process ran on for {DEADLINE_S:.0f} s"
        process.kill()
    stdout, stderr = await process.communicate()
    raise AssertionError(f"{failure} and did not say {pattern!r}:\n{seen}{stdout.decode()}{stderr.decode()}")


def websocket_address(announcement: str) -> tuple[str, int]:
    """Where a server that was just announced listens."""
    found = re.search(r"ws://([\d.]+):(\d+)", announcement)
    assert found is not None, announcement
    return found[1], int(found[2])


def http_address(announcement: str) -> tuple[str, int]:
    """Where its HTTP API listens."""
    found = re.search(r"http://([\d.]+):(\d+)", announcement)
    assert found is not None, announcement
    return found[1], int(found[2])


@asynccontextmanager
async def serving(game: Path, *options: str) -> AsyncIterator[tuple[str, int]]:
    """A served game's WebSocket address. In the end the server must stop cleanly, with no error in its log."""
    async with holdfast_process("serve", str(game), *ANY_PORTS, *options) as process:
        yield websocket_address(await read_until(process, "Press Ctrl-C to stop"))
        result = await end_of(process, by=signal.SIGINT)
        assert result.exit_code == 0
        assert not re.search("ERROR|Traceback", result.stderr), result.stderr
