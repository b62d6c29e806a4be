"""What the store holds in the end, as lines that the checker reads."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from holdfast.core.records import decode_room, digest
from holdfast.server.durability.saved_room import read_room
from holdfast.stores import Entry, open_store
from tests.storm.audit import brief, room_of
from tests.storm.game import Board, Storm
from tests.storm.history import Line, Writer


def boards(entries: Iterable[Entry]) -> dict[str, tuple[Entry, Board]]:
    """Each room's record and state."""
    by_room: dict[str, list[Entry]] = {}
    kinds: dict[str, str] = {}
    for entry in entries:
        if (room := room_of(entry.key)) is not None:
            kinds[room] = decode_room(entry.value).kind
        if entry.key.startswith("room/"):
            by_room.setdefault(entry.key.split("/")[1], []).append(entry)
    found: dict[str, tuple[Entry, Board]] = {}
    for room, parts in by_room.items():
        if kinds[room] != Storm.kind:
            continue
        board = read_room(parts, lambda _: Storm).state
        assert isinstance(board, Board)
        found[room] = (parts[0], board)
    return found


def is_settled(entries: list[Entry]) -> bool:
    """Whether nothing is left to do: no effect, no timer."""
    return not any(entry.key.startswith("effect/") for entry in entries) and all(
        board.rings_due == 0 for _, board in boards(entries).values()
    )


async def write_final(url: str, folder: Path) -> None:
    """Read the store, and keep a copy of its file beside the histories, if it has one."""
    store = open_store(url)
    await store.open()
    entries = await store.list("")
    await store.close()
    if url.startswith("sqlite:"):
        shutil.copy(url.removeprefix("sqlite:"), folder)
    Writer(folder / "final.jsonl").write(*final_lines(entries))


def final_lines(entries: list[Entry]) -> list[Line]:
    """See history.py."""
    lines: list[Line] = [["rest", entry.key] for entry in entries if entry.key.startswith("effect/")]
    for room, (entry, board) in boards(entries).items():
        record = decode_room(entry.value)
        assert room_of(entry.key) == room
        lines.append(
            [
                *("room", room, record.epoch, record.index, brief(record.previous), brief(digest(entry.value))),
                *(board.first, board.n, board.chain),
            ]
        )
        lines.append(["seats", room, record.max_players])
        for who, tally in board.tallies.items():
            lines.append(["tally", room, who, tally.count, tally.sum, tally.wrong, tally.rung, tally.rung_sum])
    return lines
