"""Games to serve, written into a folder of the test's own."""

from pathlib import Path
from textwrap import dedent

from holdfast import Message
from tests.e2e.serving import Result

CHAT = """
    from holdfast import Message, PlayerData, Room, on

    class Say(Message):
        text: str

    class Chat(Room[PlayerData]):
        @on(Say)
        def say(self, player, say):
            self.broadcast(say)
"""

DURABLE_CHAT = """
    import msgspec
    from holdfast import Message, PlayerData, Room, on

    class Say(Message):
        text: str

    class Said(msgspec.Struct):
        texts: list[str] = []

    class Chat(Room[PlayerData]):
        durability = "commit"
        state: Said

        def on_create(self, config):
            self.state = Said()

        @on(Say)
        def say(self, player, say):
            self.state.texts.append(say.text)
            self.broadcast(Say(", ".join(self.state.texts)))
"""

BREAKING_STORE = """
    from holdfast import Server, WebSocket
    from holdfast.stores import Broken, SqliteStore

    class BreakingStore(SqliteStore):
        async def commit(self, batches):
            if any(b"hello" in (write.value or b"") for batch in batches for write in batch):
                raise Broken("the disk has failed")
            return await super().commit(batches)

    server = Server([Chat], listen=[WebSocket(port=0)], store=BreakingStore("game.db"))
"""


class Say(Message):
    text: str


def write(folder: Path, text: str, name: str = "game.py") -> Path:
    """Put the file there at once, as editors do: nobody sees half of it."""
    draft = folder / f"{name}.draft"
    draft.write_text(dedent(text), "utf-8")
    return draft.replace(folder / name)


def only_line(result: Result) -> str:
    """The one line that a command had to say, and that it was an error."""
    assert result.exit_code == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line
