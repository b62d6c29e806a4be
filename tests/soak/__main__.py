"""Lets sessions, rooms and drops come and go, and looks whether the server costs more for it: memory, store, CPU.

    python -m tests.soak [--minutes 20] [--players 40] [--seed 1]

Two servers run, each in a process with a SQLite store: one is churned, the other is the reference. In each round
players come, speak, are cut off, come back, leave or vanish, in rooms in memory and durable ones; then everybody goes,
and the churned server is read. After that the same few messages go to both servers, in turn, and their CPU per message
is compared: what the machine does to one it does to the other. After the first half, nothing may have grown.

Exit code 1 if something has grown, or something went wrong. Press Ctrl-C to stop early, with what it has.
"""

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import holdfast
from holdfast import ClientRoom, ClientSession
from tests.soak.churn import churn
from tests.soak.game import LONG, MESSAGES, Say
from tests.soak.server import Reading, serve
from tests.soak.verdict import GROWTH_MAX, READINGS_MIN, Row, findings

# So many each, not for so long: on a machine that is idle at times, rounds would differ in size, and memory with them.
LIVES = 16
# However slow the machine is.
ROUND_S = 600.0
# Sessions that vanished have gone, and empty rooms have ended, by then.
SETTLE_S = 60.0
# Of a durable room one: then a commit is one message, however slow the disk is at the moment.
MEASURED_CLIENTS = {"square": 8, "plaza": 1}
SLICE_S = 0.5
SLICES = 3
MIB = 1024 * 1024


