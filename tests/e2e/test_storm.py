"""The short form of the storm; `make storm` is the long one."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.deadlines import TEST_S
from tests.e2e.serving import python_process

KILLS = 6


@pytest.mark.skipif(sys.platform != "linux", reason="the storm needs Linux: its namespaces, limits and clock")
async def test_a_server_that_is_killed_again_and_again_loses_doubles_and_reorders_nothing(tmp_path: Path) -> None:
    words = ("--kills", str(KILLS), "--clients", "6", "--hurry", "0.1", "--folder", str(tmp_path / "storm"))

    async with asyncio.timeout(TEST_S), python_process("-m", "tests.storm", *words) as process:
        stdout, stderr = (output.decode() for output in await process.communicate())

    assert (process.returncode, stderr) == (0, ""), stdout
    assert "lost 0, duplicated 0, reordered 0, other 0" in stdout
    done = re.search(r"(\d+) kills .*?, (\d+) stops, (\d+) zombies .*?, (\d+) full disks", stdout)
    assert done is not None
    kills, stops, zombies, full_disks = map(int, done.groups())
    assert kills >= KILLS
    assert min(stops, zombies, full_disks) >= 1
