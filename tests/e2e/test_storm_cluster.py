"""The short form of the storm on a cluster; `make storm-cluster` is the long one."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.deadlines import TEST_S
from tests.e2e.serving import python_process


@pytest.mark.skipif(sys.platform != "linux", reason="the storm needs Linux: its signals and clock")
async def test_a_cluster_whose_nodes_and_nats_servers_die_stop_and_drain_loses_doubles_and_reorders_nothing(
    tmp_path: Path,
) -> None:
    words = ("--kills", "0", "--loopback", "--clients", "9", "--hurry", "0.1", "--folder", str(tmp_path / "storm"))

    async with asyncio.timeout(TEST_S), python_process("-m", "tests.storm_cluster", *words) as process:
        stdout, stderr = (output.decode() for output in await process.communicate())

    assert (process.returncode, stderr) == (0, ""), stdout
    assert "lost 0, duplicated 0, reordered 0, other 0" in stdout
    done = re.search(r"done: (\d+) kills .*?, (\d+) stops, (\d+) drains, (\d+) moves, .*?, (\d+) NATS servers", stdout)
    assert done is not None, stdout
    kills, stops, drains, moves, nats = map(int, done.groups())
    assert kills >= 2
    assert min(stops, drains, moves, nats) >= 1
