"""Notice board: a durable room. Acknowledged messages are on disk, whatever happens to the server."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

import holdfast
from holdfast import Message, Player, PlayerData, Room, Server, WebSocket, on


class Pin(Message):
    """From a client: pin a note to the board."""

    text: str


class Board(Message):
    """To clients: all notes on the board."""

    notes: list[str]


class Notes(msgspec.Struct):
    """The room's state. The annotation `state: Notes` below tells the store how to read it back."""

    texts: list[str] = []


class NoticeBoard(Room[PlayerData]):
    """A message leaves the room only after its turn is saved on disk."""

    durability = "commit"
    state: Notes

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Notes()

    def on_recover(self) -> None:
        self.state.texts.append("the server restarted")

    @on(Pin)
    def pin(self, player: Player[PlayerData], pin: Pin) -> None:
        self.state.texts.append(pin.text)
        self.broadcast(Board(self.state.texts))


async def main() -> None:
    with TemporaryDirectory() as folder:
        store = f"sqlite:{Path(folder) / 'board.db'}"
        saved = Path(folder) / "ada.session"
        async with Server([NoticeBoard], listen=[WebSocket(port=0)], store=store) as server:
            session = await holdfast.connect(server.url, messages=[Board], saved=saved)
            room = await session.join_or_create("notice_board")
            await room.send(Pin("lost: one parrot"))
            print(await room.receive())
            await session.suspend()

        # A new server recovers the room. It survives `kill -9` too: crash the server in `holdfast demo`.
        async with (
            Server([NoticeBoard], listen=[WebSocket(port=0)], store=store) as server,
            holdfast.connect(server.url, messages=[Board], saved=saved) as session,
        ):
            print("back:", session.outcome)
            assert session.room is not None
            await session.room.send(Pin("found: one parrot"))
            print(await session.room.receive())


if __name__ == "__main__":
    asyncio.run(main())
