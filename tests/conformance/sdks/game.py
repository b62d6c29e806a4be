"""A room that counts: players and room send each other numbers, 1, 2, 3 …, and the room keeps a ledger of what came."""

import asyncio
from typing import Any

import msgspec

from holdfast import Message, NotAllowed, Player, PlayerData, Room, on


class Up(Message):
    number: int
    answers: int = 0
    """So many numbers are to be sent in return."""


class Down(Message):
    number: int


class Pour(Message):
    """Send me so many numbers, now."""

    numbers: int


class Add(Message):
    """Answered with the sum; nothing cannot be added."""

    number: int
    wait_s: float = 0.0


class Sum(Message):
    sum: int


class State(Message):
    """Where the room is: the last number it has heard, and the last that it has sent."""

    up: int
    down: int


class Tally(PlayerData):
    up: int = 0
    wrong: list[int] = msgspec.field(default_factory=list)
    down: int = 0
    resyncs: int = 0
    sum: int = 0


class Counting(Room[Tally]):
    max_players = 8
    grace_s = 60.0

    def on_resync(self, player: Player[Tally]) -> None:
        player.data.resyncs += 1
        player.send(State(player.data.up, player.data.down))

    @on(Up)
    def up(self, player: Player[Tally], up: Up) -> None:
        if up.number != player.data.up + 1:
            player.data.wrong.append(up.number)
        player.data.up = up.number
        pour_down(player, up.answers)

    @on
    async def add(self, player: Player[Tally], add: Add) -> Sum:
        if not add.number:
            raise NotAllowed("nothing to add")
        await asyncio.sleep(add.wait_s)
        player.data.sum += add.number
        return Sum(player.data.sum)

    @on(Pour)
    def pour(self, player: Player[Tally], pour: Pour) -> None:
        pour_down(player, pour.numbers)


class Word(Message):
    """Where it was said."""

    where: str


class Nothing(msgspec.Struct):
    pass


class Ordered(Room[PlayerData]):
    """Says in which hook it is."""

    grace_s = 60.0
    state: Nothing

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Nothing()

    def on_join(self, player: Player[PlayerData]) -> None:
        player.send(Word("on_join"))

    def on_rejoin(self, player: Player[PlayerData]) -> None:
        player.send(Word("on_rejoin"))

    def on_resync(self, player: Player[PlayerData]) -> None:
        player.send(Word("on_resync"))


class Loadout(msgspec.Struct):
    weapon: str = "sword"
    levels: dict[str, int] = {}


class Table(Room[PlayerData]):
    """Says what it was told of itself and of its players."""

    grace_s = 60.0
    join_options = Loadout

    def on_create(self, config: dict[str, Any]) -> None:
        self.motto = str(config.get("motto", ""))

    def on_join(self, player: Player[PlayerData]) -> None:
        player.send(Word(self.motto or player.name))
        if player.options != Loadout():
            player.send(Word(f"{player.options.weapon} {sorted(player.options.levels.items())}"))

    def on_rename(self, player: Player[PlayerData], old_name: str) -> None:
        player.send(Word(f"{old_name} → {player.name}"))


class Lasting(Ordered):
    durability = "commit"


def pour_down(player: Player[Tally], numbers: int) -> None:
    """Send so many numbers."""
    for _ in range(numbers):
        player.data.down += 1
        player.send(Down(player.data.down))
