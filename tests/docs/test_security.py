"""docs/security.md is true: every requirement has its row, and every test that a row names is there."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.cases import every_case

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
# The chapters of OWASP's ASVS 5.0: session management, and WebSocket.
SIZES = {"7.1": 3, "7.2": 4, "7.3": 2, "7.4": 5, "7.5": 3, "7.6": 2, "4.4": 4}
REQUIREMENTS = [f"{section}.{number}" for section, size in SIZES.items() for number in range(1, size + 1)]
BUGS = [
    *("Colyseus #354", "Nakama #1014", "GHSA-xv59-gc3r-rf92", "Phoenix #5778", "CVE-2025-61765", "Evennia #2055"),
    *("Overworld", "Boss Room", "zombie", "handoff", "packet log"),
]
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)


def rows() -> dict[str, str]:
    """The page's table rows, by their first cell."""
    cells = [line.strip().strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| ")]
    return {first.strip(): "|".join(rest) for first, *rest in cells}


@cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name for node in found if node.name.startswith("test_")}


@every_case("requirement", REQUIREMENTS)
def test_every_requirement_has_a_test_or_a_reason(requirement: str) -> None:
    row = rows()[requirement]

    shown_by = re.findall(r"`tests/[\w/]+\.py(?:::\w+)?`", row)
    _, _, reason = row.partition("Not ours:")
    assert shown_by or len(reason.split()) > 5


@every_case("bug", BUGS)
def test_every_bug_that_others_had_has_a_test(bug: str) -> None:
    assert any(bug in line and "`tests/" in line for line in PAGE.splitlines())


@every_case(("file", "name"), sorted(set(NAMED)))
def test_every_test_that_is_named_is_there(file: str, name: str) -> None:
    assert names_in(file)
    assert not name or name in names_in(file)
