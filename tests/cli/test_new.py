"""`holdfast new`: what it writes runs, plays and passes its own tests."""

import asyncio
import importlib.util
import re
import signal
import sys
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from click.testing import CliRunner

import holdfast
from holdfast.cli.main import main
from tests.cases import every_case
from tests.cli.served_games import only_line
from tests.e2e.serving import (
    ANY_PORTS,
    end_of,
    holdfast_process,
    http_address,
    python_process,
    read_until,
    result_of,
    websocket_address,
)

FILES = {
    ".gitignore",
    "README.md",
    "bot.py",
    "game.py",
    "pyproject.toml",
    "test_game.py",
    "web/index.html",
    "web/main.js",
}


@pytest.fixture
async def project(tmp_path: Path) -> Path:
    result = await result_of("new", "my-game", cwd=tmp_path)
    assert (result.exit_code, result.stderr) == (0, "")
    return tmp_path / "my-game"


def files_in(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def messages_of(project: Path) -> ModuleType:
    """The game's own module, for its messages."""
    spec = importlib.util.spec_from_file_location("new_game", project / "game.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def test_every_file_is_there_and_has_the_game_s_name(project: Path) -> None:
    files = files_in(project)

    assert files == FILES
    assert all("{{" not in (project / file).read_text("utf-8") for file in files)
    assert "# my-game\n" in (project / "README.md").read_text("utf-8")


async def test_its_own_tests_pass(project: Path) -> None:
    async with python_process("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project) as process:
        result = await end_of(process)

    assert result.exit_code == 0, result.stdout
    assert "2 passed" in result.stdout


async def test_it_is_served_as_its_readme_says_and_can_be_played(project: Path) -> None:
    command = next(line for line in (project / "README.md").read_text("utf-8").splitlines() if "holdfast serve" in line)
    game = messages_of(project)
    async with holdfast_process(*command.split()[1:], *ANY_PORTS, cwd=project) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")
        host, port = websocket_address(announcement)
        async with holdfast.connect(f"ws://{host}:{port}", state=game.Canvas, data=game.Painter) as session:
            room = await session.join_or_create("dots")
            asked = asyncio.create_task(room.ask(game.Put(0.25, 0.75)))
            session.cut()
            await asked
            (dot,) = room.state.dots
            mine = room.mine
        async with httpx.AsyncClient(base_url="http://{}:{}".format(*http_address(announcement))) as client:
            page = await client.get("/play/")
            script = await client.get("/play/main.js")
            told = await client.get("/holdfast.json")
        result = await end_of(process, by=signal.SIGINT)

    assert re.search(r"play      http://127\.0\.0\.1:\d+/play/\n", announcement)
    assert (dot.x, dot.y, dot.color) == (0.25, 0.75, mine.color)
    assert mine.dots == 1
    assert "<title>my-game</title>" in page.text
    assert script.headers["content-type"].startswith("text/javascript")
    assert told.json() == {"url": f"ws://127.0.0.1:{port}"}
    assert 'fetch("/holdfast.json")' in script.text
    assert result.exit_code == 0


async def test_it_says_what_to_do_next(tmp_path: Path) -> None:
    result = await result_of("new", "my-game", "--dir", "elsewhere", cwd=tmp_path)

    assert "cd elsewhere\n  holdfast serve game.py --web web" in result.stdout
    assert "http://127.0.0.1:7778/play/" in result.stdout
    assert "pytest" in result.stdout
    assert (tmp_path / "elsewhere" / "game.py").exists()


async def test_nothing_is_overwritten(project: Path) -> None:
    (project / "game.py").write_text("mine", "utf-8")

    line = only_line(await result_of("new", "my-game", cwd=project.parent))

    assert "my-game is not empty" in line
    assert (project / "game.py").read_text("utf-8") == "mine"


async def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()

    result = await result_of("new", "mine", cwd=tmp_path)

    assert result.exit_code == 0
    assert (tmp_path / "mine" / "game.py").exists()


@every_case("name", ["", "My-Game", "1up", "a/b", "..", "a b", "x" * 41, "-x", "spiel-ä"])
def test_a_name_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    result = CliRunner().invoke(main, ["new", "--dir", str(tmp_path / "game"), "--", name])

    assert result.exit_code == 2
    assert "as in my-game" in result.stderr
    assert files_in(tmp_path) == set()


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")

    line = only_line(await result_of("new", "mine", "--dir", "file/mine", cwd=tmp_path))

    assert "file/mine cannot be written: Not a directory" in line


async def test_pages_need_the_http_port_and_this_machine(project: Path) -> None:
    without = await result_of("serve", "game.py", "--web", "web", "--no-http", "--store", "memory:", cwd=project)
    public = ("--http-host", "0.0.0.0", "--store", "memory:")  # noqa: S104 - that is the question
    elsewhere = await result_of(
        *("serve", "game.py", "--web", "web", *public), cwd=project, environment={"HOLDFAST_API_KEY": "k" * 32}
    )

    assert "--web needs the HTTP port" in without.stderr
    assert "remove --web or --http-host" in only_line(elsewhere)
