"""Three real NATS servers and some nodes, as processes of this machine: to start, kill and ask."""

import asyncio
import re
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec
from tests.nats_cluster import NatsCluster
from tests.ports import free_ports

from benchmarks.systems import ROOT

PATIENCE_S = 120.0


def cpu_s(pid: int) -> float:
    """The CPU time of all threads of a process."""
    # Linux's number for the CPU clock of another process.
    return time.clock_gettime((~pid << 3) | 2)


class NodeProcess:
    """One life of a node."""

    def __init__(
        self, name: str, port: int, process: Process, tell: Callable[["NodeProcess", list[Any]], None]
    ) -> None:
        """`tell` hears every line."""
        self.name = name
        self.port = port
        self.arena = ""
        """The id of its room in memory."""
        self._process = process
        self._tell = tell
        self._lines: dict[str, asyncio.Queue[list[Any]]] = defaultdict(asyncio.Queue)
        self._reading = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            words = msgspec.json.decode(line)
            self._tell(self, words)
            if words[0] != "has":
                self._lines[words[0]].put_nowait(words[1:])

    async def heard(self, word: str) -> list[Any]:
        """The next line that begins so."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._lines[word].get()

    def ask(self, line: str) -> None:
        """Write a line to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def kill(self) -> float:
        """kill -9; when that was."""
        at = time.monotonic()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reading
        return at


class Rig:
    """A cluster with so many nodes; `async with` ends all of it."""

    def __init__(self, nodes: int = 3, *, is_clustered: bool = True, folder: Path | None = None) -> None:
        """`folder` is on a disk: what is acknowledged is written there. Without a cluster: nodes that know no other."""
        self._temporary = tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=folder)
        self._nats = NatsCluster(Path(self._temporary.name)) if is_clustered else None
        self._ports = free_ports(nodes)
        self.nodes: dict[str, NodeProcess] = {}
        self.owners: dict[str, tuple[str, float]] = {}
        """Where each durable room was saved first after it came there, and when."""
        self._has_news = asyncio.Event()

    async def __aenter__(self) -> Self:
        try:
            if self._nats is not None:
                await asyncio.to_thread(self._nats.start)
            for n in range(len(self._ports)):
                await self.start(f"node{n}")
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes.values():
            await node.kill()
        if self._nats is not None:
            self._nats.stop()
        self._temporary.cleanup()

    async def start(self, name: str) -> NodeProcess:
        """A node; it listens where an earlier one with this name did."""
        port = self._ports[int(name.removeprefix("node"))]
        url = self._nats.url("bench") if self._nats is not None else ""
        with (Path(self._temporary.name) / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "benchmarks.cluster_node", url, name, str(port)),
                cwd=ROOT,
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
            )
        node = self.nodes[name] = NodeProcess(name, port, process, self._told)
        try:
            [node.arena] = await node.heard("ready")
        except TimeoutError:
            raise RuntimeError(self.errors() or f"{name} does not get ready") from None
        return node

    def _told(self, node: NodeProcess, words: list[Any]) -> None:
        if words[0] == "has":
            self.owners[words[1]] = (node.name, words[2])
            self._has_news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Until this is true of the owners."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._has_news.clear()
                await self._has_news.wait()

    @property
    def urls(self) -> list[str]:
        """Where clients reach the nodes."""
        return [node.url for node in self.nodes.values()]

    def cpu_s(self) -> float:
        """Of all nodes."""
        return sum(cpu_s(node.pid) for node in self.nodes.values())

    def nats_cpu_s(self) -> float:
        """Of all NATS servers."""
        return sum(cpu_s(server.pid) for server in self._nats.servers) if self._nats is not None else 0.0

    def errors(self) -> str:
        """What the nodes have logged that is an error."""
        logs = (file.read_text() for file in sorted(Path(self._temporary.name).glob("*.log")))
        lines = (line for log in logs for line in log.splitlines())
        return "\n".join(line for line in lines if re.search("ERROR|Traceback|Error", line))
