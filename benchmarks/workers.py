"""What do workers cost? Messages for each second of CPU, of all processes together, with one worker and with two.

Each client echoes messages flat out. In rooms of one, every room is on the worker that its player came to. In rooms of
eight, the players came to any worker, and in the worst case all of a room came to the other one: their connections are
passed to the room's worker, and measured is what comes afterwards. What cannot be passed, TLS above all, is relayed;
that is measured too. From these, the share of a core that many workers would keep is calculated.

    python -m benchmarks.workers [--clients 120] [--messages 30000] [--rounds 3]
"""

import argparse
import asyncio
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import uvloop
from msgspec import Raw
from rich.console import Console
from rich.table import Table

from benchmarks.clients import HoldfastClient
from benchmarks.systems import ROOT
from holdfast.cluster.parent import ends_with_this_process
from holdfast.core.codec import MSGPACK
from holdfast.core.limits import Limits
from holdfast.schemas.frames import Close, FromServer, Reply, Request
from holdfast.testing import UNLIMITED

SEATS = 8
AT_ONCE = 20
PATIENCE_S = 120.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_GAME = """
from holdfast import Message, PlayerData, Room, on

class Say(Message):
    text: str

class Solo(Room[PlayerData]):
    max_players = 1

    @on(Say)
    def say(self, player, message):
        player.send(message)

class Table(Solo):
    max_players = 8

class Hall(Solo):
    max_players = 10_000
"""


class EchoClient(HoldfastClient):
    """A client that makes a room of a kind, or plays in one that is there already."""

    def __init__(self, kind: str, room: str = "") -> None:
        super().__init__()
        self._request = _joining(1, room) if room else Request(1, "create", Raw(MSGPACK.encode({"kind": kind})))

    def on_frame(self, frame: FromServer, size: int) -> None:
        """As of any client; of a room that was made, join it."""
        if isinstance(frame, Reply) and frame.problem is None and self._request.operation == "create":
            self._request = _joining(2, _room_of(frame.result))
            self.tell(self._request)
        elif not isinstance(frame, Close):
            super().on_frame(frame, size)

    @property
    def local_port(self) -> int:
        """Its end of the connection."""
        assert self.transport is not None
        name: Any = self.transport.underlying_transport.get_extra_info("sockname")
        return int(name[1])


def _room_of(result: Any) -> str:
    info = msgspec.msgpack.decode(result) if isinstance(result, Raw | bytes) else result
    return str(info["id"])


def _joining(number: int, room: str) -> Request:
    return Request(number, "join", Raw(MSGPACK.encode({"room": room})))


class WorkerGroup:
    """`holdfast serve --workers`, as the system sees it."""

    def __init__(self, workers: int, *, passes: bool) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
        (self._folder / "game.py").write_text(_GAME, "utf-8")
        command = [sys.executable, "-m", "holdfast", "serve", "game.py", "--port", "0", "--tcp-port", "0", "--no-http"]
        self._process = subprocess.Popen(
            [
                *command,
                "--workers",
                str(workers),
                *_no_limits(),
                "--limit",
                f"relay_settled_s={0.1 if passes else 'inf'}",
            ],
            cwd=self._folder,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            start_new_session=True,
            preexec_fn=ends_with_this_process(),  # noqa: PLW1509 - no other thread holds a lock that it needs
        )
        said = ""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said += line
            if line.startswith("Press"):
                break
        else:
            raise RuntimeError(f"it did not start: {said}")
        [port] = re.findall(r"ws://[\d.]+:(\d+)", said)
        self.port = int(port)
        self.workers = {int(pid): name for name, pid in re.findall(r"(\S+) \(pid (\d+)\)", said)}
        [self.nats] = [pid for pid in self._children() if pid not in self.workers]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        shutil.rmtree(self._folder)

    def _children(self) -> list[int]:
        task = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(pid) for pid in task.read_text("ascii").split()]

    def cpu_s(self) -> dict[str, float]:
        """By what: the workers, the NATS server, the supervisor."""
        return {
            "workers": sum(map(_cpu_s, self.workers)),
            "nats": _cpu_s(self.nats),
            "supervisor": _cpu_s(self._process.pid),
        }

    def holder_of(self, local_port: int) -> int:
        """The worker that has the connection from a local port."""
        there, here = f":{self.port:04X}", f":{local_port:04X}"
        inode = ""
        for line in Path("/proc/net/tcp").read_text("ascii").splitlines():
            row = line.split()
            if row[1].endswith(there) and row[2].endswith(here):
                inode = f"socket:[{row[9]}]"
        for pid in self.workers:
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(FileNotFoundError):
                    if str(descriptor.readlink()) == inode:
                        return pid
        raise RuntimeError(f"nobody has the connection from {local_port}")


def _cpu_s(pid: int) -> float:
    row = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(row[11]) + int(row[12])) / _TICKS_PER_S


def _no_limits() -> list[str]:
    """What makes a server accept a load that one machine makes."""
    options = []
    for limit in fields(Limits):
        value = getattr(UNLIMITED, limit.name)
        if isinstance(value, int | float) and value != getattr(Limits(), limit.name):
            options += ["--limit", f"{limit.name}={value}"]
    return options


class Figures(msgspec.Struct):
    """Of one round."""

    per_cpu_s: float
    nats_share: float
    spread: list[int]
    """How many connections each worker has."""


