"""The transport that docs/guide/transports.md shows is one: it passes the checks, and carries a session."""

import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.transport_checks import CHECKS, Check, Ends

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "transports.md"
_BLOCK = re.compile(r"^```python transport\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    blocks = _BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(blocks) == 3
    exec(compile("\n".join(blocks), PAGE, "exec"), names)  # noqa: S102 - our own page
    return names


async def test_the_transport_of_the_page_carries_a_session(page: dict[str, Any], tmp_path: Path) -> None:
    assert await page["play"](str(tmp_path / "game.sock")) == "unix"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_transport_of_the_page_passes_every_check(page: dict[str, Any], check: Check, tmp_path: Path) -> None:
    ends = Ends(page["Adapter"](str(tmp_path)))

    await check(ends)

    await ends.finish()
