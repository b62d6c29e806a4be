"""docs/guide/state.md: what it says that logs say is what they say."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "state.md").read_text("utf-8")
SOURCES = [*(ROOT / "src" / "holdfast").rglob("*.py"), *(ROOT / "clients" / "js" / "src").glob("*.ts")]
# One that depends on the game, with its value.
SHAPED = {"state.pile: … is not …": "is not"}


def told() -> list[str]:
    """What stands in code in the first column of the tables of errors."""
    *tables, _without_a_log = re.findall(r"^\| it says \|.*\n\|[-|]+\|\n((?:\|.*\n)+)|^\| you see", PAGE, re.MULTILINE)
    cells = [re.split(r" \| ", row)[0] for table in tables for row in table.splitlines()]
    return [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]


def test_the_errors_of_the_page_are_those_of_the_code() -> None:
    code = "\n".join(path.read_text("utf-8") for path in SOURCES)

    texts = told()

    assert len(texts) > 12
    assert [text for text in texts if SHAPED.get(text, text) not in code] == []
