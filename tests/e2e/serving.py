"""`holdfast serve` in a process of its own."""

import asyncio
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
_START_S = 30.0
_STOP_S = 30.0


async def holdfast_command(*arguments: str) -> Process:
    """The real command, from this checkout."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "holdfast", *arguments, stdout=PIPE, stderr=PIPE, cwd=ROOT
    )


async def read_until(process: Process, pattern: str) -> str:
    """What the process prints up to the first line that matches."""
    assert process.stdout is not None
    seen = ""
    async with asyncio.timeout(_START_S):
        while line := (await process.stdout.readline()).decode():
            seen += line
            if re.search(pattern, line):
                return seen
    raise AssertionError(f"the process ended after saying:\n{seen}")


async def interrupt(process: Process) -> tuple[str, str]:
    """What Ctrl-C does; the rest of what the process says, on stdout and stderr."""
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(_STOP_S):
        stdout, stderr = await process.communicate()
    return stdout.decode(), stderr.decode()


@asynccontextmanager
async def serving(game: Path) -> AsyncIterator[tuple[str, int]]:
    """A served game's WebSocket address. In the end the server must stop cleanly, with nothing to complain about."""
    process = await holdfast_command("serve", str(game), "--port", "0", "--tcp-port", "0")
    try:
        announced = await read_until(process, "Ctrl-C ends it")
        found = re.search(r"ws://([\d.]+):(\d+)", announced)
        assert found is not None, announced
        yield found[1], int(found[2])
        _, complaints = await interrupt(process)
        assert (process.returncode, complaints) == (0, "")
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
