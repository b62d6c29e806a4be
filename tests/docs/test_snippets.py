"""Every ```python block in the README and the docs runs as it stands."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE_S
from tests.forking import forked

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)

SNIPPETS = [
    pytest.param(code, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, code in enumerate(BLOCK.findall(page.read_text()), start=1)
]


@pytest.mark.parametrize("code", SNIPPETS)
async def test_a_snippet_runs_as_it_stands(code: str, tmp_path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), forked("-W", "error", "-c", code, cwd=tmp_path) as process:
        _, stderr = await process.communicate()

    assert process.returncode == 0, stderr.decode()


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", CODE.sub("", page.read_text()))
        if not (page.parent / target).exists()
    ]

    assert broken == []
