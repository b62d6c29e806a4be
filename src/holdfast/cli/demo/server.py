"""The demo's server: a process of its own that can be killed, and the object that restarts it.

    python -m holdfast.cli.demo.server FOLDER [HTTP_PORT ORIGIN]

With a port it has a dashboard, and with an origin a page may connect. With the address of a cluster in its environment
it is a node, named like its folder, and makes no room. It prints one line with its address when it
listens, and stops when its standard input ends, so that it does not outlive the demo, however that one ended.
"""

import asyncio
import logging
import os
import shutil
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import click
import msgspec

from holdfast import Enet, HttpApi, Limits, Server, Tcp, WebSocket
from holdfast.cli.demo.arena import Arena
from holdfast.cluster.parent import ends_with_this_process
from holdfast.http.api import DEFAULT_HOST
from holdfast.server.run import event_loop

PROGRAM = ("-m", "holdfast.cli.demo.server")
# It has a secret, which other users could read on a command line.
_CLUSTER_VARIABLE = "HOLDFAST_DEMO_CLUSTER"
# Many times the usual time.
_START_S = 30.0
_STOP_S = 10.0
_LOG_LINES = 12

# A ping every second keeps the displayed latencies current.
_LIMITS = Limits(ping_s=1.0, silence_s=4.0)


class Ready(msgspec.Struct, frozen=True):
    """The line that the process prints: where the server listens."""

    pid: int
    host: str
    port: int
    room: str
    http: str = ""


async def serve(folder: Path, transport: str, http_port: int | None = None, origin: str = "") -> None:
    """Serve the room in the store, or create it."""
    loop = asyncio.get_running_loop()
    owner = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(owner), sys.stdin)
    # The page is reachable under both names.
    origins = [origin, origin.replace(DEFAULT_HOST, "localhost")] if origin else []
    ports = {"websocket": WebSocket(port=0, origins=origins), "tcp": Tcp(port=0), "enet": Enet(port=0)}
    cluster = os.environ.pop(_CLUSTER_VARIABLE, None)
    server = Server(
        [Arena],
        listen=[ports[transport]],
        store=f"sqlite:{folder / 'demo.db'}" if cluster is None else None,
        cluster=cluster,
        name=folder.name if cluster is not None else "",
        http=HttpApi(port=http_port) if http_port is not None else None,
        limits=_LIMITS,
    )
    async with server:
        room = "" if cluster is not None else await _room_of(server)
        http = f"http://{DEFAULT_HOST}:{server.addresses['http'][1]}" if http_port is not None else ""
        ready = Ready(os.getpid(), *server.addresses[transport], room, http)
        sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
        sys.stdout.flush()
        await owner.read()
        if server.parts.cluster is not None:
            server.parts.cluster.end_whole()
    # The demo does this too, unless it was killed.
    shutil.rmtree(folder, ignore_errors=True)


async def _room_of(server: Server) -> str:
    """The room in the store, or a new one."""
    room = next(iter(server.rooms), None) or await server.create_room("arena")
    return room.id


def main() -> None:
    """Serve until standard input ends."""
    # Errors only: on a busy machine the server warns of skipped ticks.
    logging.basicConfig(level=logging.ERROR)
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        folder, transport, *page = sys.argv[1:]
        way = Path(folder), transport
        runner.run(serve(*way, int(page[0]), page[1]) if page else serve(*way))


class ServerProcess:
    """Runs the server in a process and restarts it when it ends; `moved` is called with its address at every start."""

    def __init__(
        self,
        folder: Path,
        moved: Callable[[Ready], None],
        options: Sequence[str] = (),
        *,
        cluster: str | None = None,
        pause_s: float = 0.0,
        gone: Callable[[], None] = lambda: None,
    ) -> None:
        """It may be a node of a cluster. `gone` is called when it has ended, and it is started again after a pause."""
        self.crashes = 0
        """How often it was killed or ended by itself."""
        self.back_after_s = 0.0
        """How long the latest restart took."""
        self.ready: Ready | None = None
        """Where it listens; None while it is down."""
        self._folder = folder
        self._moved = moved
        self._options = options
        self._cluster = cluster
        self._pause_s = pause_s
        self._gone = gone
        self._process: Process | None = None
        self._killed_at: float | None = None

    async def start(self) -> None:
        """Start a server and wait until it listens."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, *PROGRAM, str(self._folder), *self._options),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                # Not for Ctrl-C: the server stops after the bots have left.
                start_new_session=True,
                env=None if self._cluster is None else {**os.environ, _CLUSTER_VARIABLE: self._cluster},
                # Its NATS server does so too: without it a node could not stop in order.
                preexec_fn=ends_with_this_process() if self._cluster is not None else None,
            )
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_START_S):
                line = await self._process.stdout.readline()
            self.ready = msgspec.json.decode(line, type=Ready)
        except (TimeoutError, msgspec.MsgspecError):
            raise click.ClickException(f"The demo's server did not start:\n{self.log()}") from None
        self._moved(self.ready)

    @property
    def is_dying(self) -> bool:
        """Whether it was just killed, and the crash is not counted yet."""
        return self._killed_at is not None

    async def keep_running(self) -> None:
        """Restart it whenever it ends, whoever killed it."""
        now = asyncio.get_running_loop().time
        while self._process is not None:
            await self._process.wait()
            self.ready = None
            self.crashes += 1
            gone_at = now() if self._killed_at is None else self._killed_at
            self._killed_at = None
            self._gone()
            await asyncio.sleep(self._pause_s)
            await self.start()
            self.back_after_s = now() - gone_at

    def route(self, current: tuple[str, int] | None) -> tuple[str, int]:
        """Where a client is to connect."""
        if self.ready is not None:
            return self.ready.host, self.ready.port
        assert current is not None, "it was not started"
        return current

    def crash(self) -> None:
        """Kill it with SIGKILL, which no program can catch; does nothing while it is down."""
        if self._process is not None and self.ready is not None:
            self.ready = None
            self._killed_at = asyncio.get_running_loop().time()
            self._process.kill()

    async def stop(self) -> None:
        """Stop it in order, or kill it if that takes too long."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def log(self) -> str:
        lines = self._log.read_text("utf-8", errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-_LOG_LINES:])

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def listening_at(host: str, port: int) -> socket.socket:
    """A socket that listens on this port, or on a free one if this is taken."""
    try:
        return socket.create_server((host, port))
    except OSError:
        return socket.create_server((host, 0))


if __name__ == "__main__":
    main()
