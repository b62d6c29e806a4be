"""A server process on one core and its clients on another: how to start, load and read them."""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import uvloop

from benchmarks.clients import Client
from benchmarks.game import Delays, Game, Memory
from benchmarks.systems import ROOT, System, environment

# So many sign in at a time.
AT_ONCE = 50
ECHOED_S = 120.0
# More than anybody will say.
UNENDING = 1 << 60

T = TypeVar("T")


class ServerFailed(Exception):
    """A server did not start, or is gone."""


def cores() -> tuple[int | None, int | None]:
    """The core of the server and that of the load; the same for both only if there is no other."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    return min(_ALL_CORES), max(_ALL_CORES)


_ALL_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
MAY_SPIN = len(_ALL_CORES) > 1
"""Whether the load has a core of its own."""


def pin(process: int, core: int | None) -> None:
    """Keep a process on one core, where the system allows it."""
    if core is not None:
        os.sched_setaffinity(process, {core})


def run(main: Coroutine[Any, Any, T], *, core: int | None = None) -> T:
    """Run the load, on uvloop and on its own core, or whatever else on another."""
    pin(0, cores()[1] if core is None else core)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)
    finally:
        if _ALL_CORES:
            os.sched_setaffinity(0, _ALL_CORES)


class ServerProcess:
    """A server in a process of its own, which the operating system is asked about."""

    def __init__(self, system: System, game: Game) -> None:
        # A pipe that nobody reads would fill.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the process lives
        self._process = subprocess.Popen(
            system.command(game),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env=environment(system.folder),
            # Ctrl-C is for the runner, which ends its servers.
            start_new_session=True,
        )
        pin(self._process.pid, cores()[0])
        self.port = int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.stop()
            self._errors.seek(0)
            last = (self._errors.read().strip().splitlines() or ["it said nothing"])[-1]
            raise ServerFailed(f"the server ended: {last}")
        return line

    def cpu_s(self) -> float:
        """The CPU time of all its threads."""
        # Linux's number for the CPU clock of another process.
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def memory(self) -> Memory:
        """What its allocator has handed out, when its garbage is collected."""
        return msgspec.json.decode(self._asked("memory"), type=Memory)

    def delays(self) -> Delays:
        """How long its event loop was busy at a time, since it was asked last; only a server in Python knows."""
        return msgspec.json.decode(self._asked("delays"), type=Delays)

    def _asked(self, question: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        return self._line()

    def rss_kib(self) -> float:
        """What the operating system has given to it, when its garbage is collected."""
        self.memory()
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1024

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Contestant:
    """One server and its clients; `async with` ends both."""

    def __init__(self, system: System, game: Game) -> None:
        self.system = system
        self.server = ServerProcess(system, game)
        self.clients: list[Client] = []

    async def __aenter__(self) -> "Contestant":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server, and with it the connections."""
        for client in self.clients:
            client.cut()
        self.server.stop()

    async def join(self, count: int, **options: Any) -> list[Client]:
        """So many more clients, which have a seat when this returns."""
        joined: list[Client] = []
        while len(joined) < count:
            some = min(AT_ONCE, count - len(joined))
            opening = (self.system.client.open(self.server.port, **options) for _ in range(some))
            joined += await asyncio.gather(*opening)
        self.clients += joined
        return joined

    async def flat_out(self, messages: int) -> float:
        """Microseconds of server CPU per message, when each client sends its next one as the last comes back."""
        each = max(1, messages // len(self.clients))
        for client in self.clients:
            client.waits = None
            client.prepare(each)
            client.expect(each, is_paced=False)
        began_s = self.server.cpu_s()
        spinning = asyncio.create_task(_never_sleep())
        for client in self.clients:
            client.say()
        await self.all_done()
        spinning.cancel()
        return (self.server.cpu_s() - began_s) / (each * len(self.clients)) * 1e6

    async def paced(self, per_s: float, seconds: float) -> "Paced":
        """So many messages a second, whatever the server does: each has a time at which it is due.

        The wait for an answer is counted from that time, so that a server that stalls does not hide what it delays.
        """
        waits: list[float] = []
        count = len(self.clients)
        total = int(per_s * seconds)
        for number, client in enumerate(self.clients):
            client.waits = waits
            client.expect(total // count + (number < total % count), is_paced=True)
        began_s, began_at, sent = self.server.cpu_s(), time.perf_counter(), 0
        while sent < total:
            for number in range(sent, min(total, int((time.perf_counter() - began_at) * per_s) + 1)):
                self.clients[number % count].say_due(began_at + number / per_s)
                sent = number + 1
            # With a core of its own the load does not sleep: waking it would be charged to the server.
            await asyncio.sleep(0 if MAY_SPIN else 0.0005)
        spinning = asyncio.create_task(_never_sleep())
        await self.all_done()
        spinning.cancel()
        return self._paced(waits, began_s, began_at)

    async def crowded(self, each: int, seconds: float) -> "Paced":
        """As fast as it answers, with so many messages on their way for each client."""
        waits: list[float] = []
        for client in self.clients:
            client.waits = waits
            client.expect(UNENDING, is_paced=True)
        began_s, began_at = self.server.cpu_s(), time.perf_counter()
        while time.perf_counter() - began_at < seconds:
            for client in self.clients:
                while client.in_flight < each:
                    client.say_due(time.perf_counter())
            await asyncio.sleep(0)
        async with asyncio.timeout(ECHOED_S):
            while any(client.in_flight for client in self.clients):  # noqa: ASYNC110 - an event would cost per message
                await asyncio.sleep(0.001)
        return self._paced(waits, began_s, began_at)

    def _paced(self, waits: list[float], began_s: float, began_at: float) -> "Paced":
        took_s = time.perf_counter() - began_at
        waits.sort()
        total = len(waits)
        return Paced(
            cpu_us=(self.server.cpu_s() - began_s) / total * 1e6,
            per_s=total / took_s,
            p50_ms=waits[total // 2] * 1e3,
            p99_ms=waits[total * 99 // 100] * 1e3,
        )

    async def deliveries(self, seconds: float) -> "Delivered":
        """What the server used while it ticked, for each message that a client got."""
        began_s, began_at = self.server.cpu_s(), time.perf_counter()
        messages, size = self._received()
        await asyncio.sleep(seconds)
        after, size_after = self._received()
        delivered = max(1, after - messages)
        return Delivered(
            cpu_us=(self.server.cpu_s() - began_s) / delivered * 1e6,
            bytes=(size_after - size) / delivered,
            per_s=delivered / (time.perf_counter() - began_at),
        )

    def _received(self) -> tuple[int, int]:
        return sum(client.received for client in self.clients), sum(client.bytes for client in self.clients)

    async def all_done(self) -> None:
        """Until every client has got what it expects."""
        async with asyncio.timeout(ECHOED_S):
            for client in self.clients:
                await client.done.wait()


async def _never_sleep() -> None:
    """Keep this process awake: waking a sleeping reader is the dearest part of a send, and would be charged only to
    servers that are slower than the load."""
    while MAY_SPIN:  # noqa: ASYNC110 - the spinning is the point
        await asyncio.sleep(0)


class Paced(msgspec.Struct):
    """Of one round of messages and answers."""

    cpu_us: float
    per_s: float
    p50_ms: float
    p99_ms: float


class Delivered(msgspec.Struct):
    """Of one round of ticks."""

    cpu_us: float
    bytes: float
    per_s: float