async def echo(group: WorkerGroup, clients: list[EchoClient], messages: int) -> Figures:
    """Messages and their answers for each second of CPU."""
    each = max(1, messages // len(clients))
    await _flat_out(clients, each // 10 + 1)
    before = group.cpu_s()
    await _flat_out(clients, each)
    used = {name: seconds - before[name] for name, seconds in group.cpu_s().items()}
    holders = Counter(group.holder_of(client.local_port) for client in clients)
    total_s = sum(used.values())
    spread = [holders.get(pid, 0) for pid in group.workers]
    return Figures(each * len(clients) / total_s, used["nats"] / total_s, spread)


async def _flat_out(clients: list[EchoClient], each: int) -> None:
    for client in clients:
        client.waits = None
        client.prepare(each)
        client.expect(each, is_paced=False)
    for client in clients:
        client.say()
    async with asyncio.timeout(PATIENCE_S):
        for client in clients:
            await client.done.wait()


async def joined(group: WorkerGroup, count: int, kind: str, room: str = "") -> list[EchoClient]:
    """So many clients, each in a room."""
    found: list[EchoClient] = []
    while len(found) < count:
        some = [EchoClient.open(group.port, kind=kind, room=room) for _ in range(min(AT_ONCE, count - len(found)))]
        found += [client for client in await asyncio.gather(*some) if isinstance(client, EchoClient)]
    return found


async def tables(group: WorkerGroup, count: int) -> tuple[list[EchoClient], dict[str, int]]:
    """So many clients in full rooms, and the rooms' workers; who makes one and who joins it came to any worker."""
    found: list[EchoClient] = []
    homes: dict[str, int] = {}
    while len(found) < count:
        [first] = await joined(group, 1, "table")
        homes[first.room] = group.holder_of(first.local_port)
        found += [first, *await joined(group, SEATS - 1, "table", first.room)]
    return found, homes


async def elsewhere(group: WorkerGroup, count: int) -> tuple[list[EchoClient], dict[str, int]]:
    """So many clients in a room that is on another worker than any of them came to, and its worker."""
    [first] = await joined(group, 1, "hall")
    home = group.holder_of(first.local_port)
    found: list[EchoClient] = []
    while len(found) < count:
        for client in await joined(group, AT_ONCE, "hall", first.room):
            # Nothing of its own was said yet that would pass it on.
            if group.holder_of(client.local_port) == home or len(found) == count:
                client.cut()
            else:
                found.append(client)
    return found, {first.room: home}


async def passed(group: WorkerGroup, clients: list[EchoClient], homes: dict[str, int]) -> None:
    """Until each client is connected to the worker of its room."""
    async with asyncio.timeout(PATIENCE_S):
        while any(group.holder_of(client.local_port) != homes[client.room] for client in clients):
            await _flat_out(clients, 5)
            await asyncio.sleep(0.2)


async def measure(case: str, workers: int, clients: int, messages: int) -> Figures:
    """One round of one case."""
    with WorkerGroup(workers, passes=case != "relayed") as group:
        if case == "own":
            load = await joined(group, clients, "solo")
        else:
            load, homes = await (tables if case == "table" else elsewhere)(group, clients)
            if case != "relayed":
                await passed(group, load, homes)
        figures = await echo(group, load, messages)
        for client in load:
            client.cut()
    return figures


CASES = {
    "one worker": ("own", 1),
    "two, rooms of one": ("own", 2),
    f"two, rooms of {SEATS}": ("table", 2),
    "two, all came to the other one": ("passed", 2),
    "two, all relayed": ("relayed", 2),
}


def main() -> None:
    """Take turns, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=120)
    parser.add_argument("--messages", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[Figures]] = {name: [] for name in CASES}
    for _ in range(options.rounds):
        for name, (case, workers) in CASES.items():
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                found[name].append(runner.run(measure(case, workers, options.clients, options.messages)))
    show(found)


def show(found: dict[str, list[Figures]]) -> None:
    """The tables."""
    console = Console()
    median = {name: statistics.median(each.per_cpu_s for each in rounds) for name, rounds in found.items()}
    base = median["one worker"]
    table = Table("", "messages per CPU-second", "of one worker", "NATS's share", "connections of each worker")
    for name, rounds in found.items():
        table.add_row(
            name,
            f"{median[name]:,.0f}",
            f"{median[name] / base:.2f}",
            f"{statistics.median(each.nats_share for each in rounds):.0%}",
            "; ".join(" + ".join(map(str, each.spread)) for each in rounds),
        )
    console.print(table)
    own, there, relayed = (1 / median[f"two, {case}"] for case in ("rooms of one", f"rooms of {SEATS}", "all relayed"))
    console.print("Calculated: messages per second of all cores, as a multiple of one worker's.")
    curve = Table("workers", "rooms of one", f"rooms of {SEATS}", f"rooms of {SEATS}, all relayed that came elsewhere")
    for workers in (1, 2, 4, 8, 16, 32):
        away = (SEATS - 1) / SEATS * (workers - 1) / workers
        costs = (own, there, own + away * (relayed - own))
        curve.add_row(str(workers), *(f"{workers / cost / base:.1f}" for cost in costs))
    console.print(curve)


if __name__ == "__main__":
    main()
