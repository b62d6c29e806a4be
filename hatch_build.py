"""Compiles the modules that every message passes through: a hook of hatchling, and a command.

    HOLDFAST_COMPILE=1 pip install --no-binary holdfast holdfast    a wheel with compiled modules
    python hatch_build.py FOLDER                                    the package with them, in this folder

Without the variable the wheel is pure Python. Compiled modules behave the same, but that their methods cannot be
replaced at run time. The compiler is mypyc, which comes with mypy; it needs a C compiler.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SWITCH = "HOLDFAST_COMPILE"
PACKAGE = Path(__file__).parent / "src" / "holdfast"
# On the way of a message. What the compiler does not do as Python does, they do without (tests/test_compiled.py).
MODULES = (
    *("core/block.py", "core/broadcasts.py", "core/channel.py", "core/connection.py"),
    *("core/outlet.py", "observability/metrics.py"),
    *("server/connection/buffers.py", "server/connection/connection.py", "server/durability/gate.py"),
    *("server/rooms/delivery.py", "server/rooms/outlet.py"),
    *("server/rooms/sharing.py", "server/rooms/turn_buffer.py", "server/rooms/turns.py"),
)
# Compiled classes that have subclasses in Python, and their bases.
SUBCLASSED = {
    "core/connection.py": "Connection",
    "server/connection/connection.py": "LiveConnection",
    "server/durability/gate.py": "GatedOutlet",
    "server/rooms/outlet.py": "ChannelOutlet",
    "server/rooms/turns.py": "Turns",
}
_IMPORT = "\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from mypy_extensions import mypyc_attr\n"
_SETUP = """
from mypyc.build import mypycify
from setuptools import setup

options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
setup(name="holdfast", packages=[], ext_modules=mypycify(options + {modules!r}, opt_level="3", group_name="holdfast"))
"""


class CompiledModules(BuildHookInterface[Any]):
    """Puts the compiled modules into the wheel, beside their sources."""

    def dependencies(self) -> list[str]:
        """What the compiler needs, and the types that it reads."""
        return ["mypy[mypyc]>=1.18", "msgspec>=0.20"] if _is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the wheel is written. An editable installation runs what is being edited."""
        if not _is_wanted() or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        compile_into(folder)
        build_data["pure_python"], build_data["infer_tag"] = False, True
        for path in libraries(folder):
            build_data["force_include"][str(path)] = str(path.relative_to(folder))


def _is_wanted() -> bool:
    return os.environ.get(SWITCH, "") not in {"", "0"}


def compile_into(folder: Path) -> None:
    """Copy the package into a folder, and compile its modules there."""
    package = folder / "holdfast"
    shutil.rmtree(package, ignore_errors=True)
    for path in libraries(folder):
        path.unlink()
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyd"))
    for module in MODULES:
        path = package / module
        path.write_text(_for_compiler(module, path.read_text("utf-8")), "utf-8")
    command = [sys.executable, "-c", _SETUP.format(modules=[f"holdfast/{module}" for module in MODULES])]
    done = subprocess.run(  # noqa: S603 - this interpreter
        [*command, "build_ext", "--inplace"], cwd=folder, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise SystemExit(f"holdfast could not be compiled:\n{done.stdout.decode(errors='replace')}")
    for module in MODULES:
        shutil.copy2(PACKAGE / module, package / module)
    shutil.rmtree(folder / "build")


def libraries(folder: Path) -> list[Path]:
    """What was compiled there."""
    return [path for suffix in ("so", "pyd") for path in folder.rglob(f"*.{suffix}") if "build" not in path.parts]


def _for_compiler(module: str, text: str) -> str:
    """What only the compiler has to know; and a compiled dataclass needs no slots."""
    text = re.sub(r"^(@dataclass\(.*?)(?:, )?slots=True(?:, )?", r"\1", text, flags=re.MULTILINE)
    name = SUBCLASSED.get(module)
    if name is None:
        return text
    mark = f"@mypyc_attr(allow_interpreted_subclasses=True)\nclass {name}"
    text, found = re.subn(rf"^class {name}\b", mark, text, flags=re.MULTILINE)
    assert found == 1, name
    # After the docstring.
    head, docstring, rest = text.split('"""', 2)
    return f'{head}"""{docstring}"""\n{_IMPORT}{rest}'


if __name__ == "__main__":
    into = Path(sys.argv[1])
    into.mkdir(parents=True, exist_ok=True)
    compile_into(into)
