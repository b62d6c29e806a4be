"""docs/states.md shows the tables as they are. After a change of a table: `python -m tests.core.test_diagrams`."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.cluster.membership import MEMBER_TABLE
from holdfast.core.connection import CONNECTION_TABLE
from holdfast.core.placement import PLACEMENT_TABLE
from holdfast.core.room_listing import ROOM_TABLE
from holdfast.core.session import SEAT_TABLE, SESSION_TABLE
from holdfast.core.tables import Table

PAGE = Path(__file__).parents[2] / "docs" / "states.md"
TABLES: list[Table[Any, Any]] = [CONNECTION_TABLE, SESSION_TABLE, SEAT_TABLE, ROOM_TABLE, PLACEMENT_TABLE, MEMBER_TABLE]


def section(page: str, name: str) -> str:
    """What the page says of one machine."""
    return page.partition(f"## {name.title()}\n")[2].partition("\n## ")[0]


def drawn(page: str) -> str:
    """The page with the diagram of every table in the section of its name."""
    for table in TABLES:
        stale = section(page, table.name)
        words, _, rest = stale.partition("```mermaid\n")
        after = rest.partition("```")[2]
        page = page.replace(stale, f"{words}```mermaid\n{table.diagram()}\n```{after}")
    return page


def test_the_page_shows_the_tables_as_they_are() -> None:
    page = PAGE.read_text("utf-8")

    assert drawn(page) == page, "docs/states.md is out of date: run `python -m tests.core.test_diagrams`"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.name))
def test_every_machine_has_its_diagram_on_the_page(table: Table[Any, Any]) -> None:
    assert f"```mermaid\n{table.diagram()}\n```" in section(PAGE.read_text("utf-8"), table.name)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.name))
def test_every_state_is_explained_in_words(table: Table[Any, Any]) -> None:
    words = section(PAGE.read_text("utf-8"), table.name).partition("```mermaid")[0]

    for state in table.rows:
        assert f"**{state.value}**" in words


def test_a_stale_diagram_is_found_and_redrawn() -> None:
    page = PAGE.read_text("utf-8")
    stale = page.replace("held --> taken: returned", "held --> taken: resurrected")

    assert stale != page
    assert drawn(stale) == page


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text("utf-8")), "utf-8")
