"""The process of the server that `holdfast bench` starts: the user's own game, and what the server says of itself."""

import asyncio
import logging
import os
import signal
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import click
import msgspec

import holdfast
from holdfast import Server, WebSocket
from holdfast.cli.bench.tally import ServerReport
from holdfast.cli.loading import load
from holdfast.core.limits import Limits
from holdfast.core.session import is_agent
from holdfast.logs.output import set_up

# All bots come from one address: what a server allows one household is not what is measured.
ONE_ADDRESS = ("127.0.0.0/8", "::1")
_HELLOS = 1_000_000.0


def run_server(pipe: Connection, game: str, store: str | None, folder: str, core: int | None) -> None:
    """Serve the game until the pipe says so; answer each other word with a `ServerReport`.

    Durable rooms without a store of their own are saved in that folder.
    """
    leave_terminal()
    if core is not None:
        os.sched_setaffinity(0, {core})
    set_up(logging.ERROR, "console")
    try:
        server = _server(game, store, folder)
        holdfast.run(server, ready=lambda server: _obey(pipe, server))
    except click.ClickException as error:
        pipe.send(("failed", error.message))
    except Exception as error:  # noqa: BLE001 - the game's own code and settings may raise anything
        pipe.send(("failed", f"{game}: {type(error).__name__}: {error}"))


def leave_terminal() -> None:
    """Ctrl-C is for the command, which ends its processes in order."""
    if hasattr(os, "setsid"):
        os.setsid()


def _server(game: str, store: str | None, folder: str) -> Server:
    loaded = load(game)
    if loaded.server is not None:
        return loaded.server
    if store is None and any(room.durability != "memory" for room in loaded.rooms):
        store = f"sqlite:{Path(folder) / 'bench.db'}"
    limits = replace(
        Limits(),
        full_share=ONE_ADDRESS,
        hellos_per_address_burst=int(_HELLOS),
        hellos_per_address_per_s=_HELLOS,
    )
    return Server(
        loaded.rooms,
        listen=[WebSocket(port=0)],
        store=store,
        queues=loaded.queues,
        check_name=loaded.check_name,
        limits=limits,
    )


def _obey(pipe: Connection, server: Server) -> None:
    pipe.send(("ready", next(iter(server.urls.values()))))
    loop = asyncio.get_running_loop()

    def asked() -> None:
        try:
            word = pipe.recv()
        except (EOFError, OSError):
            word = "stop"
        if word == "stop":
            loop.remove_reader(pipe.fileno())
            signal.raise_signal(signal.SIGINT)
        else:
            pipe.send(("report", msgspec.msgpack.encode(_report(server))))

    loop.add_reader(pipe.fileno(), asked)


def _report(server: Server) -> ServerReport:
    counters = server.counters
    return ServerReport(
        cpu_s=time.process_time(),
        memory_mib=memory_mib(),
        applied=counters.messages_applied,
        repeated=counters.duplicates_ignored,
        throttled=counters.messages_throttled + counters.floods,
        has_agents=any(is_agent(session.player_id) for session in server.sessions),
    )


def memory_mib() -> float:
    """What the operating system has given to this process; the most that it ever had, where only that is known."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        import resource  # noqa: PLC0415 - not available on Windows

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
