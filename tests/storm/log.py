"""What the server's lives have logged: errors that the storm does not explain are our bugs."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.storm.history import Line

_ERROR = re.compile(r"\b(ERROR|CRITICAL)\b|^Traceback")
_EXPECTED = (
    "was taken over by another server",
    "another server took over this store",
    "the store does not save",
)


def errors_in(folder: Path, storm: Iterable[Line]) -> Iterator[str]:
    """Lines that should not be there. A server that could not even start has said why, and is expected to."""
    could_not_start = {line[2] for line in storm if line[0] == "end" and line[3]}
    for file in sorted(folder.glob("life-*.log")):
        if int(file.stem.removeprefix("life-")) in could_not_start:
            continue
        for line in file.read_text(errors="replace").splitlines():
            if _ERROR.search(line) and not any(words in line for words in _EXPECTED):
                yield f"{file.name}: {line}"
