"""A server of the soak, in a process of its own, which tells on a pipe what it costs."""

import asyncio
import gc
import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import uvloop

from holdfast import Limits, Server, WebSocket
from tests.soak.game import ROOMS

# Everybody comes from one address. What is kept of sessions and rooms that ended has limits; these are small, so that
# they are reached within minutes, and what grows beyond them is a leak.
LIMITS = Limits(
    hellos_per_address_burst=100_000,
    hellos_per_address_per_s=10_000.0,
    guesses_per_address_burst=100_000,
    timelines_kept_max=500,
    ended_kept_max=500,
    events_kept_max=512,
)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Reading(NamedTuple):
    """What a server has and has used at one moment."""

    cpu_s: float
    applied: int
    memory_bytes: int
    store_bytes: int
    descriptors: int
    tasks: int
    sessions: int
    rooms: int


def serve(pipe: Connection, folder: Path) -> None:
    """Serve until told to stop: the address first, then a `Reading` for every word but "stop"."""
    # The controller is told by Ctrl-C, and tells us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(pipe, folder))


async def _serve(pipe: Connection, folder: Path) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    store = f"sqlite:{folder / 'soak.db'}"
    async with Server(ROOMS, listen=[WebSocket(port=0)], store=store, limits=LIMITS, grace_s=1.0) as server:
        # As `holdfast.run` does.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)

        def asked() -> None:
            try:
                word = pipe.recv()
            except EOFError:
                word = "stop"
            if word == "stop":
                loop.remove_reader(pipe.fileno())
                stopped.set()
                return
            if word == "settled":
                gc.collect()
            pipe.send(_reading(server, folder))

        loop.add_reader(pipe.fileno(), asked)
        pipe.send(server.url)
        await stopped.wait()


def _reading(server: Server, folder: Path) -> Reading:
    return Reading(
        cpu_s=time.process_time(),
        applied=server.counters.messages_applied,
        memory_bytes=int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE_BYTES,
        store_bytes=sum(file.stat().st_size for file in folder.iterdir()),
        descriptors=len(list(Path("/proc/self/fd").iterdir())),
        tasks=len(asyncio.all_tasks()),
        sessions=len(server.sessions),
        rooms=len(server.rooms),
    )
