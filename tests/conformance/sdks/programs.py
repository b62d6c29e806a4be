"""The drivers as processes: start one, tell it what to do, hear what happens to it."""

import asyncio
import fcntl
import json
import shutil
import subprocess
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from tests.forking import forked

ROOT = Path(__file__).parents[3]
JS = ROOT / "clients" / "js"
_LINE_BYTES_MAX = 2**22
_BUILD_S = 120.0

SDKS: dict[str, list[str]] = {
    "python": ["-m", "tests.conformance.sdks.driver"],
    "javascript": [shutil.which("node") or "node", str(JS / "test" / "driver.mjs")],
}


def why_not(sdk: str) -> str:
    """Why an SDK cannot be tried on this machine; empty if it can."""
    if sdk != "javascript":
        return ""
    if shutil.which("node") is None:
        return "there is no node"
    if not (ROOT / "node_modules" / "ws").exists():
        return "run `web/npm ci` first"
    return ""


def build_js() -> None:
    """Bring clients/js/dist up to date, if it is not; one test process at a time."""
    built = JS / "dist" / "index.js"
    newest = max(source.stat().st_mtime for source in (JS / "src").iterdir())
    with (Path(gettempdir()) / "holdfast-js-build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists() or built.stat().st_mtime < newest:
            command = [str(ROOT / "web" / "npm"), "run", "build", "-w", "clients/js"]
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=_BUILD_S)


class Program:
    """One driver that runs."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._answers: dict[str, list[asyncio.Future[dict[str, Any]]]] = defaultdict(list)
        self._events: dict[str, asyncio.Queue[dict[str, Any]]] = defaultdict(asyncio.Queue)
        self._reading = asyncio.create_task(self._read())

    async def do(self, name: str, /, **command: Any) -> dict[str, Any]:
        """Have it do something; the answer, which must not be an error."""
        answer = await self.attempt(name, **command)
        assert "error" not in answer, answer
        return answer

    async def attempt(self, name: str, /, **command: Any) -> dict[str, Any]:
        """The same, and the answer may be an error."""
        return await self.begin(name, **command)

    def begin(self, name: str, /, **command: Any) -> "asyncio.Future[dict[str, Any]]":
        """Have it begin something; the answer comes later."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[name].append(answer)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": name, **command}).encode() + b"\n")
        return answer

    async def event(self, name: str) -> dict[str, Any]:
        """The next event of this name that nobody has looked at."""
        return await self._events[name].get()

    def has_had(self, name: str) -> bool:
        """Whether there was such an event that nobody has looked at."""
        return not self._events[name].empty()

    async def stop(self) -> None:
        """SIGKILL: nothing is said or saved any more."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            said = json.loads(line)
            if "done" in said:
                self._answers[said["done"]].pop(0).set_result(said)
            else:
                self._events[said["event"]].put_nowait(said)


@asynccontextmanager
async def program(sdk: str) -> AsyncIterator[Program]:
    """A driver of this SDK, until the end of the block."""
    async with forked(*SDKS[sdk]) if sdk == "python" else _node(*SDKS[sdk]) as process:
        running = Program(process)
        try:
            yield running
        finally:
            await running.stop()


@asynccontextmanager
async def _node(*command: str) -> AsyncIterator[Process]:
    yield await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=ROOT, limit=_LINE_BYTES_MAX)
