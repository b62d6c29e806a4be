"""The tables of the page on metrics are what a node shows, word by word."""

import re
from pathlib import Path

from prometheus_client import Metric

from holdfast import PlayerData, Room
from holdfast.observability.exposition import CATALOGUE
from holdfast.observability.metrics import TURNS_PER_SAMPLE
from holdfast.testing import MemoryServer, run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "metrics.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(holdfast_\w+)` \| (\w+) \| ([^|]*) \| (.+) \|$", PAGE, re.MULTILINE)


class Arena(Room[PlayerData]):
    pass


async def shown() -> set[tuple[str, str, str, str]]:
    async with MemoryServer([Arena]) as server:
        families = await server.parts.exposition.families(sessions_max=1)
    return {(name_of(each), each.type, labels_of(each), each.documentation) for each in families}


def name_of(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def labels_of(family: Metric) -> str:
    if family.type == "histogram":
        labels = list({label: 1 for sample in family.samples for label in sample.labels if label != "le"})
    else:
        labels = CATALOGUE[name_of(family).removeprefix("holdfast_")][0].split()
    return ", ".join(f"`{label}`" for label in labels)


def test_the_tables_tell_of_every_metric_and_of_no_other() -> None:
    told = {(name, kind, labels.strip(), what) for name, kind, labels, what in ROWS}

    assert told == run(shown())
    assert len(told) == len(ROWS)


def test_the_page_says_how_many_turns_are_timed() -> None:
    assert f"One turn in {TURNS_PER_SAMPLE} is timed" in PAGE
