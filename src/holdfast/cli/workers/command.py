"""`holdfast serve --workers N`: what becomes of its options."""

import asyncio
import os
import re
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import click
from rich.console import Console

from holdfast import Enet, Tcp, Udp, WebSocket
from holdfast.cli.options import ListenOptions, read_api_keys
from holdfast.cli.showing import show_facts
from holdfast.cli.workers.orders import Loaded, Serving
from holdfast.cli.workers.supervisor import WorkerPlan, WorkerSupervisor, own_command
from holdfast.cluster.child_nats import ChildNats, ChildNatsFailed
from holdfast.core.limits import Limits
from holdfast.http.api import bind as bind_http
from holdfast.transports import datagram_sockets
from holdfast.transports import listening as streams
from holdfast.transports.port import TransportLimits
from holdfast.transports.shared_port import share

AUTO = "auto"
WORKERS_MAX = 256


def worker_count(_: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """The number of an option: "auto" is one for each core that this process may use."""
    if value is None or value == AUTO:
        return None if value is None else _cores()
    if not value.isdecimal() or not 1 <= int(value) <= WORKERS_MAX:
        raise click.BadParameter(f"{value!r} is not a number from 1 to {WORKERS_MAX}, nor {AUTO!r}.", param=parameter)
    return int(value)


def _cores() -> int:
    # Linux knows those that this process may use.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, WORKERS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of `holdfast serve` that the supervisor needs itself."""

    game: str
    count: int
    data: Path | None
    temporary: Path | None
    """The folder of durable rooms that are not to be kept."""
    cluster: str | None
    name: str
    listening: ListenOptions
    http: tuple[str, int] | None
    own_http_port: int | None
    """The port on which the first worker serves its own HTTP API, the second on the next one, and so on."""
    limits: Limits


def serve_with_workers(options: WorkerOptions, console: Console) -> int:
    """Run the workers until a signal; returns the exit code. `OSError` if a port is in use."""
    if sys.platform == "win32":
        raise click.UsageError("--workers needs Linux or macOS: run it without.")
    try:
        code = asyncio.run(_run(options, console))
    except ChildNatsFailed as error:
        raise click.ClickException(f"{_upper(str(error))}.") from None
    return code


async def _run(options: WorkerOptions, console: Console) -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        # Its descriptor is how the workers name it: a path may be too long for the address of a socket.
        links = os.open(folder, os.O_RDONLY) if sys.platform == "linux" else None
        return await WorkerSupervisor(await _plan(options, console, links)).run()


async def _plan(options: WorkerOptions, console: Console, links: int | None) -> WorkerPlan:
    sockets = await _sockets(options)
    return WorkerPlan(
        command=own_command(sys.argv[1:]),
        names=_names(options),
        sockets=sockets,
        http=await _http(options),
        drain_s=options.limits.drain_s,
        links=links,
        open_cluster=partial(_open_cluster, options),
        announce=partial(_announce, options, console),
    )


async def _http(options: WorkerOptions) -> list[list[socket.socket]]:
    if options.http is None:
        return [[] for _ in range(options.count)]
    host, port = options.http
    has_keys = bool(read_api_keys())
    shared = await bind_http(host, port, has_keys=has_keys)
    sockets = [[shared] for _ in range(options.count)]
    if options.own_http_port is not None:
        for number, of_worker in enumerate(sockets):
            of_worker.append(await bind_http(host, options.own_http_port + number, has_keys=has_keys))
    return sockets


def _names(options: WorkerOptions) -> list[str]:
    # In a cluster with other machines, only this one's name makes them differ.
    name = options.name or ("worker" if options.cluster is None else socket.gethostname())
    return [f"{name}-{number}" for number in range(1, options.count + 1)]


async def _sockets(options: WorkerOptions) -> Mapping[str, Sequence[Sequence[socket.socket]]]:
    limits = TransportLimits.of(options.limits)

    async def bind_stream(host: str, port: int, *, is_shared: bool = False) -> list[socket.socket]:
        return await streams.bind(host, port, limits, is_shared=is_shared)

    sockets = {}
    for each in options.listening.listen():
        match each:
            case WebSocket() | Tcp():
                sockets[each.transport] = await share(bind_stream, each.host, each.port, options.count)
            case Enet():
                sockets[each.transport] = await share(datagram_sockets.bind, each.host, each.port, options.count)
            case Udp():
                sockets[each.transport] = await _ports_of_workers(each, options.count)
            case _:
                raise TypeError(f"no option of this command makes a {type(each).__name__}")
    return sockets


async def _ports_of_workers(udp: Udp, count: int) -> list[list[socket.socket]]:
    """One port for each worker, from this one on: the datagrams of a client must come where its stream is."""
    opened: list[list[socket.socket]] = []
    try:
        for number in range(count):
            opened.append(await datagram_sockets.bind(udp.host, udp.port + number if udp.port else 0))  # noqa: PERF401
    except BaseException:
        for sock in chain(*opened):
            sock.close()
        raise
    return opened


def default_folder(game: str) -> Path:
    """Where the rooms of a game are saved, in the current folder: "game.holdfast" for game.py."""
    stem = Path(game).stem if game.endswith(".py") or "/" in game else game.rpartition(".")[2]
    return Path(f"{re.sub(r'[^A-Za-z0-9_-]', '-', stem)}.holdfast")


def _open_cluster(options: WorkerOptions, has_durable_rooms: bool) -> ChildNats | str:
    if options.cluster is not None:
        return options.cluster
    return ChildNats(_folder(options, has_durable_rooms=has_durable_rooms))


def _folder(options: WorkerOptions, *, has_durable_rooms: bool) -> Path | None:
    """None if there is nothing to keep."""
    if options.data is None and has_durable_rooms:
        return options.temporary or default_folder(options.game)
    return options.data


def _announce(options: WorkerOptions, console: Console, loaded: Loaded, ready: Serving, workers: Sequence[str]) -> None:
    facts = [*ready.facts, ("workers", ", ".join(workers))]
    if options.temporary is not None:
        facts.append(
            ("reload", "restarts all workers when a .py file changes; durable rooms go on and players reconnect")
        )
    if options.http is not None and options.own_http_port is not None:
        last = options.own_http_port + options.count - 1
        facts.append(("metrics", f"of each worker at /metrics of the ports {options.own_http_port} to {last}"))
    if options.cluster is None:
        folder = _folder(options, has_durable_rooms=loaded.has_durable_rooms)
        if folder is None:
            facts.append(("", "no room is durable, so nothing is saved; --data FOLDER keeps bans, accounts and guests"))
        elif folder == options.temporary:
            facts.append(("data", "temporary, until this command ends; use --data to keep it"))
        else:
            facts.append(("data", str(folder)))
    show_facts(console, options.game, facts)


def _upper(words: str) -> str:
    return words[0].upper() + words[1:]
