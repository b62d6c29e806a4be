"""docs/guide/types.md: what it says is written is written, and its client compiles with the SDK."""

import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.loading import load
from holdfast.cli.proto_file import game_file
from holdfast.core.proto_types import ProtoTypes
from holdfast.server.messages import FACTS_MAX
from tests.cli.types.test_typescript import compiled, types_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "types.md").read_text("utf-8")
GAME, PINNED = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
(MOVE,) = re.findall(r"^```proto\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
MESSAGES, CLIENT = re.findall(r"^```ts\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    game = tmp_path_factory.mktemp("game") / "game.py"
    game.write_text(GAME, "utf-8")
    return types_of(game)


@pytest.fixture(scope="module")
def complaints(written: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the compiler has to say of the client, and of one that sends something else."""
    folder = tmp_path_factory.mktemp("clients")
    sdk = (ROOT / "clients" / "js" / "src" / "index.ts").as_posix()
    use = CLIENT.replace('"holdfast"', f'"{sdk}"')
    wrong = use.replace("y: 2", 'y: "two"')
    draw = "declare function draw(who: string, x: number, y: number): void;\n"
    (folder / "messages.ts").write_text(written, "utf-8")
    (folder / "client.ts").write_text(f"{use}\n{draw}", "utf-8")
    (folder / "wrong.ts").write_text(f"{wrong}\n{draw}", "utf-8")
    return compiled(folder, "client.ts", "wrong.ts", "--allowImportingTsExtensions")


def test_what_is_shown_is_what_is_written(written: str) -> None:
    version = re.search(r'"(\w{8})\.([\w-]+)"', written)
    assert version is not None

    shown = MESSAGES.replace("VERSION", version[1]).replace("FACTS", version[2])

    assert shown == written


def test_the_client_compiles(complaints: dict[str, str]) -> None:
    assert complaints.keys() <= {"wrong.ts"}


def test_a_message_that_the_server_does_not_take_does_not_compile(complaints: dict[str, str]) -> None:
    assert "Type 'string' is not assignable to type 'number'" in complaints["wrong.ts"]


def test_the_number_in_the_text_is_that_of_the_code() -> None:
    assert f"more than {FACTS_MAX:,} of them" in " ".join(PAGE.split())


def test_the_protobuf_that_is_shown_is_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "game.py").write_text(GAME, "utf-8")
    pinned: dict[str, Any] = {}
    exec(PINNED, pinned)  # noqa: S102 - the page's own example

    assert MOVE in game_file(load(str(tmp_path / "game.py")).rooms, "game.py")
    assert [field.number for field in ProtoTypes().of(pinned["Jumped"]).fields] == [1, 3]
