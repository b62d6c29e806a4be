"""Every example runs as it stands, and stays short enough to read."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import every_case

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def test_there_are_the_examples_the_readme_promises() -> None:
    names = {path.stem for path in EXAMPLES}

    games = {"chat", "tic_tac_toe", "arena", "npcs", "notice_board", "lobby"}
    assert games | {"sessions_in_a_websockets_server", "under_drops"} <= names


@every_case("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_under_a_hundred_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 100


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_to_its_end_and_complains_of_nothing(path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", path], capture_output=True, text=True, timeout=60, check=False
    )

    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout
