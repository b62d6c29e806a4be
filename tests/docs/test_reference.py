"""docs/reference names every public name, once, and no other."""

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "reference"
MODULES = (
    "holdfast",
    "holdfast.identity",
    "holdfast.stores",
    "holdfast.sync",
    "holdfast.testing",
    "holdfast.transports",
)


def documented() -> Counter[str]:
    text = "".join(page.read_text() for page in PAGES.glob("*.md"))
    return Counter(re.findall(r"^\.\. auto(?:class|function|data):: (\S+)$", text, re.MULTILINE))


def public(module: str) -> set[str]:
    return {f"{module}.{name}" for name in import_module(module).__all__ if name != "__version__"}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_place(module: str) -> None:
    assert public(module) - set(documented()) == set()


def test_nothing_else_is_listed_and_nothing_twice() -> None:
    assert set(documented()) == set.union(*map(public, MODULES))
    assert [name for name, times in documented().items() if times > 1] == []


def test_the_events_are_listed_by_their_module() -> None:
    assert ".. automodule:: holdfast.events\n" in (PAGES / "events.md").read_text()
