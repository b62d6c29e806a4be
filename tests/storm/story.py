"""A small history in which everything is right: two clients, one room, a server that was killed once."""

from pathlib import Path

from holdfast.server.rooms.splitmix64 import SplitMix64
from tests.storm.game import PAY_EVERY, RING_EVERY, added, dice_of, linked
from tests.storm.history import Line, Writer

ROOM = "den"
OPS = 20
_FIRST = 7
_NAMES = ("c0", "c1")


class Story:
    """Lines to be spoiled, one list for each file."""

    def __init__(self) -> None:
        self.events = _events()
        self.clients = {who: self._client(who) for who in _NAMES}
        self.audits = {0: [_record(1, n) for n in range(1, 6)], 1: [_record(2, n) for n in range(6, 11)]}
        self.effects: list[Line] = [
            ["paid", 1.0, f"effect/{ROOM}/1.1.{who}{seq}", who, seq] for who in _NAMES for seq in (7, 14)
        ]
        self.storm: list[Line] = [
            *(
                ["start", 1.0, 0, "eager"],
                ["ready", 1.0, 0],
                ["kill", 2.0, 0],
                ["start", 2.0, 1, "eager"],
                ["end", 9.0, 1, 0],
            )
        ]
        self.final: list[Line] = [
            ["room", ROOM, 2, 10, _hash(9), _hash(10), _FIRST, len(self.events), self.events[-1][-1]],
            ["seats", ROOM, len(_NAMES)],
            *(_tally(who, range(1, OPS + 1), range(RING_EVERY, OPS + 1, RING_EVERY)) for who in _NAMES),
        ]
        self.logs = {
            0: "12:00 WARNING an effect failed",
            1: f"12:00 ERROR room {ROOM} was taken over by another server",
        }

    def _client(self, who: str) -> list[Line]:
        lines: list[Line] = [["joined", 1.0, ROOM]]
        for event in self.events:
            lines.append(["got", 1.5, *event])
            if event[1:3] == ["op", who]:
                lines += [["sent", 1.5, event[3]], ["acked", 1.5, event[3]]]
        back = [["dropped", 2.0], ["outcome", 3.0 if who == "c0" else 3.5, "resumed", 4, "", True]]
        return [*lines[:20], *back, *lines[20:], ["finished", 4.0], ["report", 4.0, len(self.events)], ["done", 5.0]]

    # To spoil it

    def got(self, who: str, n: int) -> int:
        """Where in its history a client receives event n."""
        return next(place for place, line in enumerate(self.clients[who]) if line[0] == "got" and line[2] == n)

    def tally(self, who: str, ops: range, rings: range) -> None:
        """Let the store hold this of a player."""
        self.final = [line for line in self.final if line[:3] != ["tally", ROOM, who]] + [_tally(who, ops, rings)]

    def write(self, folder: Path) -> Path:
        """As files."""
        for who, lines in self.clients.items():
            Writer(folder / f"client-{who}.jsonl").write(*lines)
        for life, lines in self.audits.items():
            Writer(folder / f"audit-{life}.jsonl").write(*lines)
        for name, lines in (("effects", self.effects), ("storm", self.storm), ("final", self.final)):
            Writer(folder / f"{name}.jsonl").write(*lines)
        for life, text in self.logs.items():
            (folder / f"life-{life}.log").write_text(text + "\n")
        return folder


def _events() -> list[Line]:
    random, chain = SplitMix64(_FIRST), 0
    told = [("joined", who, 0) for who in _NAMES]
    for seq in range(1, OPS + 1):
        told += [("op", who, seq) for who in _NAMES]
        if seq % RING_EVERY == 0:
            told += [("ring", who, seq) for who in _NAMES]
    events: list[Line] = []
    for n, (kind, who, seq) in enumerate(told, 1):
        dice = dice_of(random)
        chain = linked(chain, n, kind, who, seq, dice)
        events.append([n, kind, who, seq, dice, chain])
    return events


def _hash(index: int) -> str:
    return f"{index:016x}"


def _record(epoch: int, index: int) -> Line:
    return ["record", 1.0, ROOM, epoch, index, _hash(index - 1), _hash(index), f"node{epoch}"]


def _tally(who: str, ops: range, rings: range) -> Line:
    ops_sum = rings_sum = 0
    for seq in ops:
        ops_sum = added(ops_sum, who, seq)
    for seq in rings:
        rings_sum = added(rings_sum, who, seq)
    return ["tally", ROOM, who, len(ops), ops_sum, [], len(rings), rings_sum]


assert PAY_EVERY * 2 <= OPS < PAY_EVERY * 3, "the story has two effects of each player"
