"""How long do the slowest answers take while everything happens at once, and what makes them slow?

A thousand players are in rooms that tick at 20 Hz; players at tables on disk make moves; players join, vanish, or are
cut off and resume; others search for rooms; the metrics are scraped and a dashboard is open. Some of the players say
something, each message due at a moment of its own: its answer is counted from then, whatever the server does. A
thread in the server looks at what its event loop is busy with whenever that takes longer than 5 ms.

    python -m benchmarks.tail [--clients 1000] [--rate 1000] [--seconds 20] [--rounds 3]
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

import holdfast
from benchmarks.clients import HoldfastClient
from benchmarks.contest import cores, pin
from benchmarks.game import Stall
from benchmarks.rounds import Rounds, alone
from benchmarks.systems import ROOT, environment
from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import Request

AT_ONCE = 50
SETTLE_S = 2.0
# Of the answers that are not there when the last message was due.
LAST_S = 10.0


class Sizes(msgspec.Struct):
    """The options."""

    clients: int = 1_000
    """Players in rooms that tick."""
    speakers: int = 100
    """So many of them say something …"""
    rate: int = 1_000
    """… so often a second, together."""
    tables: int = 50
    """Rooms of four players on disk."""
    moves: int = 100
    """A second, at all tables."""
    churn: int = 10
    """So many players a second vanish, and as many join."""
    cuts: int = 10
    """So many players a second are cut off, and resume."""
    searches: int = 20
    """A second."""
    seconds: float = 20.0


SIZES = Sizes()


def measure(sizes: Sizes, rounds: Rounds) -> None:
    """Play the rounds, and tell what the slowest turns of the loop did."""
    stalls: list[Stall] = []

    async def play() -> None:
        with tempfile.TemporaryDirectory() as folder:
            mix = Mix(sizes, folder)
            try:
                waits = await mix.play()
                found = mix.stalls()
            finally:
                mix.stop()
        stalls.extend(found)
        waits.sort()
        for name, share in {"mixed_p50_ms": 0.5, "mixed_p99_ms": 0.99, "mixed_p999_ms": 0.999}.items():
            rounds.figures.add(name, "holdfast", waits[int(len(waits) * share)] * 1e3)
        rounds.figures.add("mixed_longest_ms", "holdfast", waits[-1] * 1e3)
        rounds.figures.add("mixed_loop_longest_ms", "holdfast", max((each.ms for each in found), default=0.0))
        rounds.figures.add("mixed_loop_cpu_ms", "holdfast", max((each.cpu_ms for each in found), default=0.0))

    rounds.alone(play)
    for line in causes(stalls):
        rounds.tell(line)


def causes(stalls: list[Stall]) -> list[str]:
    """What used the CPU for longest, and what was seen in all of them."""
    lines = []
    for stall in sorted(stalls, key=lambda stall: -stall.cpu_ms)[:5]:
        seen = ", ".join(f"{cause} ({count})" for cause, count in Counter(stall.seen).most_common(3))
        lines.append(f"busy for {stall.ms:.1f} ms, {stall.cpu_ms:.1f} ms on the CPU: {seen or 'nothing was seen'}")
    total: Counter[str] = Counter()
    for stall in stalls:
        total.update(stall.seen)
    if not total:
        return [*lines, "the loop was never busy for 5 ms"]
    seen = "; ".join(f"{count / total.total():.0%} {cause}" for cause, count in total.most_common(8))
    return [*lines, f"busy for 5 ms or longer {len(stalls)} times; seen then: {seen}"]


class Searcher(HoldfastClient):
    """Asks, and does not wait for the answer."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = 1

    def search(self) -> None:
        """One page of the rooms with a free seat, the fullest first."""
        self._asked += 1
        arguments = {"kind": "arena", "where": "open_seats > 0", "order_by": ["players desc"], "limit": 20}
        self.tell(Request(self._asked, "search", Raw(MSGPACK.encode(arguments))))


