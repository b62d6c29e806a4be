"""A thread with an event loop of its own, for a program that has none: calls go in, results and errors come out."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from holdfast.core.errors import SessionEnded

T = TypeVar("T")


def _closed() -> SessionEnded:
    return SessionEnded("closed", "closed by this program")


class Background:
    """One loop and one thread, until `stop`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._is_over = asyncio.Event()
        self._is_stopping = False
        # A call must not be given to a loop that has stopped between the check and the call.
        self._lock = threading.Lock()
        # A daemon, so that a program that forgets to close can end.
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the loop and wait for its result. Interrupting the wait cancels it."""
        self._check_thread()
        with self._lock:
            if self._is_stopping:
                raise _closed()
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise _closed() from None
        except BaseException:
            future.cancel()
            raise

    def run_for(self, timeout: float | None, work: Callable[[], Coroutine[Any, Any, T]], otherwise: str) -> T:
        """Run a coroutine in the loop for so many seconds; a `TimeoutError` says what there was instead of a result."""

        async def limited() -> T:
            try:
                async with asyncio.timeout(timeout):
                    return await work()
            except TimeoutError:
                raise TimeoutError(f"{otherwise} within {timeout:g} s") from None

        return self.run(limited)

    def call(self, work: Callable[[], T]) -> T:
        """Run a function in the loop and wait for its result."""

        async def called() -> T:
            return work()

        return self.run(called)

    def stop(self) -> None:
        """Cancel what runs in the loop, end it, and wait for the thread."""
        self._check_thread()
        with self._lock:
            if not self._is_stopping:
                self._is_stopping = True
                self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()

    def _live(self) -> None:
        # Cancels what is left at the end, and waits for it.
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_over())

    async def _until_over(self) -> None:
        await self._is_over.wait()

    def _check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError("a callback runs in the session's thread and cannot wait for it: set a flag in there")
