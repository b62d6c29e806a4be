"""A game that counts: players and room send each other numbers, 1, 2, 3 …, and the room keeps a ledger of what came.

Served by `holdfast serve` in a process of its own; the tests import its messages.
"""

import msgspec

from holdfast import Message, Player, PlayerData, Room, on

PULSES_HZ = 20
LEAD = 10
"""The room is at most this many pulses ahead of the player, so neither can be done long before the other."""


class Begin(Message):
    """Send me this many numbers, so many with every pulse."""

    numbers: int
    per_pulse: int


class Up(Message):
    number: int


class Down(Message):
    number: int


class Ask(Message):
    """What have you received from me?"""


class Report(Message):
    """The room's ledger: how many came, and those that were not one higher than the one before."""

    received: int
    wrong: list[int]
    drops: int
    rejoins: int


class Ledger(PlayerData):
    begin: Begin | None = None
    sent: int = 0
    received: int = 0
    wrong: list[int] = msgspec.field(default_factory=list)
    last: int = 0
    drops: int = 0
    rejoins: int = 0


class Counting(Room[Ledger]):
    max_players = 100
    grace_s = 60.0
    tick_hz = PULSES_HZ

    @on(Begin)
    def begin(self, player: Player[Ledger], begin: Begin) -> None:
        player.data.begin = begin

    @on(Up)
    def up(self, player: Player[Ledger], up: Up) -> None:
        ledger = player.data
        ledger.received += 1
        if up.number != ledger.last + 1:
            ledger.wrong.append(up.number)
        ledger.last = up.number

    @on(Ask)
    def ask(self, player: Player[Ledger], ask: Ask) -> None:
        ledger = player.data
        player.send(Report(ledger.received, ledger.wrong, ledger.drops, ledger.rejoins))

    def on_tick(self, dt_s: float) -> None:
        for player in self.players:
            ledger = player.data
            if ledger.begin is not None:
                per_pulse = ledger.begin.per_pulse
                goal = min(ledger.begin.numbers, ledger.last + LEAD * per_pulse, ledger.sent + per_pulse)
                while ledger.sent < goal:
                    ledger.sent += 1
                    player.send(Down(ledger.sent))

    def on_drop(self, player: Player[Ledger]) -> None:
        player.data.drops += 1

    def on_rejoin(self, player: Player[Ledger]) -> None:
        player.data.rejoins += 1
