"""Which messages a room takes and sends: what counts as the same project, and what does not."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.cli.demo import arena as demo
from holdfast.server.messages import RoomMessages, messages_of

MESSAGE = "from holdfast import Message\nclass {name}(Message):\n    text: str\n"
ROOM = "from holdfast import PlayerData, Room\nclass Arena(Room[PlayerData]): ...\n"


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Loaded":
    return Loaded(tmp_path, monkeypatch)


class Loaded:
    """A project in a folder of its own, whose modules are forgotten afterwards."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch

    def __call__(self, name: str, files: dict[str, str]) -> ModuleType:
        for relative, text in files.items():
            (self._folder / relative).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / relative).write_text(text, "utf-8")
        self._monkeypatch.syspath_prepend(self._folder)
        self._monkeypatch.syspath_prepend(self._folder / "env" / "site-packages")
        return importlib.import_module(name)


def sent(spoken: RoomMessages) -> list[str]:
    return [message.wire_name for message in spoken.to_client]


def test_messages_of_modules_that_are_imported_count_wherever_in_the_package_they_are(loaded: Loaded) -> None:
    module = loaded(
        "spoken_pack.rooms.arena",
        {
            "spoken_pack/__init__.py": "",
            "spoken_pack/rooms/__init__.py": "",
            "spoken_pack/rooms/arena.py": "from spoken_pack import words\nfrom spoken_pack.more import Said\n" + ROOM,
            "spoken_pack/words.py": MESSAGE.format(name="Heard"),
            "spoken_pack/more.py": MESSAGE.format(name="Said") + "class Whispered(Said): ...\n",
            "spoken_pack/other.py": MESSAGE.format(name="NeverImported"),
        },
    )

    assert sent(messages_of(module.Arena)) == ["heard", "said", "whispered"]


def test_what_is_imported_by_name_from_a_library_counts_but_not_the_rest_of_the_library(loaded: Loaded) -> None:
    module = loaded(
        "spoken_game",
        {
            "spoken_game.py": "import spoken_library\nfrom spoken_library import Borrowed\n" + ROOM,
            "env/site-packages/spoken_library.py": MESSAGE.format(name="Borrowed") + "class Unused(Message): ...\n",
        },
    )

    assert sent(messages_of(module.Arena)) == ["borrowed"]


def test_a_room_of_ours_sends_what_stands_beside_it() -> None:
    spoken = messages_of(demo.Arena)

    assert spoken.to_server
    assert {message.__module__ for message in spoken.to_client} == {demo.__name__}


def test_nothing_of_holdfast_s_own_is_a_message_of_the_game(loaded: Loaded) -> None:
    module = loaded("spoken_all", {"spoken_all.py": "from holdfast import *\nimport holdfast\n" + ROOM})

    assert messages_of(module.Arena) == RoomMessages((), ())
