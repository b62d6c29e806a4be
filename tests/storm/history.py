"""Histories: files of lines, each a list that begins with a word. Whoever writes one may be killed in the middle of it.

Times are of the machine's monotonic clock, which all its processes share.

    client-<who>.jsonl   what one client sent, was told, and lived through
      ["joined", t, room]                    ["sent", t, seq]            ["acked", t, seq]: up to this one
      ["got", t, n, kind, who, seq, dice, chain]                         ["report", t, n]
      ["dropped", t]   ["outcome", t, kind, replayed, reason, seated]    ["left", t, room]
      ["refused", t, code]   ["strange", t, what]     ["stage", t, name, room, code]: it was created, or not
      ["finished", t]: everything is acknowledged, and there was time enough for all that follows from it
      ["done", t]
    audit-<life>.jsonl   what one life of the server has committed
      ["record", t, room, epoch, index, previous, hash, node]            ["fenced", t, room]
    effects.jsonl        what was done outside
      ["paid", t, key, who, seq]
    storm.jsonl          what was done to the server
      ["start", t, life, pace]  ["ready", t, life]  ["kill", t, life]  ["stop", t, life]  ["continue", t, life]
      ["zombie", t, life]: another was started while this one was stopped
      ["full", t, manner]  ["freed", t]  ["end", t, life, code]  ["fault", t, what]
    final.jsonl          what the store holds in the end
      ["room", room, epoch, index, previous, hash, first, n, chain]
      ["seats", room, how many]
      ["tally", room, who, count, sum, wrong, rung, rung_sum]            ["rest", key]
    life-<life>.log      what that life of the server has logged
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

Line = list[Any]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


class Writer:
    """Appends lines; each is with the system, and outlives the process, when `write` returns.

    A disk that takes nothing makes the lines wait in memory.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._waiting = b""

    def write(self, *lines: Line) -> bool:
        """Whether everything is written now."""
        self._waiting += b"".join(_encode(line) + b"\n" for line in lines)
        try:
            while self._waiting:
                self._waiting = self._waiting[os.write(self._file, self._waiting) :]
        except OSError:
            return False
        return True

    def note(self, word: str, *rest: Any) -> bool:
        """A line with the time."""
        return self.write([word, round(time.monotonic(), 4), *rest])


def read(path: Path) -> Iterator[Line]:
    """The lines of a history, without a last one that is torn; any other that makes no sense is an error."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield _decode(line)
