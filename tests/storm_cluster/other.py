"""Another version of Holdfast, in an environment of its own: `python_of("v0.2.0")` makes it and names its Python."""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.e2e.serving import ROOT

_FOLDER = ROOT / "build" / "other"
_INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", "constraints.txt")


def python_of(revision: str) -> Path:
    """The Python of this Git revision, whose source and packages are in build/other; it is made in a minute, once."""
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"],  # noqa: S607 - wherever the system has it
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        raise ValueError(f"Git knows no revision {revision!r} here")
    folder = _FOLDER / found.stdout.strip()
    python = folder / ".venv" / "bin" / "python"
    is_ready = folder / ".ready"
    if not is_ready.exists():
        _unpack(found.stdout.strip(), folder)
        for words in (
            (sys.executable, "-m", "venv", "--clear", ".venv"),
            (str(python), *_INSTALL, "hatchling", "editables"),
            (str(python), *_INSTALL, "--no-build-isolation", "--editable", ".[dev]"),
        ):
            subprocess.run(words, cwd=folder, check=True)
        is_ready.touch()
    return python


def _unpack(commit: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as archive:
        subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=archive, check=True)  # noqa: S607 - as above
        archive.seek(0)
        with tarfile.open(fileobj=archive) as tar:
            tar.extractall(folder, filter="data")
