"""The tables of the page on metrics are what a node shows, word by word."""

import re
from pathlib import Path

from holdfast import PlayerData, Room
from holdfast.observability.meters import TURNS_PER_SAMPLE
from holdfast.observability.metrics import read_metrics
from holdfast.testing import MemoryServer, run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "metrics.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(holdfast_\w+)` \| (\w+) \| ([^|]*) \| (.+) \|$", PAGE, re.MULTILINE)


class Arena(Room[PlayerData]):
    pass


async def shown() -> set[tuple[str, str, str, str]]:
    async with MemoryServer([Arena]) as server:
        metrics = [reading.metric for reading in await read_metrics(server.node, sessions_max=1)]
    return {(each.name, each.type, ", ".join(f"`{label}`" for label in each.labels), each.help) for each in metrics}


def test_the_tables_tell_of_every_metric_and_of_no_other() -> None:
    told = {(name, kind, labels.strip(), what) for name, kind, labels, what in ROWS}

    assert told == run(shown())
    assert len(told) == len(ROWS)


def test_the_page_says_how_many_turns_are_timed() -> None:
    assert f"One turn in {TURNS_PER_SAMPLE} is timed" in PAGE