class Soaked:
    """A server's process, and the clients of the measured load."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, folder), daemon=True)
        self.process.start()
        theirs.close()
        self.url: str = _answer(self._pipe)
        self._sessions: list[ClientSession] = []
        self.rooms: dict[str, list[ClientRoom]] = {kind: [] for kind in LONG}

    async def open(self) -> None:
        """Let the clients of the measured load in; they stay."""
        for kind, clients in MEASURED_CLIENTS.items():
            for _ in range(clients):
                session = await holdfast.connect(self.url, messages=MESSAGES)
                self._sessions.append(session)
                self.rooms[kind].append(await session.join_or_create(kind))

    @property
    def sessions(self) -> int:
        """Of the measured load."""
        return len(self._sessions)

    def read(self, word: str = "read") -> Reading:
        """What it costs now."""
        self._pipe.send(word)
        reading: Reading = _answer(self._pipe)
        return reading

    async def cpu_per_message(self, kind: str) -> float:
        """Of a short load in rooms of this kind."""
        before, until = self.read(), time.monotonic() + SLICE_S
        await asyncio.gather(*(_echo(room, until) for room in self.rooms[kind]))
        after = self.read()
        return (after.cpu_s - before.cpu_s) / (after.applied - before.applied)

    async def close(self) -> None:
        """End it in order."""
        for session in self._sessions:
            await session.close()
        self._pipe.send("stop")
        await asyncio.to_thread(self.process.join, 30.0)
        self.process.kill()


async def _echo(room: ClientRoom, until: float) -> None:
    while time.monotonic() < until:
        await room.send(Say("x" * 32))
        while not isinstance(await room.receive(), Say):
            pass


def _answer(pipe: Connection) -> Any:
    if not pipe.poll(SETTLE_S):
        raise TimeoutError("a process of the soak does not answer")
    return pipe.recv()


class Soak:
    """One run."""

    def __init__(self, soaked: Soaked, reference: Soaked, crowd: Connection) -> None:
        self._soaked = soaked
        self._reference = reference
        self._crowd = crowd
        self._began_at = time.monotonic()
        self.rows: list[Row] = []
        self.counts: Counter[str] = Counter()
        self.is_unsettled = False

    async def round(self) -> None:
        """Churn, settle, read, measure."""
        self._crowd.send(LIVES)
        counts = await asyncio.to_thread(_patient_answer, self._crowd)
        self.counts.update(counts)
        reading = await self._settled()
        cpu = {kind: await self._beside_reference(kind) for kind in LONG}
        minute = (time.monotonic() - self._began_at) / 60
        row = Row(minute, reading.memory_bytes, reading.store_bytes, reading.descriptors, reading.tasks, *cpu.values())
        self.rows.append(row)
        print(_line(row, counts), flush=True)

    async def _settled(self) -> Reading:
        """The churned server with nobody left but the clients of the measured load."""
        deadline = time.monotonic() + SETTLE_S
        while (reading := self._soaked.read("settled")).sessions > self._soaked.sessions:
            if time.monotonic() > deadline:
                self.is_unsettled = True
                print(f"{reading.sessions - self._soaked.sessions} sessions do not end", file=sys.stderr)
                break
            await asyncio.sleep(0.5)
        return reading

    async def _beside_reference(self, kind: str) -> float:
        ratios: list[float] = []
        for _ in range(SLICES):
            soaked = await self._soaked.cpu_per_message(kind)
            reference = await self._reference.cpu_per_message(kind)
            ratios.append(soaked / reference)
        return median(ratios)


def _patient_answer(pipe: Connection) -> dict[str, int]:
    if not pipe.poll(ROUND_S):
        raise TimeoutError("the players do not come to an end")
    counts: dict[str, int] = pipe.recv()
    return counts


HEAD = "minute   memory    store  fds tasks  CPU/msg × reference   sessions  joins   cuts  heard errors\n" + (
    "            MiB      KiB             memory    commit"
)


def _line(row: Row, counts: dict[str, int]) -> str:
    told = [counts.get(name, 0) for name in ("sessions", "joins", "cuts", "heard", "errors")]
    return (
        f"{row.minute:6.1f} {row.memory_bytes / MIB:8.1f} {row.store_bytes / 1024:8.0f} {row.descriptors:4.0f}"
        f" {row.tasks:5.0f} {row.cpu_memory:8.2f} {row.cpu_commit:9.2f}   "
        f" {told[0]:8,} {told[1]:6,} {told[2]:6,} {told[3]:6,} {told[4]:6,}"
    )


def _tell(soak: Soak) -> int:
    """The verdict in words; the exit code."""
    print("\nin all: " + ", ".join(f"{count:,} {name}" for name, count in sorted(soak.counts.items())))
    found = findings(soak.rows)
    if not found:
        print(f"too short for a verdict: {len(soak.rows)} of {READINGS_MIN} readings")
    for each in found:
        word = "flat" if each.is_flat else "GROWN"
        print(f"{each.name:26} {each.before:14,.2f} → {each.after:14,.2f}  {each.growth:+7.1%}  {word}")
    has_grown = any(not each.is_flat for each in found)
    if found and not has_grown:
        print(f"nothing has grown by more than {GROWTH_MAX:.0%} over the second half")
    return 1 if has_grown or soak.counts["errors"] or soak.is_unsettled else 0


@contextmanager
def _crowd(url: str, players: int, seed: int) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=churn, args=(theirs, url, players, seed), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join()


async def _soak(minutes: float, players: int, seed: int) -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-soak-") as name:
        folder = Path(name)
        soaked, reference = Soaked(folder / "soaked"), Soaked(folder / "reference")
        await soaked.open()
        await reference.open()
        with _crowd(soaked.url, players, seed) as crowd:
            soak = Soak(soaked, reference, crowd)
            print(HEAD, flush=True)
            until = time.monotonic() + 60 * minutes
            try:
                while time.monotonic() < until:
                    await soak.round()
            except asyncio.CancelledError:
                print("\nended early")
        await soaked.close()
        await reference.close()
        return _tell(soak)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--players", type=int, default=40, help="how many come and go at a time")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return asyncio.run(_soak(options.minutes, options.players, options.seed))


if __name__ == "__main__":
    sys.exit(main())
