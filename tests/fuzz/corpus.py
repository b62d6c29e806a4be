"""The inputs that are kept: one file per target, one input per line, in hexadecimal."""

from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"


def kept(target: str) -> list[bytes]:
    """The inputs of a target."""
    file = FOLDER / f"{target}.txt"
    return [bytes.fromhex(line) for line in file.read_text("ascii").split("\n") if line] if file.exists() else []


def keep(target: str, inputs: list[bytes]) -> None:
    """Keep these from now on: short ones first, so that a change is easy to see."""
    lines = sorted({each.hex() for each in inputs if each}, key=lambda line: (len(line), line))
    (FOLDER / f"{target}.txt").write_text("".join(f"{line}\n" for line in lines), "ascii")
