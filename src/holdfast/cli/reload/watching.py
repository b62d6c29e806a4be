"""The Python files of a project, and which of them have changed."""

import os
import warnings
from collections.abc import Iterable, Iterator
from importlib.abc import InspectLoader
from pathlib import Path

# What a project has at most; a folder with more (a home, a disk) is not watched to its end.
FILES_MAX = 2_000
FOLDERS_MAX = 500

_NOT_OURS = frozenset({"__pycache__", "node_modules", "site-packages"})
# What every virtual environment has, however it is called.
_ENVIRONMENT = "pyvenv.cfg"

Snapshot = dict[Path, tuple[int, int]]
"""When each file was written, and how long it is."""


def snapshot(folder: Path) -> Snapshot:
    """The files as they are now."""
    found: Snapshot = {}
    for file in _python_files(folder):
        try:
            state = file.stat()
        except OSError:
            # An editor is just putting it in its place.
            continue
        found[file] = (state.st_mtime_ns, state.st_size)
        if len(found) >= FILES_MAX:
            break
    return found


def changed(before: Snapshot, after: Snapshot) -> list[Path]:
    """The files that are other than they were, new or gone."""
    return sorted(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))


def syntax_errors(files: Iterable[Path]) -> Iterator[SyntaxError]:
    """Files that Python cannot compile.

    Parsing is not enough: a `return` outside a function or an argument named twice is found by the compiler.
    """
    for file in files:
        try:
            source = file.read_bytes()
            with warnings.catch_warnings():
                # The server that imports the file prints them.
                warnings.simplefilter("ignore")
                InspectLoader.source_to_code(source, str(file))
        except SyntaxError as error:
            yield error
        except (OSError, ValueError, RecursionError):
            # Gone, not text, or nested too deeply: the server reports that if it imports the file at all.
            continue


def _python_files(folder: Path) -> Iterator[Path]:
    folders = 0
    for here, below, files in os.walk(folder):
        folders += 1
        if folders > FOLDERS_MAX:
            return
        if _ENVIRONMENT in files:
            below.clear()
            continue
        below[:] = sorted(name for name in below if name not in _NOT_OURS and not name.startswith("."))
        yield from (Path(here, name) for name in sorted(files) if name.endswith(".py"))
