"""The audit trail: the records of each room are one chain, written by one server at a time.

A server that is killed may have committed a record, at most one, that it did not get to write down.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from tests.storm.history import Line

Fail = Callable[[str, str], None]


@dataclass(frozen=True, order=True, slots=True)
class Record:
    """A committed record, as it was written down."""

    index: int
    epoch: int
    previous: str
    hash: str
    node: str
    life: int


def check_trail(trails: Mapping[int, Iterable[Line]], final: Iterable[Line], fail: Fail, counts: Counter[str]) -> None:
    """The trails of all lives, and what the store holds in the end."""
    rooms: dict[str, list[Record]] = {}
    for life, lines in trails.items():
        for line in lines:
            if line[0] == "record":
                _, _, room, epoch, index, previous, digest, node = line
                rooms.setdefault(room, []).append(Record(index, epoch, previous, digest, node, life))
            else:
                counts["fenced"] += 1
    last = {line[1]: line for line in final if line[0] == "room"}
    for room, records in rooms.items():
        records.sort()
        counts["records"] += len(records)
        if room in last:
            _, _, epoch, index, previous, digest, *_ = last[room]
            if records[-1].hash != digest:
                end = records[-1]
                node, life = (end.node, end.life) if end.epoch == epoch else ("", -1)
                records.append(Record(index, epoch, previous, digest, node, life))
        _check_room(room, records, fail, counts)


def _check_room(room: str, records: list[Record], fail: Fail, counts: Counter[str]) -> None:
    writers: dict[int, tuple[str, int]] = {}
    for record in records:
        writer = writers.setdefault(record.epoch, (record.node, record.life))
        if writer != (record.node, record.life):
            fail("trail", f"{room}: epoch {record.epoch} has two writers, {writer} and {record.node, record.life}")
    for former, record in pairwise(records):
        where = f"{room}: record {record.index} of epoch {record.epoch}"
        if record.index <= former.index:
            fail("trail", f"{where} has the place of another, of epoch {former.epoch}")
        elif record.epoch < former.epoch:
            fail("trail", f"{where} comes after epoch {former.epoch}: its writer was not fenced")
        elif record.index == former.index + 1:
            counts["links"] += 1
            if record.previous != former.hash:
                fail("trail", f"{where} does not continue the one before")
        elif record.index - former.index - 1 > record.epoch - former.epoch:
            fail("trail", f"{where} follows record {former.index}: more are missing than servers were killed")
