"""The shape of src/holdfast, read from its syntax trees: who may import whom, what core may know, how long a file is.

Each rule is a function from modules to complaints: it is applied to the source, and shown on snippets that it can fail.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from textwrap import dedent
from typing import Self

import pytest

from tests.cases import every_case

SOURCE = Path(__file__).parents[1] / "src" / "holdfast"
LINES_MAX = 800
# The blocking client has the names of the asynchronous one.
BLOCKING_TWINS = "holdfast.client.sync"

# The modules directly in holdfast/: the public face.
TOP = "(top)"
# Which part may import which, its own modules aside.
MAY_IMPORT: Mapping[str, str] = {
    "schemas": "",
    # What is shared of a room's state, as pure functions of values: it knows neither rooms nor bytes on a wire.
    "state": "schemas",
    "core": "schemas state",
    "search": "schemas core",
    # A leaf that everybody but core may log with: it knows nothing of sessions, rooms or bytes.
    "logs": "",
    "transports": "schemas core logs",
    # Authenticators keep their records in a store.
    "identity": "schemas core logs stores",
    "stores": "schemas core logs",
    # Nodes hear each other through the NATS server that keeps their store, over the same kind of link. A client that is
    # relayed from one to another has a transport there.
    "cluster": "schemas core logs stores transports",
    "observability": "schemas core logs",
    "client": "schemas state core logs transports",
    # For a server that has sockets of its own: it knows neither ours nor our server.
    "library": "schemas core logs",
    "server": "schemas state core search logs observability transports identity stores cluster",
    # The API is handed to a server, which does not import it.
    "http": "schemas core logs transports server",
    "cli": f"{TOP} schemas state core search logs observability transports identity stores cluster http client server",
    "testing": f"{TOP} schemas state core transports identity stores cluster http client server",
    TOP: "schemas state core library observability transports identity stores http client server cli testing",
}
# The parts of the server, in the order in which they build on each other: each may import those before it.
SERVER_ORDER = (
    "context",
    *(
        "session_events",
        "sessions",
        "presence",
        "agent_sessions",
        "messages",
        "display_names",
        "rooms",
        "directory",
        "durability",
        "session_messages",
        "room_factory",
        "health",
        "placement",
    ),
    *("connection", "admission", "agents", "cluster", "operate", "compose", "operations", "server", "garbage", "run"),
)
# Time, chance, input and output reach core as arguments.
IMPURE_MODULES = frozenset(
    {
        *("asyncio", "concurrent", "multiprocessing", "select", "selectors", "signal", "subprocess", "threading"),
        *("datetime", "time", "random", "secrets", "uuid"),
        *("http", "io", "logging", "os", "pathlib", "shutil", "socket", "sqlite3", "ssl", "tempfile", "urllib"),
        *("click", "picows", "rich", "structlog", "uvloop", "websockets"),
    }
)
IMPURE_CALLS = frozenset({"__import__", "breakpoint", "input", "open", "print"})
CONTAINERS = frozenset({"bytearray", "Counter", "defaultdict", "deque", "dict", "list", "OrderedDict", "set"})
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*|__all__")

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ASYNCHRONOUS = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


@dataclass(frozen=True)
class Import:
    """One imported name: its full dotted path, and where the statement stands."""

    path: str
    line: int
    in_function: bool
    for_types_only: bool


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name, whether it is an `__init__.py`, and its text."""

    name: str
    is_package: bool
    text: str

    @classmethod
    def at(cls, file: Path) -> Self:
        parts = file.relative_to(SOURCE.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        return cls(".".join(parts[:-1] if is_package else parts), is_package, file.read_text("utf-8"))

    @property
    def part(self) -> str:
        return part_of(self.name, is_package=self.is_package)

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def imports(self) -> list[Import]:
        return [
            Import(path, getattr(node, "lineno", 0), in_function, for_types_only)
            for node, in_function, for_types_only in walk(self.tree)
            for path in self._paths(node)
        ]

    def _paths(self, node: ast.AST) -> list[str]:
        match node:
            case ast.Import(names):
                return [alias.name for alias in names]
            case ast.ImportFrom(module, names, level):
                package = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
                start = package[: len(package) - (level - 1)] if level else []
                return [".".join([*start, *([module] if module else []), alias.name]) for alias in names]
            case _:
                return []


def walk(
    node: ast.AST, *, in_function: bool = False, for_types_only: bool = False
) -> Iterator[tuple[ast.AST, bool, bool]]:
    """Every node, with whether it stands in a function and whether only type checkers see it."""
    yield node, in_function, for_types_only
    typed = node.body if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING") else []
    for child in ast.iter_child_nodes(node):
        yield from walk(
            child,
            in_function=in_function or isinstance(node, Function),
            for_types_only=for_types_only or child in typed,
        )


def part_of(name: str, *, is_package: bool) -> str:
    """The folder of holdfast/ that a module lives in."""
    parts = name.split(".")
    return parts[1] if len(parts) > 2 or (len(parts) == 2 and is_package) else TOP


def ours(modules: list[Module], imported: Import) -> Module | None:
    """The module of ours that an import reaches: the path itself, or the module that holds the name."""
    known = {module.name: module for module in modules}
    return known.get(imported.path) or known.get(imported.path.rpartition(".")[0])


def imports_against_the_direction(modules: list[Module]) -> list[str]:
    """Imports for type checkers count too: a part that names another's types knows it."""
    return [
        f"{module.name}:{imported.line} {module.part} may not import {target.part} ({imported.path})"
        for module in modules
        for imported in module.imports
        if (target := ours(modules, imported))
        and target.part != module.part
        and target.part not in MAY_IMPORT.get(module.part, "").split()
    ]


def server_imports_against_the_order(modules: list[Module]) -> list[str]:
    """Imports for type checkers count too."""
    found = []
    for module in modules:
        here = server_part(module.name)
        for imported in module.imports if here else ():
            target = ours(modules, imported)
            there = server_part(target.name) if target is not None else ""
            if there and there != here and SERVER_ORDER.index(there) > SERVER_ORDER.index(here):
                found.append(f"{module.name}:{imported.line} {here} may not import {there} ({imported.path})")
    return found


def server_part(name: str) -> str:
    """The part of the server that a module belongs to; empty for everything else."""
    return name.split(".")[2] if name.startswith("holdfast.server.") else ""


def server_parts_without_a_place(modules: list[Module]) -> list[str]:
    return sorted({part for module in modules if (part := server_part(module.name))} - set(SERVER_ORDER))


def parts_without_a_rule(modules: list[Module]) -> list[str]:
    return sorted({module.part for module in modules} - MAY_IMPORT.keys())


def imports_of_ours_in_functions(modules: list[Module]) -> list[str]:
    return [
        f"{module.name}:{imported.line} imports {imported.path} inside a function"
        for module in modules
        for imported in module.imports
        if imported.in_function and imported.path.split(".")[0] == "holdfast"
    ]


def import_cycles(modules: list[Module]) -> list[str]:
    """Imports for type checkers count too: two files that name each other's types are one idea in two files."""
    graph = {
        module.name: {target.name for imported in module.imports if (target := ours(modules, imported))}
        for module in modules
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" ← ".join(error.args[1])]
    return []


def impurities(modules: list[Module]) -> list[str]:
    return [
        f"{module.name}:{getattr(node, 'lineno', 0)} {what}"
        for module in modules
        if module.part == "core"
        for node, _, for_types_only in walk(module.tree)
        if not for_types_only
        for what in impurities_of(node)
    ]


def impurities_of(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names):
            return [f"imports {alias.name}" for alias in names if alias.name.split(".")[0] in IMPURE_MODULES]
        case ast.ImportFrom(str(module), _, 0) if module.split(".")[0] in IMPURE_MODULES:
            return [f"imports {module}"]
        case ast.Call(ast.Name(name)) if name in IMPURE_CALLS:
            return [f"calls {name}"]
        case ast.comprehension(is_async=1):
            return ["is asynchronous"]
        case _:
            return ["is asynchronous"] if isinstance(node, ASYNCHRONOUS) else []


def packages_that_do_more_than_export(modules: list[Module]) -> list[str]:
    return [
        f"{module.name}:{statement.lineno} {ast.unparse(statement).splitlines()[0]}"
        for module in modules
        if module.is_package
        for statement in module.tree.body
        if not exports(statement, may_name_version=module.name == "holdfast")
    ]


def exports(statement: ast.stmt, *, may_name_version: bool) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant(str())):
            return True
        case ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)):
            return name == "__all__" or (may_name_version and name == "__version__")
        case _:
            return False


