"""The table of hooks and first messages in docs/guide/drops.md, played: each row is what happens."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from holdfast import (
    ClientRoom,
    ClientSession,
    Limits,
    Message,
    Player,
    PlayerData,
    Resynced,
    Room,
    RoomUpdated,
    SessionEnded,
    on,
)
from holdfast.testing import FaultyStore, MemoryServer, generous
from tests.server.durability.bench import in_virtual_time, until

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "drops.md"
# So that a drop that lasts is a resync.
LIMITS = generous(Limits(window_messages_max=4, kept_messages_max=8))


class Work(Message):
    """Keep the room busy for a second, and say something to all at its end."""


class Heard(Message):
    """Where it was sent."""

    what: str


class Nothing(Struct):
    pass


class Hall(Room[PlayerData]):
    """Says to everybody where it is, and takes its time when it is told to work."""

    kind = "hall"
    ran: list[str]
    state: Nothing

    def on_create(self, config: dict[str, Any]) -> None:
        self.ran, self.state = [], Nothing()

    def on_recover(self) -> None:
        self.ran = ["on_recover"]

    def admit(self, player: Player[PlayerData]) -> None:
        self.ran.append("admit")

    def on_join(self, player: Player[PlayerData]) -> None:
        self.said("on_join", player)

    def on_drop(self, player: Player[PlayerData]) -> None:
        self.ran.append("on_drop")

    def on_rejoin(self, player: Player[PlayerData]) -> None:
        self.said("on_rejoin", player)

    async def on_resync(self, player: Player[PlayerData]) -> None:
        await asyncio.sleep(0.1)
        self.said("on_resync", player)

    def said(self, hook: str, player: Player[PlayerData]) -> None:
        if player.id == "ada":
            self.ran.append(hook)
            player.send(Heard(hook))

    @on(Work)
    async def work(self, player: Player[PlayerData], work: Work) -> None:
        await asyncio.sleep(1.0)
        self.broadcast(Heard("missed"))


class Saved(Hall):
    kind = "hall"
    durability = "commit"


class Checked(Hall):
    kind = "hall"
    durability = "checkpoint"
    checkpoint_s = 0.2


class Play:
    """Ada, and Bob who keeps the room busy whenever she comes or returns."""

    def __init__(self, server: MemoryServer, ada: ClientSession, seat: ClientRoom, busy: ClientRoom) -> None:
        self.server, self.ada, self.seat, self.busy = server, ada, seat, busy
        self.told = ""

    @property
    def hall(self) -> Hall:
        (room,) = self.server.rooms
        assert isinstance(room, Hall)
        return room

    async def away(self, works: int) -> None:
        """Ada is cut off while so much is said, and the room is at work on more when she is back."""
        self.server.dialer(self.ada).is_down = True
        self.server.link(self.ada).cut()
        await self.keep_busy(works)
        await asyncio.sleep(works + 0.5)
        await self.keep_busy(3)
        self.server.dialer(self.ada).is_down = False
        await self.back()

    async def keep_busy(self, works: int) -> None:
        for _ in range(works):
            await self.busy.send(Work())

    async def back(self) -> None:
        await until(lambda: self.ada.connected)
        assert self.ada.outcome is not None
        self.told = self.ada.outcome.kind


async def join(play: Play) -> None:
    await play.seat.leave()
    play.hall.ran.clear()
    play.seat = await play.ada.join(play.hall.id)
    play.told = "joined"


async def resume(play: Play) -> None:
    await play.away(2)


async def resync(play: Play) -> None:
    await play.away(12)


async def takeover(play: Play) -> None:
    await play.keep_busy(2)
    play.ada = await play.server.connect("ada", messages=[Heard])
    play.seat = await play.ada.join(play.hall.id)
    play.told = "joined"


async def recovery(play: Play) -> None:
    play.server.dialer(play.ada).is_down = True
    play.server.link(play.ada).cut()
    await play.keep_busy(1)
    await asyncio.sleep(1.5)
    play.server.crash()
    await play.server.start()
    play.server.dialer(play.ada).is_down = False
    await play.back()


ROWS: dict[str, tuple[type[Hall], Callable[[Play], Awaitable[None]]]] = {
    "join": (Hall, join),
    "resume": (Hall, resume),
    "resync": (Hall, resync),
    "takeover by another session": (Hall, takeover),
    'recovery of a `"commit"` room': (Saved, recovery),
    'recovery of a `"checkpoint"` room': (Checked, recovery),
}


def table() -> dict[str, tuple[list[str], list[str]]]:
    text = PAGE.read_text("utf-8").partition("## Order of hooks and messages")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {what: (_names(hooks), _names(heard)) for what, hooks, heard in rows[2:]}


def _names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def test_every_row_is_played() -> None:
    assert set(table()) == set(ROWS)


@pytest.mark.parametrize("row", ROWS)
@in_virtual_time
async def test_a_row_of_the_table_is_what_happens(row: str) -> None:
    kind, happen = ROWS[row]
    hooks, heard = table()[row]
    store = None if kind.durability == "memory" else FaultyStore()
    async with MemoryServer([kind], store=store, limits=LIMITS) as server:
        bob = await server.connect("bob", messages=[Heard])
        busy = await bob.join_or_create("hall")
        reading = asyncio.create_task(read_all(busy))
        ada = await server.connect("ada", messages=[Heard])
        play = Play(server, ada, await ada.join(busy.id), busy)
        assert await play.seat.receive() == Heard("on_join")
        play.hall.ran.clear()

        await happen(play)
        words = [play.told]
        while len(words) < len(heard):
            message = await play.seat.receive()
            if message == Resynced():
                assert words == ["resynced"], "the gap is told first"
                continue
            if isinstance(message, RoomUpdated):
                assert words[-1] == "on_resync", "the entry comes behind the state"
                continue
            assert isinstance(message, Heard)
            if message.what != words[-1]:
                words.append(message.what)

        assert words == heard
        assert play.hall.ran == hooks
        reading.cancel()


async def read_all(room: ClientRoom) -> None:
    with suppress(SessionEnded):
        async for _ in room:
            pass
