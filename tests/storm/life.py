"""Processes of the storm: lives of the server, and groups of clients."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

from tests.e2e.serving import ROOT


def end_with_parent() -> None:
    """To be called by a program of the storm: if whoever started it is gone, and with it the pipe, it ends too."""
    Thread(target=_await_end_of_input, daemon=True).start()


def _await_end_of_input() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


async def start(module: str, *words: object, log: Path, python: Sequence[str] = (sys.executable,)) -> Process:
    """A Python program of ours, whose errors go to a file."""
    with log.open("ab") as errors:
        return await asyncio.create_subprocess_exec(
            *(*python, "-m", module, *map(str, words)), cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=errors
        )


class Life:
    """One life of the server, from its start to its end."""

    def __init__(self, number: int, process: Process, news: asyncio.Event) -> None:
        """`news` is set when it says something, and when it ends."""
        self.number = number
        self.pid = process.pid
        self.port: int | None = None
        self.fenced: set[str] = set()
        self.refusals = 0
        self._news = news
        self._process = process
        self._reading = asyncio.create_task(self._read())

    @property
    def code(self) -> int | None:
        """How it ended; None while it lives."""
        return self._process.returncode

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := (await self._process.stdout.readline()).decode():
            word, _, rest = line.strip().partition(" ")
            self.said(word, rest)
            self._news.set()
        await self._process.wait()
        self._news.set()

    def said(self, word: str, rest: str) -> None:
        """A line of it."""
        if word == "ready":
            self.port = int(rest)
        elif word == "fenced":
            self.fenced.add(rest)
        elif word == "refused":
            self.refusals += 1

    def tell(self, line: str) -> None:
        """Ask it for something, if it is still there."""
        assert self._process.stdin is not None
        with suppress(ConnectionError):
            self._process.stdin.write(f"{line}\n".encode())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if there is somebody to get it."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait for the end; the exit code."""
        await self._reading
        return await self._process.wait()


class Clients:
    """The groups of clients, and what they say."""

    def __init__(self, names: Sequence[str], news: asyncio.Event) -> None:
        self._names = list(names)
        self._news = news
        self.back_at = dict.fromkeys(names, 0.0)
        self.finished: set[str] = set()
        self.done: set[str] = set()
        self.failed: list[str] = []
        """Programs that ended before they were through."""
        self._rooms: dict[str, str] = {}
        self._processes: list[Process] = []
        self._reading: list[asyncio.Task[None]] = []

    async def start(self, groups: int, url: str, folder: Path, *settings: object) -> None:
        """Start so many programs."""
        for number in range(groups):
            names = self._names[number::groups]
            words = (url, folder, *settings, *names)
            process = await start("tests.storm.clients", *words, log=folder / f"clients-{number}.log")
            self._processes.append(process)
            self._reading.append(asyncio.create_task(self._read(number, process, set(names))))

    async def _read(self, number: int, process: Process, names: set[str]) -> None:
        assert process.stdout is not None
        while line := (await process.stdout.readline()).decode().split():
            match line:
                case "back", who, at, room:
                    self.back_at[who] = float(at)
                    self._rooms[who] = room
                case "leaving", who:
                    self._rooms.pop(who, None)
                case "finished", who:
                    self.finished.add(who)
                case "done", who:
                    self.done.add(who)
                case _:
                    raise ValueError(f"clients do not say {line}")
            self._news.set()
        code = await process.wait()
        if code or not names <= self.done:
            self.failed.append(f"clients {number} ended with {code}: see clients-{number}.log")
        self._news.set()

    @property
    def rooms(self) -> set[str]:
        """Where they are."""
        return set(self._rooms.values())

    def tell(self, word: str) -> None:
        """Ask all of them for something."""
        for process in self._processes:
            assert process.stdin is not None
            with suppress(ConnectionError):
                process.stdin.write(f"{word}\n".encode())

    async def end(self) -> None:
        """Kill those that are left."""
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()
        await asyncio.gather(*self._reading)
