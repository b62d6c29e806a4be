"""The public face: `import holdfast` gives exactly what `__all__` lists, each with a sentence about itself."""

import inspect
import tomllib
from pathlib import Path
from types import ModuleType

import holdfast
from tests.cases import every_case

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
# Types with a mark; they are documented where they are defined.
MARKED = {"Areas", "F32", "Hidden", "Private"}
OBJECTS = [name for name in holdfast.__all__ if not name.startswith("_") and name not in MARKED]

# The names that games are written against; the list may grow, these stay.
PROMISED = {
    "Limits",
    "Message",
    "Parts",
    "Player",
    "PlayerData",
    "Refused",
    "Room",
    "Server",
    "Session",
    "Sessions",
    "connect",
    "on",
    "run",
}


@every_case("name", holdfast.__all__)
def test_every_name_that_is_exported_exists(name: str) -> None:
    assert hasattr(holdfast, name)


def test_the_exports_are_sorted_and_named_once() -> None:
    # Constants first, as the linter has them.
    assert holdfast.__all__ == sorted(set(holdfast.__all__), key=lambda name: (not name.isupper(), name))


def test_the_promised_names_are_exported() -> None:
    assert set(holdfast.__all__) >= PROMISED


@every_case("name", OBJECTS)
def test_every_export_has_a_docstring_of_its_own(name: str) -> None:
    exported = getattr(holdfast, name)

    own = vars(exported).get("__doc__") if isinstance(exported, type) else exported.__doc__

    assert own
    assert inspect.cleandoc(own)[0].isupper() or inspect.cleandoc(own)[0] in '`@"'


@every_case("name", OBJECTS)
def test_every_export_is_ours(name: str) -> None:
    assert getattr(holdfast, name).__module__.startswith("holdfast.")


def test_nothing_private_is_exported() -> None:
    assert [name for name in holdfast.__all__ if name.startswith("_")] == ["__version__"]


def test_what_is_not_exported_is_not_there_but_for_the_parts() -> None:
    others = {name for name in vars(holdfast) if not name.startswith("_")} - set(holdfast.__all__)

    assert [name for name in sorted(others) if not isinstance(getattr(holdfast, name), ModuleType)] == []
    assert [name for name in sorted(others) if getattr(holdfast, name).__name__ != f"holdfast.{name}"] == []


def test_the_version_is_the_one_of_the_package() -> None:
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]

    assert holdfast.__version__ == project["version"]
