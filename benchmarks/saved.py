"""What does it cost to save a session, so that it survives a killed process? A client sends, with and without `saved=`.

The time is that of `await room.send(message)`, of a message of 32 characters, as long as the window has room: with
`saved=` it includes the write to the file. Rounds alternate.

    python -m benchmarks.saved [--messages 500] [--rounds 40]
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console

import holdfast
from holdfast import Message, Player, PlayerData, Room, on


class Say(Message):
    """Thirty-two letters."""

    text: str


class Quiet(Room[PlayerData]):
    """Hears everything, and says nothing."""

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> None:
        """Nothing."""


async def round_of(url: str, saved: Path | None, messages: int) -> float:
    """The microseconds of one `send`."""
    async with holdfast.connect(url, saved=saved) as session:
        room = await session.join_or_create("quiet")
        message = Say("x" * 32)
        began_at = time.perf_counter()
        for _ in range(messages):
            await room.send(message)
        took_s = time.perf_counter() - began_at
        await room.flush()
    return took_s / messages * 1e6


async def run(messages: int, rounds: int, folder: Path) -> None:
    """Rounds of both, and their medians."""
    times: dict[str, list[float]] = {"in memory": [], "saved in a file": []}
    async with holdfast.Server([Quiet], listen=[holdfast.WebSocket(port=0)]) as server:
        for _ in range(rounds):
            times["in memory"].append(await round_of(server.url, None, messages))
            times["saved in a file"].append(await round_of(server.url, folder / "ada.session", messages))
    for name, each in times.items():
        Console().print(f"{name}: {statistics.median(each):.1f} µs a message")


def main() -> None:
    """Parse, run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=500, help="fewer than a window of 1,024")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--folder", type=Path, help="where the file goes: a disk, not a tmpfs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        asyncio.run(run(options.messages, options.rounds, Path(folder)))


if __name__ == "__main__":
    main()
