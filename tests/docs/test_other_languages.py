"""docs/guide/other-languages.md: its mirror in Lua follows the vectors, in each Lua that engines have."""

import importlib
import json
import re
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from tests.core.vectors import Case, cases

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "other-languages.md").read_text("utf-8")
MIRROR, _USE = re.findall(r"^```lua\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
DIALECTS = ("lua51", "lua54", "luajit21")


class Lua:
    """One interpreter with the page's module, and JSON values as a Lua library would read them."""

    def __init__(self, dialect: str) -> None:
        pytest.importorskip("lupa", reason="there is no Lua here: pip install lupa")
        self._lua = importlib.import_module(f"lupa.{dialect}").LuaRuntime()
        self._null = self._lua.eval("setmetatable({}, { __name = 'null' })")
        self._is_null = self._lua.eval("rawequal")
        self.mirror = self._lua.execute(MIRROR)

    def new(self, root: Any) -> Any:
        mirror = self.mirror.new()
        mirror.root = self.table(root)
        return mirror

    def receive(self, mirror: Any, body: Any) -> bool:
        return bool(self.mirror.receive(mirror, self.table(body)))

    def table(self, value: Any) -> Any:
        match value:
            case None:
                return self._null
            case dict():
                return self._lua.table_from({key: self.table(each) for key, each in value.items()})
            case list():
                return self._lua.table_from([self.table(each) for each in value])
            case _:
                return value

    def plain(self, value: Any) -> Any:
        """The value of a table. Lua has one kind: an empty one may be either."""
        if type(value) is not type(self._null):
            return value
        if self._is_null(value, self._null):
            return None
        items = {key: self.plain(each) for key, each in value.items()}
        if not items:
            return EMPTY
        return [items[place] for place in range(1, len(items) + 1)] if 1 in items else items


EMPTY = "neither an object nor an array"


def with_empties(value: Any) -> Any:
    """A value as Lua can tell it from others."""
    match value:
        case dict():
            return {key: with_empties(each) for key, each in value.items()} or EMPTY
        case list():
            return [with_empties(each) for each in value] or EMPTY
        case _:
            return value


@pytest.fixture(params=DIALECTS)
def lua(request: pytest.FixtureRequest) -> Lua:
    return Lua(request.param)


def test_the_mirror_in_lua_applies_every_node_as_the_vectors_say(lua: Lua) -> None:
    for case in cases("state/nodes.json"):
        mirror = lua.new(case["before"])

        assert lua.receive(mirror, [0, json.loads(case["json"])]), case["name"]

        assert lua.plain(mirror.root) == with_empties(case["after"]), case["name"]


def test_the_mirror_in_lua_follows_every_message_as_the_vectors_say(lua: Lua) -> None:
    for case in cases("state/mirrors.json"):
        mirror = lua.new({})
        for number, step in enumerate(steps_that_fit(case)):
            is_complete = lua.receive(mirror, step["body"])

            assert is_complete == (step["body"][0] % 2 == 0)
            assert lua.plain(mirror.root) == with_empties(step["root"]), (case["name"], number)


def steps_that_fit(case: Case) -> list[Case]:
    """Those before the first one that a client refuses: the lines on the page leave out the checks."""
    return list(takewhile(lambda step: not step["error"], case["steps"]))


def test_the_mirror_in_lua_is_as_short_as_the_page_says() -> None:
    lines = [line for line in MIRROR.splitlines() if line.strip() and not line.strip().startswith("--")]

    assert len(lines) <= 35
