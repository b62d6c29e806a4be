"""Who keeps the demo's server running: it is killed, and started again at once."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import click
import msgspec

from holdfast.cli.demo.server import Ready

PROGRAM = ("-m", "holdfast.cli.demo.server")
# Many times what it takes.
_START_S = 30.0
_STOP_S = 10.0
_LOG_LINES = 12


class Supervisor:
    """One server process at a time. `moved` hears where it is, at every start."""

    def __init__(self, folder: Path, moved: Callable[[Ready], None], options: Sequence[str] = ()) -> None:
        self.crashes = 0
        """How often it ended before it should."""
        self.back_after_s = 0.0
        """How long it was away, the last time."""
        self.ready: Ready | None = None
        """Where it is; None while it is away."""
        self._folder = folder
        self._moved = moved
        self._options = options
        self._process: Process | None = None
        self._killed_at: float | None = None

    async def start(self) -> Ready:
        """Start a server and wait until it listens."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, *PROGRAM, str(self._folder), *self._options),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                # Ctrl-C is for us: the server stops when the bots have left it.
                start_new_session=True,
            )
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_START_S):
                line = await self._process.stdout.readline()
            self.ready = msgspec.json.decode(line, type=Ready)
        except (TimeoutError, msgspec.MsgspecError):
            raise click.ClickException(f"The demo's server does not start:\n{self.log()}") from None
        self._moved(self.ready)
        return self.ready

    @property
    def is_dying(self) -> bool:
        """It was killed a moment ago, and is not counted yet."""
        return self._killed_at is not None

    async def keep_running(self) -> None:
        """Start it again, whoever killed it."""
        now = asyncio.get_running_loop().time
        while self._process is not None:
            await self._process.wait()
            self.ready = None
            self.crashes += 1
            gone_at = now() if self._killed_at is None else self._killed_at
            self._killed_at = None
            await self.start()
            self.back_after_s = now() - gone_at

    def crash(self) -> None:
        """Kill it with SIGKILL, which no program can catch; nothing happens while it is away."""
        if self._process is not None and self.ready is not None:
            self.ready = None
            self._killed_at = asyncio.get_running_loop().time()
            self._process.kill()

    async def stop(self) -> None:
        """End it in order, or by force if that takes too long."""
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
        """The last that the servers had to complain of."""
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
