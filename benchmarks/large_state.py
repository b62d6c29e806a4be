"""What does a commit of ten changed bytes cost in a room with a state of 1 MiB? In one piece, and in `Parts`.

python -m benchmarks.large_state [--commits 300]
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

import holdfast
from holdfast import Parts, PlayerData, Room

CHUNKS = 1024


class Chunk(msgspec.Struct):
    """A kibibyte of a world."""

    tiles: bytes = bytes(1024)


class Whole(msgspec.Struct):
    """A mebibyte in one piece."""

    chunks: dict[str, Chunk]


class InParts(msgspec.Struct):
    """The same, saved piece by piece."""

    chunks: Parts[Chunk]


class World(Room[PlayerData]):
    """Changes ten bytes of a mebibyte."""

    durability = "commit"
    state: Any

    def touch(self, number: int) -> None:
        """A change of ten bytes."""
        self.state.chunks[str(number % CHUNKS)].tiles = number.to_bytes(10, "big") + bytes(1014)


class WholeWorld(World):
    """A state in one piece."""

    state: Whole

    def on_create(self, config: dict[str, Any]) -> None:
        """All chunks."""
        self.state = Whole({str(number): Chunk() for number in range(CHUNKS)})


class PartedWorld(World):
    """A state in parts."""

    state: InParts

    def on_create(self, config: dict[str, Any]) -> None:
        """All chunks."""
        self.state = InParts(Parts({str(number): Chunk() for number in range(CHUNKS)}))


async def measure(kind: type[World], url: str, commits: int) -> tuple[float, float]:
    """CPU microseconds and milliseconds for each commit."""
    server = holdfast.Server([kind], listen=[], store=url)
    await server.start()
    room = await server.create_room(kind.kind)
    runner = server.rooms.runner(room.id)
    assert isinstance(room, World)
    cpu, began_at = time.process_time(), time.perf_counter()
    for number in range(commits):
        await runner.call(room.touch, number)
        await runner.persistence.saved()
    figures = (time.process_time() - cpu) / commits * 1e6, (time.perf_counter() - began_at) / commits * 1e3
    await server.stop()
    return figures


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description="What a small change of a large durable room costs.")
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--folder", type=Path, help="where the databases go: a disk, not a tmpfs")
    options = parser.parse_args()
    table = Table("state of 1 MiB", "CPU per commit", "time per commit")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name, kind in (("in one piece", WholeWorld), ("in Parts of 1 KiB", PartedWorld)):
            cpu_us, took_ms = uvloop.run(measure(kind, f"sqlite:{folder}/{kind.__name__}.db", options.commits))
            table.add_row(name, f"{cpu_us:,.0f} us", f"{took_ms:.2f} ms")
    Console().print(table)


if __name__ == "__main__":
    main()
