"""Every ```python block in the README and the docs runs as it stands."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE_S
from tests.forking import forked

ROOT = Path(__file__).parents[2]
# What `make docs` makes from the JavaScript client is not ours to check.
MADE = ROOT / "docs" / "reference" / "typescript"
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if MADE not in page.parents)]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
LINKING = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]

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


def anchors(page: Path) -> set[str]:
    """What links to the headings of a page say."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_somewhere(page: Path, target: str, anchor: str) -> bool:
    linked = page.parent / target if target else page
    return linked.exists() and (not anchor or linked.suffix != ".md" or anchor in anchors(linked))


def test_links_lead_to_a_page_and_a_heading_that_exist() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}#{anchor}"
        for page in LINKING
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", CODE.sub("", page.read_text()))
        if not leads_somewhere(page, target, anchor)
    ]

    assert broken == []
