"""docs/guide/limits.md shows every limit as it is. After a change of `Limits`: `python -m tests.docs.test_limits`."""

import re
from collections import Counter
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from holdfast.core.limits import KIB, MIB, Limits
from tests.cases import every_case

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "limits.md"
GROUPS: tuple[Any, ...] = Limits.__bases__[::-1]
SOURCES = [
    file.read_text("utf-8")
    for file in (ROOT / "src" / "holdfast").rglob("*.py")
    if file.name != "limits.py" and "testing" not in file.parts
]


def shown(limit: Field[Any]) -> str:
    """The default of a limit, with its unit."""
    value: Any = () if limit.default is MISSING else limit.default
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, tuple):
        return "none"
    unit = ""
    if "bytes" in limit.name:
        # 1,200 bytes are not 1.17 KiB.
        whole = (
            (size, unit) for size, unit in ((MIB, " MiB"), (KIB, " KiB")) if value % (size // 4) == 0 < value // size
        )
        size, unit = next(whole, (1, " bytes"))
        value /= size
    if limit.name.endswith("_per_s"):
        unit += " a second"
    elif limit.name.endswith("_s"):
        unit = " s"
    number = f"{value:,.4f}".rstrip("0").rstrip(".")
    return f"{number}{unit}"


def subject(group: Any) -> str:
    """The title of a group: its docstring without the full stop."""
    return str(group.__doc__).removesuffix(".")


def table(group: Any) -> str:
    """The section of one group of limits."""
    rows = "".join(
        f"| `{limit.name}` | {shown(limit)} | {limit.metadata['what']} | {limit.metadata['then']} |\n"
        for limit in fields(group)
    )
    head = "| limit | default | what is limited | when it is reached |\n|---|---|---|---|\n"
    return f"### {subject(group)}\n\n{head}{rows}"


def drawn(page: str) -> str:
    """The page with the tables as they should be: everything from the first on."""
    words = page.partition("\n### " + subject(GROUPS[0]))[0]
    return f"{words}\n" + "\n".join(map(table, GROUPS))


def test_the_page_shows_the_limits_as_they_are() -> None:
    page = PAGE.read_text("utf-8")

    assert drawn(page) == page, "docs/guide/limits.md is out of date: run `python -m tests.docs.test_limits`"


def test_every_limit_says_what_it_limits() -> None:
    assert [limit.name for limit in fields(Limits) if not limit.metadata["what"]] == []


def test_no_two_groups_have_a_limit_of_the_same_name() -> None:
    names = Counter(limit.name for group in GROUPS for limit in fields(group))

    assert [name for name, count in names.items() if count > 1] == []
    assert set(names) == {limit.name for limit in fields(Limits)}


@every_case("name", [limit.name for limit in fields(Limits)])
def test_every_limit_is_kept_to_somewhere(name: str) -> None:
    assert any(re.search(rf"\.{name}\b", source) for source in SOURCES)


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text("utf-8")), "utf-8")
