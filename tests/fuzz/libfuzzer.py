"""One target under atheris: `python -m tests.fuzz.libfuzzer TARGET [libFuzzer's options] [FOLDER …]`."""

import sys

import atheris

with atheris.instrument_imports(include=["holdfast"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Fuzz until libFuzzer is done; it ends the process itself."""
    name, *arguments = sys.argv[1:]
    atheris.Setup([sys.argv[0], *arguments], TARGETS[name]())
    atheris.Fuzz()


if __name__ == "__main__":
    main()
