"""Every example runs as it stands, and stays short enough to read."""

from pathlib import Path

import pytest

from tests.cases import every_case
from tests.e2e.serving import end_of
from tests.forking import forked

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def test_there_are_the_examples_the_readme_promises() -> None:
    names = {path.stem for path in EXAMPLES}

    games = {"chat", "tic_tac_toe", "arena", "npcs", "notice_board", "lobby"}
    libraries = {"sessions_in_a_websockets_server", "exactly_once_in_a_websockets_server", "exactly_once_in_fastapi"}
    assert games | libraries | {"under_drops"} <= names


@every_case("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_under_a_hundred_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 100


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
async def test_an_example_runs_to_its_end_and_complains_of_nothing(path: Path) -> None:
    program = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
    async with forked("-W", "error", "-c", program, str(path)) as process:
        result = await end_of(process)

    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout
