"""The game that is deployed: counts what its players say, and notes what comes twice, too early or never."""

from typing import Any

import msgspec

from holdfast import Message, Player, PlayerData, Room, on


class Count(Message):
    """From a client: its next number."""

    number: int


class Counted(Message):
    """To everybody, numbered too."""

    player: str
    number: int
    total: int


class Audit(Message):
    """From a client, to be asked for the `Verdict`."""


class Verdict(Message):
    total: int
    wrong: list[str]


class Tallies(msgspec.Struct):
    total: int = 0
    last: dict[str, int] = {}
    wrong: list[str] = []


class Match(Room[PlayerData]):
    durability = "commit"
    max_players = 16
    state: Tallies

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Tallies()

    @on
    def count(self, player: Player[PlayerData], message: Count) -> None:
        expected = self.state.last.get(player.id, 0) + 1
        if message.number != expected:
            self.state.wrong.append(f"{player.id} said {message.number} instead of {expected}")
        self.state.last[player.id] = message.number
        self.state.total += 1
        self.broadcast(Counted(player.id, message.number, self.state.total))

    @on
    def audit(self, player: Player[PlayerData], message: Audit) -> Verdict:
        return Verdict(self.state.total, self.state.wrong)
