"""A room with spectators: whoever has a seat has it send numbers to all, and spectators may send numbers, too."""

import asyncio
from typing import Any

import msgspec

from holdfast import Message, Player, PlayerData, Room, Spectator, on
from tests.conformance.sdks.game import Add, Down, Pour, State, Sum, Up


class Promote(Message):
    """Give every spectator a seat."""


class Finish(Message):
    """End the room."""


class Halfway(Message):
    """To players: ten have been added."""


class Count(msgspec.Struct):
    down: int = 0
    sum: int = 0
    up: dict[str, int] = {}
    wrong: list[int] = []


class Gallery(Room[PlayerData]):
    max_players = 4
    max_spectators = 4
    grace_s = 60.0
    state: Count

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Count()

    def on_spectate(self, spectator: Spectator) -> None:
        spectator.send(State(0, self.state.down))

    def on_resync(self, player: Player[PlayerData] | Spectator) -> None:
        player.send(State(0, self.state.down))

    @on(Up, spectators=True)
    def up(self, who: Player[PlayerData] | Spectator, up: Up) -> None:
        if up.number != self.state.up.get(who.id, 0) + 1:
            self.state.wrong.append(up.number)
        self.state.up[who.id] = up.number

    @on(Pour)
    def pour(self, player: Player[PlayerData], pour: Pour) -> None:
        for _ in range(pour.numbers):
            self.state.down += 1
            self.broadcast(Down(self.state.down))

    @on(Promote)
    def raise_up(self, player: Player[PlayerData], promote: Promote) -> None:
        for spectator in self.spectators:
            self.promote(spectator)

    @on(Finish)
    def finish(self, player: Player[PlayerData], finish: Finish) -> None:
        self.close()


class LastingGallery(Gallery):
    durability = "commit"

    @on(spectators=True)
    async def add(self, who: Player[PlayerData] | Spectator, add: Add) -> Sum:
        await asyncio.sleep(add.wait_s)
        self.state.sum += add.number
        if self.state.sum == 10:
            self.broadcast(Halfway(), spectators=False)
        return Sum(self.state.sum)
