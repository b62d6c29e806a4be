"""The game of the storm: every operation is numbered, chained and told to everybody, so nothing goes unnoticed."""

import hashlib
from typing import Any

import msgspec

from holdfast import Message, Parts, Player, PlayerData, Reason, Room, on

RING_EVERY = 10
"""Each so manieth operation of a player sets a timer, which must ring once."""
RING_MS_MAX = 1500
PAY_EVERY = 7
"""Each so manieth operation of a player has something done outside, which must count once."""
_RECENT = 48
_DICE_BITS = 32
_SUM_MODULUS = 2**48


class Op(Message):
    """A player's operation: 1, 2, 3 …, also across seats."""

    who: str
    seq: int


class Ask(Message):
    """Tell me when the last timer has rung."""


class Event(Message):
    """What happened in the room, told to everybody in it."""

    n: int
    kind: str
    who: str
    seq: int
    dice: int
    chain: int


class Report(Message):
    """The answer to `Ask`: there will be no other event unless somebody does something."""

    n: int


class Tally(msgspec.Struct):
    """What came of one player's operations."""

    count: int = 0
    sum: int = 0
    """Of the marks of all of them: tells sets of operations apart."""
    last: int = 0
    wrong: list[int] = msgspec.field(default_factory=list)
    """Those that were not higher than the one before."""
    rung: int = 0
    rung_sum: int = 0


class Board(msgspec.Struct):
    """The room's state."""

    first: int
    """What the room's chance began from."""
    n: int = 0
    chain: int = 0
    rings_due: int = 0
    recoveries: int = 0
    asking: list[str] = msgspec.field(default_factory=list)
    recent: list[tuple[int, str, str, int]] = msgspec.field(default_factory=list)
    tallies: Parts[Tally] = msgspec.field(default_factory=Parts)


class Seated(PlayerData):
    """What is kept with a seat."""

    who: str = ""
    ops: int = 0


def linked(chain: int, *content: object) -> int:
    """A chain with one more link: two histories that differ anywhere end in different numbers."""
    return int.from_bytes(hashlib.blake2b(repr((chain, *content)).encode(), digest_size=6).digest(), "big")


def added(total: int, who: str, seq: int) -> int:
    """A sum of operations with one more, in any order."""
    return (total + linked(0, who, seq)) % _SUM_MODULUS


def dice_of(random: Any) -> int:
    """The number that the room draws for each event, and for nothing else."""
    drawn: int = random.getrandbits(_DICE_BITS)
    return drawn


class Storm(Room[Seated]):
    """Acknowledged means kept."""

    durability = "commit"
    grace_s = 600.0
    empty_ttl_s = 600.0
    state: Board

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Board(first=self.random.getstate()[0])

    def on_recover(self) -> None:
        self.state.recoveries += 1
        self._say("recovered", "", self.state.recoveries)

    def on_join(self, player: Player[Seated]) -> None:
        self._say("joined", player.id, 0)

    def on_drop(self, player: Player[Seated]) -> None:
        self._say("dropped", player.data.who, 0)

    def on_rejoin(self, player: Player[Seated]) -> None:
        self._say("rejoined", player.data.who, 0)

    def on_leave(self, player: Player[Seated], reason: Reason) -> None:
        self._say("left", player.data.who, 0)

    @on(Op)
    def op(self, player: Player[Seated], op: Op) -> None:
        tallies = self.state.tallies
        tally = tallies[op.who] if op.who in tallies else tallies.setdefault(op.who, Tally())
        if op.seq <= tally.last:
            tally.wrong.append(op.seq)
        tally.last = op.seq
        tally.count += 1
        tally.sum = added(tally.sum, op.who, op.seq)
        player.data.who = op.who
        player.data.ops += 1
        dice = self._say("op", op.who, op.seq)
        if op.seq % RING_EVERY == 0:
            self.state.rings_due += 1
            self.after(dice % RING_MS_MAX / 1000, self.ring, op.who, op.seq)
        if op.seq % PAY_EVERY == 0:
            self.effect("pay", [op.who, op.seq])

    def ring(self, who: str, seq: int) -> None:
        self.state.rings_due -= 1
        tally = self.state.tallies[who]
        tally.rung += 1
        tally.rung_sum = added(tally.rung_sum, who, seq)
        self._say("ring", who, seq)
        self._answer()

    @on(Ask)
    def ask(self, player: Player[Seated], ask: Ask) -> None:
        self.state.asking.append(player.id)
        self._answer()

    def _answer(self) -> None:
        if self.state.rings_due == 0:
            for player in self.players:
                if player.id in self.state.asking:
                    player.send(Report(self.state.n))
            self.state.asking.clear()

    def _say(self, kind: str, who: str, seq: int) -> int:
        state = self.state
        state.n += 1
        dice = dice_of(self.random)
        state.chain = linked(state.chain, state.n, kind, who, seq, dice)
        state.recent = [*state.recent[1 - _RECENT :], (state.n, kind, who, seq)]
        self.broadcast(Event(state.n, kind, who, seq, dice, state.chain))
        return dice


class Stage(Room[Seated]):
    """Everybody wants to create it, under one name; nobody is ever there."""

    durability = "commit"
    unique_names = True
    empty_ttl_s = 600.0