class Mix:
    """The server, and everything that happens to it."""

    def __init__(self, sizes: Sizes, folder: str) -> None:
        self._sizes = sizes
        self._errors = Path(folder, "errors").open("w+")  # noqa: SIM115 - open as long as the process lives
        self._server = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.tail_server", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env=environment(),
            start_new_session=True,
        )
        pin(self._server.pid, cores()[0])
        self._port, self._http_port = map(int, self._line().split())
        self._players: list[HoldfastClient] = []
        self._sessions: list[holdfast.ClientSession] = []
        self._searcher: Searcher | None = None
        self._resumed = 0
        self._scraped = 0
        self._events = 0

    def _line(self) -> str:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"the server ended: {self._errors.read()[-2000:]}")
        return line

    def stalls(self) -> list[Stall]:
        """Since it was asked last."""
        assert self._server.stdin is not None
        self._server.stdin.write("stalls\n")
        self._server.stdin.flush()
        return msgspec.json.decode(self._line(), type=list[Stall])

    def stop(self) -> None:
        """End the server at once: it would tell everybody."""
        self._server.kill()
        self._server.wait()
        self._errors.close()

    async def play(self) -> list[float]:
        """Everything at once; how long each answer took."""
        sizes = self._sizes
        speakers = await self._join(sizes.speakers)
        self._players = await self._join(sizes.clients - sizes.speakers)
        tables = await self._join(4 * sizes.tables, kind="table")
        self._searcher = searcher = await self._opened(Searcher)
        self._sessions = [await self._session() for _ in range(2 * sizes.cuts)]
        await asyncio.sleep(SETTLE_S)
        self.stalls()
        waits: list[float] = []
        for each in speakers:
            each.waits = waits
            each.expect(1 << 60, is_paced=True)
        beside: list[Coroutine[Any, Any, None]] = [
            self._each_second(sizes.moves, lambda n: tables[n % len(tables)].say()),
            self._each_second(sizes.searches, lambda _: searcher.search()),
            self._each_second(sizes.cuts, lambda n: self._sessions[n % len(self._sessions)].cut()),
            self._churn(),
            self._scrape(),
            self._watch(),
        ]
        tasks = [asyncio.create_task(each) for each in beside]
        await self._speak(speakers, waits)
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
        assert self._resumed, "nobody has resumed"
        assert self._scraped, "nothing was scraped"
        assert self._events, "the dashboard has seen nothing"
        for session in self._sessions:
            await session.close()
        return waits

    async def _speak(self, speakers: list[HoldfastClient], waits: list[float]) -> None:
        sizes, began_at, sent = self._sizes, time.perf_counter(), 0
        total = int(sizes.rate * sizes.seconds)
        while sent < total:
            for number in range(sent, min(total, int((time.perf_counter() - began_at) * sizes.rate) + 1)):
                speakers[number % len(speakers)].say_due(began_at + number / sizes.rate)
                sent = number + 1
            await asyncio.sleep(0.0005)
        async with asyncio.timeout(LAST_S):
            while len(waits) < total:  # noqa: ASYNC110 - an event would cost per message
                await asyncio.sleep(0.01)

    async def _each_second(self, per_s: int, act: Callable[[int], None]) -> None:
        number = 0
        while True:
            act(number)
            number += 1
            await asyncio.sleep(1 / per_s)

    async def _join(self, count: int, kind: str = "arena") -> list[HoldfastClient]:
        joined: list[HoldfastClient] = []
        while len(joined) < count:
            some = min(AT_ONCE, count - len(joined))
            joined += await asyncio.gather(*(self._opened(HoldfastClient, kind=kind) for _ in range(some)))
        return joined

    async def _opened(self, client: Any, **options: Any) -> Any:
        return await client.open(self._port, **options)

    async def _session(self) -> holdfast.ClientSession:
        session = await holdfast.connect(f"ws://127.0.0.1:{self._port}")
        session.on_resume(self._has_resumed)
        await session.join_or_create("arena")
        return session

    def _has_resumed(self, _: object) -> None:
        self._resumed += 1

    async def _churn(self) -> None:
        while True:
            self._players.pop(0).cut()
            [joined] = await self._join(1)
            self._players.append(joined)
            await asyncio.sleep(1 / self._sizes.churn)

    async def _scrape(self) -> None:
        """As Prometheus does, but more often."""
        while True:
            reader, writer = await self._asked("/metrics")
            assert b"holdfast_sessions" in await reader.read()
            writer.close()
            self._scraped += 1
            await asyncio.sleep(1.0)

    async def _watch(self) -> None:
        """As an open dashboard does."""
        reader, writer = await self._asked("/v1/overview/live")
        try:
            while await reader.read(1 << 16):
                self._events += 1
        finally:
            writer.close()

    async def _asked(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._http_port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        return reader, writer


if __name__ == "__main__":
    alone(sys.modules[__name__])