def module_state(modules: list[Module]) -> list[str]:
    """Containers that a module fills as it runs; a table that never changes is named like the constant it is."""
    return [
        f"{module.name}:{statement.lineno} {name}"
        for module in modules
        for statement in module.tree.body
        for name in containers_bound_by(statement)
        if not CONSTANT.fullmatch(name)
    ]


def containers_bound_by(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.Assign(targets, value) if is_container(value):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(ast.Name(name), _, ast.expr() as value) if is_container(value):
            return [name]
        case _:
            return []


def is_container(value: ast.expr) -> bool:
    match value:
        case ast.Call(ast.Name(made) | ast.Attribute(_, made)):
            return made in CONTAINERS
        case _:
            return isinstance(value, DISPLAYS)


def class_names_used_twice(modules: list[Module]) -> list[str]:
    """A reader who searches for a class finds one."""
    places: dict[str, list[str]] = {}
    for module in modules:
        if module.name != BLOCKING_TWINS:
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(module.name)
    return [f"{name}: {', '.join(found)}" for name, found in places.items() if len(found) > 1]


def files_too_long(modules: list[Module]) -> list[str]:
    sizes = {module.name: len(module.text.splitlines()) for module in modules}
    return [f"{name} has {size} lines, {LINES_MAX} is the limit" for name, size in sizes.items() if size > LINES_MAX]


@pytest.fixture(scope="module")
def source() -> list[Module]:
    return [Module.at(file) for file in sorted(SOURCE.rglob("*.py"))]


def snippet(name: str, text: str) -> Module:
    """A module as it would stand at `name`; a name that ends in `.__init__` is a package."""
    return Module(name.removesuffix(".__init__"), name.endswith(".__init__"), dedent(text))


def test_the_rules_see_the_source(source: list[Module]) -> None:
    assert {"holdfast.core", "holdfast.core.errors", "holdfast.transports.port"} <= {module.name for module in source}


def test_every_part_has_a_rule(source: list[Module]) -> None:
    assert parts_without_a_rule(source) == []


def test_a_part_without_a_rule_is_found() -> None:
    assert parts_without_a_rule([snippet("holdfast.utils.__init__", "")]) == ["utils"]


def test_imports_flow_one_way(source: list[Module]) -> None:
    assert imports_against_the_direction(source) == []


@every_case(
    ("importer", "statement"),
    [
        ("holdfast.core.room", "from holdfast.server.compose import Parts"),
        ("holdfast.core.room", "import holdfast.server.compose"),
        ("holdfast.core.room", "from ..server import compose"),
        ("holdfast.core.__init__", "from ..server.compose import Parts"),
        ("holdfast.core.room", "from holdfast import Server"),
        ("holdfast.core.room", "if TYPE_CHECKING:\n    from holdfast.server.compose import Parts"),
        ("holdfast.core.room", "def late() -> None:\n    import holdfast.server.compose"),
        ("holdfast.transports.tcp", "from holdfast.identity import Guest"),
        ("holdfast.client.session", "from holdfast.server import compose"),
        ("holdfast.cli.main", "from holdfast.testing import Clock"),
        ("holdfast.testing.clock", "from holdfast.cli.main import main"),
    ],
)
def test_an_import_against_the_direction_is_found(importer: str, statement: str) -> None:
    tree = [
        snippet("holdfast.__init__", ""),
        snippet("holdfast.server.__init__", ""),
        snippet("holdfast.server.compose", ""),
        snippet("holdfast.identity.__init__", ""),
        snippet("holdfast.testing.__init__", ""),
        snippet("holdfast.cli.main", ""),
    ]

    found = imports_against_the_direction([*tree, snippet(importer, statement)])

    assert len(found) == 1
    assert found[0].startswith(importer.removesuffix(".__init__"))


def test_imports_with_the_direction_are_allowed() -> None:
    tree = [
        snippet("holdfast.core.errors", "import json"),
        snippet("holdfast.core.room", "from holdfast.core.errors import Refused"),
        snippet("holdfast.transports.tcp", "from holdfast.core.errors import ProtocolError"),
        snippet("holdfast.server.compose", "from holdfast.transports import tcp"),
        snippet("holdfast.__init__", "from holdfast.server.compose import Parts"),
        snippet("holdfast.cli.main", "import holdfast"),
    ]

    assert imports_against_the_direction(tree) == []


def test_no_module_imports_ours_inside_a_function(source: list[Module]) -> None:
    assert imports_of_ours_in_functions(source) == []


def test_an_import_of_ours_inside_a_function_is_found() -> None:
    text = """
        class Room:
            async def close(self) -> None:
                import json
                from holdfast.core.errors import Refused
    """

    found = imports_of_ours_in_functions([snippet("holdfast.core.room", text), snippet("holdfast.core.errors", "")])

    assert found == ["holdfast.core.room:5 imports holdfast.core.errors.Refused inside a function"]


def test_no_modules_import_each_other_in_a_circle(source: list[Module]) -> None:
    assert import_cycles(source) == []


@pytest.mark.parametrize("back", ["from holdfast.core import room", "from holdfast.core import Room"])
def test_a_circle_of_imports_is_found(back: str) -> None:
    tree = [
        snippet("holdfast.core.__init__", "from holdfast.core.room import Room"),
        snippet("holdfast.core.room", "from holdfast.core.seat import Seat"),
        snippet("holdfast.core.seat", back),
    ]

    assert len(import_cycles(tree)) == 1


def test_a_circle_that_only_type_checkers_see_is_found_too() -> None:
    room = snippet("holdfast.core.room", "from . import seat")
    seat = snippet("holdfast.core.seat", "if TYPE_CHECKING:\n    from holdfast.core.room import Room")

    assert len(import_cycles([room, seat])) == 1


def test_every_part_of_the_server_has_its_place_in_the_order(source: list[Module]) -> None:
    assert server_parts_without_a_place(source) == []
    assert server_parts_without_a_place([snippet("holdfast.server.utils", "")]) == ["utils"]


def test_the_parts_of_the_server_build_on_those_before_them(source: list[Module]) -> None:
    assert server_imports_against_the_order(source) == []


@pytest.mark.parametrize(
    "statement",
    ["from holdfast.server.compose import Parts", "if TYPE_CHECKING:\n    from holdfast.server.compose import Parts"],
)
def test_a_part_of_the_server_that_looks_up_is_found(statement: str) -> None:
    tree = [snippet("holdfast.server.compose", ""), snippet("holdfast.server.rooms.runner", statement)]

    assert len(server_imports_against_the_order(tree)) == 1


def test_core_imports_nothing_that_knows_time_randomness_or_io(source: list[Module]) -> None:
    assert impurities(source) == []


@every_case(
    ("text", "complaint"),
    [
        ("import time", "imports time"),
        ("import os.path as path", "imports os.path"),
        ("from random import Random", "imports random"),
        ("def now() -> float:\n    from time import monotonic", "imports time"),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    import asyncio", "imports asyncio"),
        ("async def wait() -> None: ...", "is asynchronous"),
        ("names = (name async for name in source)", "is asynchronous"),
        ("print('here')", "calls print"),
        ("data = open('state').read()", "calls open"),
    ],
)
def test_impurity_in_core_is_found(text: str, complaint: str) -> None:
    found = impurities([snippet("holdfast.core.room", text)])

    assert [line.partition(" ")[2] for line in found] == [complaint]


@pytest.mark.parametrize("text", ["import timely", "from .time import Clock", "if TYPE_CHECKING:\n    import time"])
def test_core_may_name_types_and_have_names_like_theirs(text: str) -> None:
    assert impurities([snippet("holdfast.core.room", text)]) == []


def test_other_parts_may_know_time() -> None:
    assert impurities([snippet("holdfast.server.compose", "import time")]) == []


def test_packages_export_and_do_nothing_else(source: list[Module]) -> None:
    assert packages_that_do_more_than_export(source) == []


@pytest.mark.parametrize("text", ["def helper() -> None: ...", "KIB = 1024", "if True:\n    import json", "start()"])
def test_a_package_that_does_more_than_export_is_found(text: str) -> None:
    assert len(packages_that_do_more_than_export([snippet("holdfast.core.__init__", text)])) == 1


def test_only_the_top_package_names_its_version() -> None:
    text = '''
        """What it is."""

        from holdfast.core.room import Room

        __all__ = ["Room"]
        __version__ = "0.1.0"
    '''

    assert packages_that_do_more_than_export([snippet("holdfast.__init__", text)]) == []
    assert len(packages_that_do_more_than_export([snippet("holdfast.core.__init__", text)])) == 1


def test_no_module_holds_state(source: list[Module]) -> None:
    assert module_state(source) == []


@pytest.mark.parametrize(
    "text", ["rooms = {}", "rooms: dict[str, int] = dict()", "_seen = set()", "waiting = c.deque()", "a = b = []"]
)
def test_a_container_that_a_module_fills_is_found(text: str) -> None:
    assert module_state([snippet("holdfast.core.room", text)]) != []


@pytest.mark.parametrize("text", ["CODES = {1: 'one'}", "_BY_CODE: dict[int, str] = {}", "size = 3", "n: list[str]"])
def test_a_constant_is_not_state(text: str) -> None:
    assert module_state([snippet("holdfast.core.room", text)]) == []


def test_no_two_classes_have_the_same_name(source: list[Module]) -> None:
    assert class_names_used_twice(source) == []


def test_two_classes_of_the_same_name_are_found() -> None:
    room, port = (snippet(name, "class Entry: ...") for name in ("holdfast.core.room", "holdfast.stores.port"))

    assert class_names_used_twice([room, port]) == ["Entry: holdfast.core.room, holdfast.stores.port"]
    assert class_names_used_twice([room, snippet(BLOCKING_TWINS, "class Entry: ...")]) == []


def test_no_file_is_too_long_to_read(source: list[Module]) -> None:
    assert files_too_long(source) == []


def test_a_file_that_is_too_long_is_found() -> None:
    assert files_too_long([snippet("holdfast.core.room", "x = 1\n" * LINES_MAX)]) == []
    assert len(files_too_long([snippet("holdfast.core.room", "x = 1\n" * (LINES_MAX + 1))])) == 1
