"""Pages whose examples are the bodies of a function: each runs in the program that the page shows first."""

import re
from pathlib import Path
from textwrap import indent
from types import CodeType
from typing import Any, NamedTuple

HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_EXAMPLE = re.compile(r"^```python example\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FRAME = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    page: Path
    anchor: str
    line: int
    code: str

    @property
    def id(self) -> str:
        return f"{self.page.stem}-{self.anchor}"

    def compiled(self, parameters: str = "") -> CodeType:
        source = f"async def example({parameters}):\n" + indent(self.code, "    ")
        # So that a failure names the page's own line.
        return compile("\n" * (self.line - 1) + source, self.page, "exec")

    def run_in_memory(self) -> None:
        """Run it in the frame of its page, which is a program with a server in memory."""
        names = frame(self.page)
        exec(self.compiled(), names)  # noqa: S102 - the page is ours
        names["run"](names["example"]())


def anchor(heading: str) -> str:
    """What a link to a heading says."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def examples(page: Path) -> list[Example]:
    """Each with the heading that it stands under."""
    text, found = page.read_text(), []
    for block in _EXAMPLE.finditer(text):
        *_, heading = HEADING.finditer(text, 0, block.start())
        found.append(Example(page, anchor(heading[1]), text.count("\n", 0, block.start(1)), block[1]))
    return found


def frame(page: Path) -> dict[str, Any]:
    """What the page says stands around its examples."""
    block = _FRAME.search(page.read_text())
    assert block is not None
    names: dict[str, Any] = {"__name__": "frame"}
    exec(block[1], names)  # noqa: S102 - the page is ours
    return names
