"""Programs that are killed for real (SIGKILL) and started again: nothing lost or duplicated, in the JavaScript SDK too.

`tests/e2e/test_kill.py` does the same for both flavours of Python.
"""

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from tests.conformance.sdks.programs import ROOT, SDKS
from tests.deadlines import TEST_S
from tests.e2e import counting
from tests.e2e.serving import read_until, serving

MESSAGES = 80
KILLS_IN_PLAY = 4
# Also while a process starts, connects or resumes.
KILLS_ANYTIME = 4


@asynccontextmanager
async def life(url: str, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A player's process, from its start to its SIGKILL at the end of the block."""
    node, _ = SDKS["javascript"]
    program = ROOT / "tests" / "e2e" / "diarist.mjs"
    process = await asyncio.create_subprocess_exec(
        *(node, str(program), url, str(folder), str(MESSAGES)), stdout=PIPE, stderr=PIPE, cwd=ROOT
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.usefixtures("javascript")
async def test_a_killed_program_is_continued_by_another_with_nothing_lost_or_doubled(
    tmp_path: Path,
) -> None:
    random = Random(1)

    async with asyncio.timeout(TEST_S), serving(Path(counting.__file__)) as (host, port):
        url = f"ws://{host}:{port}"
        for _ in range(KILLS_IN_PLAY):
            async with life(url, tmp_path) as process:
                await read_until(process, "playing")
                await asyncio.sleep(random.uniform(0.0, 0.3))
        for _ in range(KILLS_ANYTIME):
            async with life(url, tmp_path):
                await asyncio.sleep(random.uniform(0.05, 0.4))
        async with life(url, tmp_path) as process:
            _, complaints = await process.communicate()

    diary = json.loads((tmp_path / "diary.json").read_text("utf-8"))
    assert (process.returncode, complaints) == (0, b"")
    assert diary["numbers"] == list(range(1, MESSAGES + 1))
    assert diary["strange"] == []
    assert (diary["report"]["received"], diary["report"]["wrong"]) == (MESSAGES, [])
