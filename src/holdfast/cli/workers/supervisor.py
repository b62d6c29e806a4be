"""The parent process of `holdfast serve --workers`: it has the ports, a NATS server, and replaces workers that die.

It never loads the game. Its sockets stay open while a worker is away, and the other workers accept from them meanwhile:
no client is turned away.
"""

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holdfast.cli.workers.orders import ListenAlso, Loaded, Order, Serving, Start, Stop, line_of, read_report
from holdfast.cluster.child_nats import ChildNats, pause_s
from holdfast.cluster.parent import ends_with_this_process
from holdfast.logs import get_logger

log = get_logger("holdfast.workers")

_LASTED_S = 10.0
"""A worker that lived as long did not die of how it was started."""
_STOP_S = 15.0
"""How long the workers may take to save and to close their connections, after they have drained."""
_LINE_BYTES_MAX = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """What to run."""

    command: Sequence[str]
    """Of a worker, without its number."""
    names: Sequence[str]
    sockets: Mapping[str, Sequence[Sequence[socket.socket]]]
    """By transport, those of each worker."""
    http: Sequence[Sequence[socket.socket]]
    """Of the HTTP API: those of each worker, the first of which all of them share."""
    drain_s: float
    links: int | None
    """The descriptor of a folder for the sockets with which the workers are linked."""
    open_cluster: Callable[[bool], "ChildNats | str"]
    """The cluster's address, or the NATS server that it will have; called with whether there are durable rooms."""
    announce: Callable[[Loaded, Serving, Sequence[str]], None]
    """Print what the first worker says, and who they all are."""


