"""The modules that `hatch_build.py` compiles: what they may not have, and that a wheel has them."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatch_build import MODULES, PACKAGE, SUBCLASSED

from tests.compiled import IS_COMPILED


def _tree(module: str) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text("utf-8"))


@pytest.mark.parametrize("module", MODULES)
def test_a_compiled_module_makes_no_coroutines(module: str) -> None:
    """A turn is a task if its handler's result is one of Python's own; virtual time looks inside of those that wait."""
    found = [node.name for node in ast.walk(_tree(module)) if isinstance(node, ast.AsyncFunctionDef)]

    assert found == []


@pytest.mark.parametrize("module", MODULES)
def test_a_compiled_module_names_no_cause_of_an_error(module: str) -> None:
    """The compiler drops it: a `None` too."""
    found = [node.lineno for node in ast.walk(_tree(module)) if isinstance(node, ast.Raise) and node.cause is not None]

    assert found == []


@pytest.mark.parametrize("module", MODULES)
def test_a_compiled_module_defines_no_struct(module: str) -> None:
    """The compiler drops the keywords of a class: a Struct would have another form on the wire, and nobody told."""
    classes = [node for node in ast.walk(_tree(module)) if isinstance(node, ast.ClassDef)]
    found = [each.name for each in classes if [word for word in each.keywords if word.arg != "metaclass"]]

    assert found == []
    assert not [each.name for each in classes if any("Struct" in ast.unparse(base) for base in each.bases)]


def test_a_compiled_class_with_subclasses_in_python_is_known_as_such() -> None:
    compiled = {
        (module, node.name) for module in MODULES for node in ast.walk(_tree(module)) if isinstance(node, ast.ClassDef)
    }
    subclassed: set[tuple[str, str]] = set()
    for path in PACKAGE.rglob("*.py"):
        other = path.relative_to(PACKAGE).as_posix()
        imported = dict(_imported(_tree(other))) if other not in MODULES else {}
        classes = (node for node in ast.walk(_tree(other)) if isinstance(node, ast.ClassDef))
        bases = {ast.unparse(base) for each in classes for base in each.bases}
        subclassed |= {(imported[base], base) for base in bases & imported.keys()} & compiled

    # The base of one of them has to know it, too.
    assert {*SUBCLASSED.items()} == subclassed | {("server/rooms/outlet.py", "ChannelOutlet")}


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that a module imports from others of the package, and their files."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("holdfast."):
            for name in node.names:
                yield name.name, node.module.removeprefix("holdfast.").replace(".", "/") + ".py"


@pytest.mark.skipif(not IS_COMPILED, reason="it takes a minute: make check-compiled has it")
def test_a_wheel_that_is_built_for_it_has_the_compiled_modules(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        check=True,
        cwd=PACKAGE.parents[1],
        env=os.environ | {"HOLDFAST_COMPILE": "1"},
    )

    [wheel] = tmp_path.glob("*.whl")
    names = ZipFile(wheel).namelist()
    assert "none-any" not in wheel.name
    for module in MODULES:
        assert any(
            name.startswith(f"holdfast/{module.removesuffix('.py')}.") and name.endswith(".so") for name in names
        )
