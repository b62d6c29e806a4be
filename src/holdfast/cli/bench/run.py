"""One run of `holdfast bench`: its processes, what they are told, and what they have told so far."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import click
import msgspec

from holdfast.cli.bench.load import SETTLE_S, Load, run_load
from holdfast.cli.bench.server import run_server
from holdfast.cli.bench.tally import LoadTally, ServerReport

# A game may import much before it listens, and recover rooms from its store.
_START_S = 120.0
_REPLY_S = 10.0
_END_S = 15.0
_LOOK_S = 0.25
# The first seconds allocate what is allocated once, and open rooms: they are not measured.
WARM_UP_S = 2.0


@dataclass(frozen=True)
class BenchPlan:
    """What is asked for."""

    game: str
    url: str
    bot: str
    clients: int
    seconds: float
    drop_rate: float
    processes: int
    store: str | None
    seed: int


@dataclass
class Measured:
    """What there is so far."""

    phase: str = "start"
    took_s: float = 0.0
    """How long it was measured."""
    tally: LoadTally = field(default_factory=LoadTally)
    load_cpu_s: float = 0.0
    """Of all processes of the load, while it was measured."""
    server_cpu_s: float | None = None
    """The same of the server; None if it is not ours."""
    server: ServerReport | None = None
    """The server's last report."""
    players: int = 0
    """How many bots there were when it ended."""
    is_complete: bool = False
    """Whether it was not stopped before its time."""


class Worker:
    """A process and the pipe to it."""

    def __init__(self, name: str, target: Callable[..., None], *arguments: Any) -> None:
        self._name = name
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=target, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()
        self.tally = LoadTally()

    def say(self, word: str) -> None:
        """Tell it something, if it is still there."""
        try:
            self.pipe.send(word)
        except (BrokenPipeError, OSError):
            raise self._gone() from None

    def _gone(self) -> click.ClickException:
        return click.ClickException(f"The process of {self._name} has ended by itself; what it said is above.")

    def hear(self) -> tuple[str, Any]:
        """What it says next; a `ClickException` if it has failed."""
        try:
            word, content = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._gone() from None
        if word == "failed":
            raise click.ClickException(content)
        if word in {"tally", "settled", "ended"}:
            self.tally = msgspec.msgpack.decode(content, type=LoadTally)
        return word, content

    def report(self) -> ServerReport:
        """Of a server."""
        self.say("report")
        if not self.pipe.poll(_REPLY_S):
            raise click.ClickException(f"The server has not answered for {_REPLY_S:g} s.")
        return msgspec.msgpack.decode(self.hear()[1], type=ServerReport)

    def end(self) -> None:
        """Wait for its end; after a while, see to it."""
        self.pipe.close()
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class Run:
    """The server, if it is ours, and the processes of the load."""

    def __init__(self, plan: BenchPlan, folder: str, show: Callable[[Measured], None]) -> None:
        self._plan = plan
        self._folder = folder
        self._show = show
        self._server: Worker | None = None
        self._loads: list[Worker] = []
        self._began: tuple[float, float, ServerReport | None] | None = None
        self.measured = Measured()

    @contextmanager
    def processes(self) -> Iterator[None]:
        """They end with the block."""
        try:
            yield
        finally:
            for worker in (*self._loads, self._server):
                if worker is not None:
                    worker.end()

    def start(self) -> None:
        """Start the server and the load."""
        plan, url, cores = self._plan, self._plan.url, _cores()
        if not url:
            core = cores[0] if len(cores) > 1 else None
            self._server = Worker("the server", run_server, plan.game, plan.store, self._folder, core)
            if not self._server.pipe.poll(_START_S):
                raise click.ClickException(f"{plan.game} does not listen after {_START_S:g} s.")
            _, url = self._server.hear()
        for number in range(plan.processes):
            bots = plan.clients // plan.processes + (number < plan.clients % plan.processes)
            load = Load(url, plan.bot, number, plan.processes, bots, plan.drop_rate, plan.seed)
            self._loads.append(Worker("the load", run_load, load))

    def play(self) -> None:
        """Sign everybody in, warm up, and measure."""
        self.measured.phase = "sign in"
        # A bot that has failed is not waited for.
        self._look(lambda: self.measured.tally.signed_in + self.measured.tally.failed >= self._plan.clients)
        self.measured.phase = "warm up"
        ready_at = time.monotonic() + WARM_UP_S
        self._look(lambda: time.monotonic() >= ready_at)
        for worker in self._loads:
            worker.say("go")
        self.measured.phase = "measure"
        self._began = (time.monotonic(), self._load_cpu_s(), self._server.report() if self._server else None)
        ends_at = time.monotonic() + self._plan.seconds
        self._look(lambda: time.monotonic() >= ends_at)
        self.measured.is_complete = True

    def finish(self) -> None:
        """Stop the bots, wait until what they have sent is acknowledged, and read what became of it."""
        self._read_clocks()
        self.measured.phase = "settle"
        for worker in self._loads:
            worker.say("stop")
        self._until("settled", SETTLE_S + _REPLY_S)
        if self._server is not None:
            self.measured.server = self._server.report()
        for worker in self._loads:
            worker.say("end")
        self._until("ended", SETTLE_S + _REPLY_S)
        if self._server is not None:
            self._server.say("stop")

    def _read_clocks(self) -> None:
        if self._began is None:
            return
        began_at, load_cpu_s, server = self._began
        self.measured.took_s = time.monotonic() - began_at
        self.measured.players = (
            self.measured.tally.signed_in - self.measured.tally.finished - self.measured.tally.failed
        )
        self.measured.load_cpu_s = self._load_cpu_s() - load_cpu_s
        if self._server is not None and server is not None:
            self.measured.server = self._server.report()
            self.measured.server_cpu_s = self.measured.server.cpu_s - server.cpu_s

    def _load_cpu_s(self) -> float:
        return sum(worker.tally.cpu_s for worker in self._loads)

    def _look(self, is_over: Callable[[], bool]) -> None:
        """Show what the processes tell until something is true."""
        while not is_over():
            self._listen(_LOOK_S)
            if self._began is not None:
                self.measured.took_s = time.monotonic() - self._began[0]
            self._show(self.measured)

    def _listen(self, seconds: float) -> dict[Worker, str]:
        if self._server is not None and self._server.pipe.poll():
            # It speaks only when it is asked: it has failed, or is gone.
            self._server.hear()
        by_pipe: dict[Connection, Worker] = {worker.pipe: worker for worker in self._loads}
        heard = {}
        for pipe in wait(list(by_pipe), seconds):
            assert isinstance(pipe, Connection)
            heard[by_pipe[pipe]] = by_pipe[pipe].hear()[0]
        tally = LoadTally()
        for worker in self._loads:
            tally.merge(msgspec.msgpack.decode(msgspec.msgpack.encode(worker.tally), type=LoadTally))
        self.measured.tally = tally
        return heard

    def _until(self, word: str, seconds: float) -> None:
        """Until all processes of the load have said it, or have had the time to."""
        waiting, ends_at = set(self._loads), time.monotonic() + seconds
        while waiting and time.monotonic() < ends_at:
            waiting -= {worker for worker, said in self._listen(_LOOK_S).items() if said == word}


def _cores() -> list[int]:
    """The cores that this process may use, where the system lets a process choose."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def load_processes() -> int:
    """One less than there are cores: the server has one of its own."""
    return max(1, (len(_cores()) or os.cpu_count() or 2) - 1)
