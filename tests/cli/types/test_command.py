"""`holdfast types` as a command: files, checks for CI, and what it finds in a project."""

import runpy
from pathlib import Path

import pytest

from tests.cli.served_games import CHAT, only_line, write
from tests.e2e.serving import Result, result_of

ARENA = """
    from words import Cheer, Move
    from holdfast import Message, PlayerData, Room, on

    class Moved(Message):
        who: str

    class _Base(Message):
        hidden: int

    class Arena(Room[PlayerData]):
        @on(Move)
        def moved(self, player, move): ...

    class Lobby(Room[PlayerData]):
        @on(Cheer)
        def cheered(self, player, cheer): ...
"""
WORDS = """
    from holdfast import Message

    class Move(Message):
        x: float

    class Cheer(Message):
        text: str

    class News(Message):
        text: str
"""


@pytest.fixture
def arena(tmp_path: Path) -> Path:
    write(tmp_path, WORDS, "words.py")
    return write(tmp_path, ARENA)


async def types(game: Path, *options: str) -> Result:
    return await result_of("types", game.name, *options, cwd=game.parent)


async def test_what_no_handler_takes_is_what_a_room_may_send_also_from_modules_beside_it(arena: Path) -> None:
    text = (await types(arena)).stdout

    assert "  toServer: {\n    move: Move;\n  };\n  toClient: {\n    moved: Moved;\n    news: News;\n  };" in text
    assert "  toServer: {\n    cheer: Cheer;\n  };\n  toClient: {\n    moved: Moved;\n    news: News;\n  };" in text


async def test_a_room_that_says_what_it_sends_is_believed(tmp_path: Path) -> None:
    game = write(
        tmp_path, CHAT.replace("class Chat(Room[PlayerData]):", "class Chat(Room[PlayerData]):\n        sends = [Say]")
    )

    text = (await types(game)).stdout

    assert "  toServer: {\n    say: Say;\n  };\n  toClient: {\n    say: Say;\n  };" in text


async def test_a_file_is_written_and_found_up_to_date(arena: Path) -> None:
    wrote = await types(arena, "--lang", "ts", "--out", "messages.ts")
    checked = await types(arena, "--out", "messages.ts", "--check")

    assert wrote == (0, "Wrote messages.ts.\n", "")
    assert checked == (0, "", "")
    assert "export interface ArenaMessages" in (arena.parent / "messages.ts").read_text("utf-8")


async def test_a_file_that_is_not_up_to_date_is_shown_as_a_diff_and_not_written(arena: Path) -> None:
    await types(arena, "--out", "messages.ts")
    file = arena.parent / "messages.ts"
    before = file.read_text("utf-8")
    write(arena.parent, WORDS.replace("x: float", "x: float\n        y: float = 0.0"), "words.py")

    result = await types(arena, "--out", "messages.ts", "--check")

    assert result.exit_code == 1
    assert "+  y?: number;\n" in result.stdout
    assert "messages.ts is not up to date: run `holdfast types game.py --out messages.ts`" in result.stderr
    assert file.read_text("utf-8") == before


async def test_a_file_that_is_not_there_is_not_up_to_date(arena: Path) -> None:
    result = await types(arena, "--out", "messages.ts", "--check")

    assert result.exit_code == 1
    assert not (arena.parent / "messages.ts").exists()


async def test_a_check_needs_a_file(arena: Path) -> None:
    result = await types(arena, "--check")

    assert result.exit_code == 2
    assert "--out FILE" in result.stderr


async def test_a_folder_that_is_not_there_is_named(arena: Path) -> None:
    line = only_line(await types(arena, "--out", "nowhere/messages.ts"))

    assert "nowhere/messages.ts cannot be written: No such file or directory" in line


async def test_the_rooms_of_a_server_of_the_game_s_own_are_found(tmp_path: Path) -> None:
    game = write(
        tmp_path,
        CHAT
        + "\n    from holdfast import Server, WebSocket\n    server = Server([Chat], listen=[WebSocket(port=0)])\n",
    )

    assert "export interface ChatMessages" in (await types(game)).stdout


async def test_the_version_is_the_same_however_the_game_is_loaded(arena: Path) -> None:
    by_module = await result_of("types", "game", cwd=arena.parent)

    assert by_module.stdout.splitlines()[1:] == (await types(arena)).stdout.splitlines()[1:]


async def test_python_classes_can_be_imported_and_are_the_same_messages(arena: Path) -> None:
    out = arena.with_name("messages.py")
    await types(arena, "--lang", "py", "--out", out.name)

    made = runpy.run_path(str(out))

    assert made["Move"](1.5).x == 1.5
    assert made["Move"].wire_name == "move"
    assert [each.__name__ for each in made["ARENA_MESSAGES"]] == ["Moved", "News"]
    assert (await types(arena, "--lang", "py", "--out", out.name, "--check")).exit_code == 0
    out.write_text("# older")
    assert "is not up to date" in (await types(arena, "--lang", "py", "--out", out.name, "--check")).stderr


async def test_numbers_of_protobuf_are_pinned_by_the_file(arena: Path) -> None:
    words, out = arena.with_name("words.py"), arena.with_name("arena.proto")
    lang = ("--lang", "proto", "--out", out.name)
    await types(arena, *lang)
    assert "message Move {\n  double x = 1;\n}" in out.read_text()
    assert "message Frame {" in out.with_name("holdfast.proto").read_text()
    assert (await types(arena, *lang, "--check")).exit_code == 0

    words.write_text(words.read_text().replace("    x: float", "    first: int\n    x: float"))
    for option in ((), ("--check",)):
        refused = await types(arena, *lang, *option)
        assert refused.exit_code == 1
        assert "Move.x was 1 and is 2" in refused.stderr
        assert "double x = 1" in out.read_text()

    words.write_text(words.read_text().replace("    first: int\n    x: float", "    x: float\n    last: int"))
    assert "is not up to date" in (await types(arena, *lang, "--check")).stderr
    assert (await types(arena, *lang)).exit_code == 0
    words.write_text(words.read_text().replace("    x: float\n    last", "    last"))
    assert "1 of Move was x and is last" in (await types(arena, *lang)).stderr
    assert (await types(arena, *lang, "--renumber")).exit_code == 0
    assert "message Move {\n  int64 last = 1;\n}" in out.read_text()
