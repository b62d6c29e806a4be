"""docs/reference names every public name, once, and no other."""

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.site import ENGINES, members_of

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


def test_what_a_class_has_from_a_base_that_is_not_public_is_listed_with_it() -> None:
    names = set(documented())
    text = "".join(page.read_text() for page in PAGES.glob("*.md"))
    inheriting = set(re.findall(r"^\.\. autoclass:: (\S+)\n(?:   :.*\n)*?   :inherited-members:", text, re.MULTILINE))
    missing: list[str] = []
    for name in names - inheriting - ENGINES:
        module, _, short = name.rpartition(".")
        kind = getattr(import_module(module), short)
        if isinstance(kind, type):
            own = {*vars(kind), *vars(kind).get("__annotations__", {})}
            missing += [each for each in members_of(kind, names, name) if each.rpartition(".")[2] not in own]

    assert missing == []