class WorkerFailed(Exception):
    """A worker ended before it served; it has said why."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class WorkerProcess:
    """One process, from its start to its end."""

    def __init__(self, name: str) -> None:
        self.name = name
        loop = asyncio.get_running_loop()
        self.loaded: asyncio.Future[Loaded] = loop.create_future()
        self.ready: asyncio.Future[Serving] = loop.create_future()
        self.started_at = loop.time()
        self._process: Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_ready(self) -> bool:
        return self.ready.done() and self._opened.returncode is None

    @property
    def pid(self) -> int:
        return self._opened.pid

    @property
    def _opened(self) -> Process:
        assert self._process is not None, "it was not started"
        return self._process

    async def start(self, command: Sequence[str], descriptors: Sequence[int]) -> None:
        """Start it; it inherits the listening sockets with these numbers."""
        ours, theirs = socket.socketpair()
        with theirs:
            # In a session of its own, so that Ctrl-C reaches only the supervisor.
            self._process = await asyncio.create_subprocess_exec(
                *command,
                f"--worker={theirs.fileno()}:{self.name}",
                stdin=DEVNULL,
                pass_fds=(theirs.fileno(), *descriptors),
                start_new_session=True,
                preexec_fn=ends_with_this_process(),
            )
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=_LINE_BYTES_MAX)
        self._reading = asyncio.create_task(self._read(reader), name=f"{self.name} reports")

    def tell(self, order: Order) -> None:
        """Tell it, if it is still there."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(line_of(order))

    async def ended(self) -> int:
        """Its exit code; 0 if it was not started."""
        return 0 if self._process is None else await self._process.wait()

    async def when(self, report: "asyncio.Future[Any]") -> None:
        """Wait for a report; `WorkerFailed` if it ends before."""
        ending = asyncio.create_task(self.ended())
        await first_of(report, ending)
        if not report.done():
            raise WorkerFailed(ending.result())
        ending.cancel()

    def kill(self) -> None:
        """End it, and what it has started."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """It has ended: forget its line."""
        if self._reading is not None:
            self._reading.cancel()
        if self._writer is not None:
            self._writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            async for line in reader:
                match read_report(line):
                    case Loaded() as loaded if not self.loaded.done():
                        self.loaded.set_result(loaded)
                    case Serving() as ready if not self.ready.done():
                        self.ready.set_result(ready)
                    case _:
                        continue


class WorkerSupervisor:
    """Runs the workers of one plan."""

    def __init__(self, plan: WorkerPlan) -> None:
        self._plan = plan
        self._nats: ChildNats | None = None
        self._cluster = ""
        self._workers: list[WorkerProcess] = []
        self._keeping: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Run until a signal; the exit code."""
        asked = self._on_signals()
        try:
            starting = asyncio.create_task(self._start())
            await first_of(starting, asked)
            if not starting.done():
                starting.cancel()
                await asyncio.wait([starting])
            else:
                starting.result()
            drains = await asked is signal.SIGTERM
            await self._stop(drains=drains)
        except WorkerFailed as failed:
            return failed.code if failed.code >= 0 else 1
        finally:
            await self._clean_up()
        return 0

    def _on_signals(self) -> "asyncio.Future[signal.Signals]":
        loop = asyncio.get_running_loop()
        asked: asyncio.Future[signal.Signals] = loop.create_future()

        def stop(number: signal.Signals) -> None:
            if not asked.done():
                asked.set_result(number)
                return
            # The second one: at once. The NATS server and the workers end with this process, where the system can do
            # that, and where it cannot, these do now.
            for worker in self._workers:
                worker.kill()
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._pass_on, signal.SIGHUP)
        return asked

    def _pass_on(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.is_ready:
                os.kill(worker.pid, number)

    # Starting

    async def _start(self) -> None:
        plan = self._plan
        # The first one finds out whether the game can be served at all: each would say the same.
        first = await self._new(0)
        await first.when(first.loaded)
        await self._open_cluster(first.loaded.result())
        first.tell(self._order_of(0))
        await first.when(first.ready)
        others = [await self._new(index) for index in range(1, len(plan.names))]
        for index, worker in enumerate(others, 1):
            worker.tell(self._order_of(index))
        for worker in others:
            await worker.when(worker.ready)
        for index in range(len(plan.names)):
            keeping = asyncio.create_task(self._keep(index), name=plan.names[index])
            self._keeping.add(keeping)
        whole = [f"{worker.name} (pid {worker.pid})" for worker in self._workers]
        plan.announce(first.loaded.result(), first.ready.result(), whole)

    async def _open_cluster(self, loaded: Loaded) -> None:
        opened = self._plan.open_cluster(loaded.has_durable_rooms)
        if isinstance(opened, str):
            self._cluster = opened
        else:
            self._nats = opened
            await opened.start()
            self._cluster = opened.url()

    async def _new(self, index: int) -> WorkerProcess:
        plan = self._plan
        worker = WorkerProcess(plan.names[index])
        self._workers[index : index + 1] = [worker]
        every = [sock.fileno() for shares in plan.sockets.values() for share in shares for sock in share]
        every += [sock.fileno() for shares in plan.http for sock in shares]
        if plan.links is not None:
            every.append(plan.links)
        await worker.start(plan.command, list(dict.fromkeys(every)))
        return worker

    def _order_of(self, index: int) -> Start:
        http = [sock.fileno() for sock in self._plan.http[index]]
        return Start(self._cluster, self._descriptors([index]), self._plan.links, http)

    def _descriptors(self, indexes: Sequence[int]) -> dict[str, list[int]]:
        return {
            name: [sock.fileno() for index in indexes for sock in shares[index]]
            for name, shares in self._plan.sockets.items()
        }

    # Replacing those that die

    async def _keep(self, index: int) -> None:
        loop = asyncio.get_running_loop()
        attempt = 0
        while True:
            worker = self._workers[index]
            code = await worker.ended()
            worker.close()
            self._share_out()
            if loop.time() - worker.started_at >= _LASTED_S:
                attempt = 0
            log.error("a worker has ended; another takes its place", node=worker.name, pid=worker.pid, why=_why(code))
            await asyncio.sleep(pause_s(attempt))
            attempt += 1
            heir = await self._new(index)
            heir.tell(self._order_of(index))
            with suppress(WorkerFailed):
                await heir.when(heir.ready)
                self._share_out()
                log.warning("a worker has been replaced", node=heir.name, pid=heir.pid)

    def _share_out(self) -> None:
        """Let those that serve accept the clients of those that do not."""
        away = [index for index, worker in enumerate(self._workers) if not worker.is_ready]
        order = ListenAlso(self._descriptors(away))
        for worker in self._workers:
            if worker.is_ready:
                worker.tell(order)

    # Stopping

    async def _stop(self, *, drains: bool) -> None:
        """Let all workers end at the same time, as one process would."""
        await self._forget_keeping()
        for worker in self._workers:
            if worker.is_ready:
                worker.tell(Stop(drains))
            else:
                worker.kill()
        endings = [asyncio.create_task(worker.ended()) for worker in self._workers]
        if endings:
            _, late = await asyncio.wait(endings, timeout=_STOP_S + (self._plan.drain_s if drains else 0.0))
            if late:
                log.error("workers did not end in time, and are killed", count=len(late))

    async def _clean_up(self) -> None:
        await self._forget_keeping()
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            await worker.ended()
            worker.close()
        if self._nats is not None:
            await self._nats.stop()

    async def _forget_keeping(self) -> None:
        keeping, self._keeping = self._keeping, set()
        for task in keeping:
            task.cancel()
        if keeping:
            await asyncio.wait(keeping)


async def first_of(*waiting: "asyncio.Future[Any]") -> None:
    """Wait until one of them is done."""
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)


def _why(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def own_command(arguments: Sequence[str]) -> list[str]:
    """This same command, for a worker to be told its number."""
    # -P: the current folder must not come before Python's own modules on the path.
    return [sys.executable, "-P", "-m", "holdfast", *arguments]
