"""The table "What survives what" says what its tests prove, cell by cell."""

import re
from pathlib import Path
from typing import Any

from tests.cases import every_case
from tests.server.durability import test_survival

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "durability.md").read_text()
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| `(test_\w+)` \|$", GUIDE, re.MULTILINE)
WORDS = {"": "not noticed", "new": "new session, same seat", "busy": "busy, then resumed"}


def cells_of(test: Any) -> dict[str, str]:
    (mark,) = (mark for mark in test.pytestmark if mark.name == "parametrize")
    return dict(mark.args[1])


@every_case("row", ROWS, ids=[row[-1] for row in ROWS])
def test_a_row_says_what_its_test_proves(row: tuple[str, ...]) -> None:
    _, *cells, name = row

    proven = cells_of(getattr(test_survival, name))

    assert list(proven) == ["memory", "checkpoint", "commit"]
    for cell, told in zip(cells, proven.values(), strict=True):
        assert cell.replace("*", "").startswith(WORDS.get(told, told))


def test_every_test_of_survival_has_its_row() -> None:
    assert {row[-1] for row in ROWS} == {name for name in vars(test_survival) if name.startswith("test_")}
