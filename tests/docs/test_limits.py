"""docs/guide/limits.md is true: it has every limit once, with its default; and every limit is kept to somewhere."""

import re
from dataclasses import fields
from pathlib import Path

from holdfast.core.limits import KIB, MIB, Limits
from tests.cases import every_case

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "limits.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|", PAGE.partition("## All of them")[2], re.MULTILINE)
SOURCES = [
    file.read_text("utf-8")
    for file in (ROOT / "src" / "holdfast").rglob("*.py")
    if file.name != "limits.py" and "testing" not in file.parts
]
UNITS = {"KiB": KIB, "MiB": MIB}


def read(default: str) -> float | str | tuple[str, ...]:
    """A default as it stands on the page."""
    if default == "none":
        return ()
    if default.startswith("`"):
        return default.strip('`"')
    number, *unit = default.replace(",", "").split(" ")
    return float(number) * UNITS.get(unit[0] if unit else "", 1)


def test_every_limit_has_one_row() -> None:
    assert sorted(name for name, _, _ in ROWS) == sorted(limit.name for limit in fields(Limits))


@every_case(("name", "default", "what"), ROWS)
def test_a_row_says_the_default_and_what_it_is_for(name: str, default: str, what: str) -> None:
    assert read(default.strip()) == getattr(Limits(), name)
    assert what.strip()


@every_case("name", [limit.name for limit in fields(Limits)])
def test_every_limit_is_kept_to_somewhere(name: str) -> None:
    assert any(re.search(rf"\.{name}\b", source) for source in SOURCES)
