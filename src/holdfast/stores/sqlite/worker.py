"""A thread that does one thing after the other, and tells the event loop when each is done."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from holdfast.stores.port import Broken, StoreError, Unknown

T = TypeVar("T")
_Job = tuple[Callable[[], Any], asyncio.Future[Any], Callable[[Any], None] | None]


class Look(NamedTuple):
    """What a thread does between its jobs, about how often, and who is told, on the loop, if it finds damage."""

    work: Callable[[], None]
    failed: Callable[[Broken], None]
    every_s: float


class Worker:
    """Belongs to the loop that was running when it was made."""

    def __init__(self, name: str, *, timeout_s: float, look: "Look | None" = None) -> None:
        """`look` is called between jobs, also if there are none."""
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._look = look
        self._jobs: SimpleQueue[_Job | tuple[()] | None] = SimpleQueue()
        # A program that ends without closing its store must not hang; what was acknowledged is on the disk.
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], T], *, late: type[StoreError], then: Callable[[T], None] | None = None) -> T:
        """What `work` returns or raises in the thread, or `late` if that takes too long: it goes on nevertheless.

        `then` gets the result on the loop in any case, whether somebody still waits for it or not.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((work, future, then))
        timer = self._loop.call_later(self._timeout_s, self._give_up, future, late)
        try:
            return await future
        finally:
            timer.cancel()

    async def end(self, last: Callable[[], None]) -> None:
        """Let the thread finish what it was given, do this last, and end."""
        try:
            await self.run(last, late=Unknown)
        finally:
            self._jobs.put(None)

    def _work(self) -> None:
        every_s = self._look.every_s if self._look is not None else None
        looked_at = monotonic()
        while True:
            try:
                job = self._jobs.get(timeout=every_s)
            except Empty:
                job = ()
            if job is None:
                return
            if job:
                self._do(*job)
            del job  # and with it what was written or found, until there is another
            if self._look is not None and monotonic() >= looked_at + self._look.every_s:
                self._look_around(self._look)
                looked_at = monotonic()

    def _look_around(self, look: "Look") -> None:
        try:
            look.work()
        except Broken as error:
            with suppress(RuntimeError):  # as below
                self._loop.call_soon_threadsafe(look.failed, error)

    def _do(self, work: Callable[[], T], future: asyncio.Future[T], then: Callable[[T], None] | None) -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:  # noqa: BLE001 - whatever it is, it belongs to whoever asked
            error = raised
        with suppress(RuntimeError):  # the loop has been closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._finish, future, then, result, error)

    @staticmethod
    def _finish(
        future: asyncio.Future[Any], then: Callable[[Any], None] | None, result: Any, error: Exception | None
    ) -> None:
        if error is None and then is not None:
            then(result)
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def _give_up(self, future: asyncio.Future[Any], late: type[StoreError]) -> None:
        if not future.done():
            future.set_exception(late(f"the disk has not answered for {self._timeout_s:g} s"))
