"""A room that shares its state: each number that comes is a turn, and is told to everybody if that was asked for."""

from typing import Any

import msgspec

from holdfast import Hidden, Player, PlayerData, Private, Room, on
from tests.conformance.sdks.game import Down, Up


class Entry(msgspec.Struct):
    who: str
    number: int


class Ledger(msgspec.Struct):
    turns: int = 0
    down: int = 0
    """The number of the last message that was told."""
    newest: list[Entry] = []
    by_player: dict[str, int] = {}
    secret: Hidden[list[int]] = []


class Purse(PlayerData):
    numbers: int = 0
    coins: Private[list[int]] = msgspec.field(default_factory=list)


class Ledgers(Room[Purse]):
    shares = ("state", "players")
    max_players = 4
    max_spectators = 4
    grace_s = 60.0
    state: Ledger

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Ledger()

    @on(Up)
    def up(self, player: Player[Purse], up: Up) -> None:
        self.turn(player.id, up.number, up.answers > 0)
        player.data.numbers += 1
        player.data.coins = [*player.data.coins[-3:], up.number]

    def turn(self, who: str, number: int, is_told: bool) -> None:
        """One number more; the message is told before the state has changed, and heard after it."""
        if is_told:
            self.broadcast(Down(self.state.down + 1))
            self.state.down += 1
        self.state.turns += 1
        self.state.newest.insert(0, Entry(who, number))
        del self.state.newest[5:]
        self.state.by_player[who] = number
        self.state.secret.append(number)

    def seen(self) -> dict[str, Any]:
        """What everybody sees."""
        state = msgspec.to_builtins(self.state)
        del state["secret"]
        return {"state": state, "players": {each.id: {"numbers": each.data.numbers} for each in self.players}}
