"""A thread that runs jobs one after the other and returns each result to the event loop."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from holdfast.stores.port import Broken, StoreError, Unknown

T = TypeVar("T")
_Job = tuple[Callable[[], Any], asyncio.Future[Any]]


class PeriodicCheck(NamedTuple):
    """A check that a thread makes between its jobs, and how often; it may raise `Broken`."""

    work: Callable[[], None]
    every_s: float


class Worker:
    """Belongs to the event loop that was running when it was created."""

    def __init__(
        self, name: str, *, timeout_s: float, broken: Callable[[Broken], None], check: PeriodicCheck | None = None
    ) -> None:
        """`broken` is called on the event loop when a job or a check raises `Broken`.

        `check` runs between jobs, also without any.
        """
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._check = check
        self._jobs: SimpleQueue[_Job | tuple[()] | None] = SimpleQueue()
        # A program that ends without closing its store must not hang; what was acknowledged is on the disk.
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], T], *, late: type[StoreError]) -> T:
        """Return or raise what `work` does in the thread, or raise `late` if it takes too long; it is not stopped."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((work, future))
        timer = self._loop.call_later(self._timeout_s, self._give_up, future, late)
        try:
            return await future
        finally:
            timer.cancel()

    async def end(self, last: Callable[[], None]) -> None:
        """Let the thread finish its jobs, run `last`, and end."""
        try:
            await self.run(last, late=Unknown)
        finally:
            self._jobs.put(None)

    def _work(self) -> None:
        every_s = self._check.every_s if self._check is not None else None
        checked_at = monotonic()
        while True:
            try:
                job = self._jobs.get(timeout=every_s)
            except Empty:
                job = ()
            if job is None:
                return
            if job:
                self._do(*job)
            del job  # and its data, before the wait for the next one
            if self._check is not None and monotonic() >= checked_at + self._check.every_s:
                self._run_check(self._check)
                checked_at = monotonic()

    def _run_check(self, check: PeriodicCheck) -> None:
        try:
            check.work()
        except Broken as error:
            with suppress(RuntimeError):  # as below
                self._loop.call_soon_threadsafe(self._broken, error)

    def _do(self, work: Callable[[], T], future: asyncio.Future[T]) -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:  # noqa: BLE001 - raised where the result is awaited
            error = raised
        with suppress(RuntimeError):  # the loop has been closed: nothing waits for the result
            self._loop.call_soon_threadsafe(self._finish, future, result, error)

    def _finish(self, future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        if isinstance(error, Broken):
            self._broken(error)
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def _give_up(self, future: asyncio.Future[Any], late: type[StoreError]) -> None:
        if not future.done():
            future.set_exception(late(f"the disk has not responded for {self._timeout_s:g} s"))
