"""docs/guide/types.md: what it says is written is written, and its client compiles with the SDK."""

import re
from pathlib import Path

import pytest

from holdfast.server.messages import FACTS_MAX
from tests.cli.types.test_typescript import compiled, types_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "types.md").read_text("utf-8")
(GAME,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
MESSAGES, CLIENT = re.findall(r"^```ts\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def written(tmp_path: Path) -> str:
    (tmp_path / "game.py").write_text(GAME, "utf-8")
    return types_of(tmp_path / "game.py")


def test_what_is_shown_is_what_is_written(written: str) -> None:
    version = re.search(r'"(\w{8})\.([\w-]+)"', written)
    assert version is not None

    shown = MESSAGES.replace("VERSION", version[1]).replace("FACTS", version[2])

    assert shown == written


def test_the_client_compiles(written: str, tmp_path: Path) -> None:
    (tmp_path / "messages.ts").write_text(written, "utf-8")
    sdk = (ROOT / "clients" / "js" / "src" / "index.ts").as_posix()
    use = (
        CLIENT.replace('"holdfast"', f'"{sdk}"') + "\ndeclare function draw(who: string, x: number, y: number): void;\n"
    )
    (tmp_path / "client.ts").write_text(use, "utf-8")

    assert compiled(tmp_path, "client.ts", "--allowImportingTsExtensions") == ""


def test_a_message_that_the_server_does_not_take_does_not_compile(written: str, tmp_path: Path) -> None:
    (tmp_path / "messages.ts").write_text(written, "utf-8")
    sdk = (ROOT / "clients" / "js" / "src" / "index.ts").as_posix()
    use = CLIENT.replace('"holdfast"', f'"{sdk}"').replace("y: 2", 'y: "two"')
    (tmp_path / "client.ts").write_text(use.replace("=> draw(who, x, y)", "=> void [who, x, y]"), "utf-8")

    complaints = compiled(tmp_path, "client.ts", "--allowImportingTsExtensions")

    assert "Type 'string' is not assignable to type 'number'" in complaints


def test_the_number_in_the_text_is_that_of_the_code() -> None:
    assert f"more than {FACTS_MAX:,} of them" in " ".join(PAGE.split())
