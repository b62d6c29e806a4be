"""One target under atheris: `python -m tests.fuzz.libfuzzer TARGET [libFuzzer's options] [FOLDER …]`.

The fuzzer looks for new ways through all of our code, or only through the part that HOLDFAST_FUZZ_CODE names: to
instrument all of it takes seconds.
"""

import os
import sys
from pathlib import Path

import atheris

_SOURCE = Path(__file__).parents[2] / "src"
_MODULES = [
    ".".join(file.relative_to(_SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for file in _SOURCE.rglob("*.py")
]
_PART = os.environ.get("HOLDFAST_FUZZ_CODE", "holdfast")

with atheris.instrument_imports(
    include=["holdfast"], exclude=[each for each in _MODULES if not each.startswith(_PART)]
):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Fuzz until libFuzzer is done; it ends the process itself."""
    name, *arguments = sys.argv[1:]
    atheris.Setup([sys.argv[0], *arguments], TARGETS[name]())
    atheris.Fuzz()


if __name__ == "__main__":
    main()
