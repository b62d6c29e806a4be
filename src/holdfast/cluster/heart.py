"""The heart of a node: its beats on the bus, from a thread of its own.

A handler that blocks the event loop for two seconds must not look like a death, so the beats do not come from that
loop. They say instead how long ago it last had a turn. Under virtual time, which knows no threads, `beating` runs as a
task.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

import msgspec

from holdfast.cluster.port import Bus
from holdfast.cluster.watch import BEATS, BYES
from holdfast.core.limits import ClusterLimits
from holdfast.logs import get_logger
from holdfast.schemas.beat import Beat, Goodbye

log = get_logger("holdfast.cluster")

MakeBeat = Callable[[int, float], Beat]
"""Makes the beat of this number, given the age of the event loop's last turn; called from the heart's thread."""


async def beating(bus: Bus, make: MakeBeat, limits: ClusterLimits, loop_age_s: Callable[[], float]) -> None:
    """Beat until this is cancelled."""
    number = 0
    while True:
        number += 1
        beat = make(number, loop_age_s())
        await bus.tell(f"{BEATS}.{beat.life}", msgspec.msgpack.encode(beat))
        await asyncio.sleep(limits.beat_s)


async def say_bye(bus: Bus, life: str) -> None:
    """The last words of a life."""
    await bus.tell(f"{BYES}.{life}", msgspec.msgpack.encode(Goodbye(life)))


class Heart:
    """Beats from `start` to `stop`, whatever the event loop of `start` is busy with."""

    def __init__(self, make_bus: Callable[[], Bus], make: MakeBeat, limits: ClusterLimits) -> None:
        """`make_bus` makes a bus of the heart's own, which is opened in its thread."""
        self._make_bus = make_bus
        self._make = make
        self._limits = limits
        self._owner: asyncio.AbstractEventLoop | None = None
        self._pulse: asyncio.TimerHandle | None = None
        self._pulsed_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_opened: asyncio.Future[None] | None = None
        self._life = ""
        self._says_bye = True
        self._is_abandoned = False
        self._thread: threading.Thread | None = None

    async def start(self) -> None:
        """Return when the bus is open; what prevents that is raised."""
        self._owner = asyncio.get_running_loop()
        self._is_opened = self._owner.create_future()
        self._beat_owner()
        # A program that ends without stopping it must not hang.
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="holdfast-heart", daemon=True)
        self._thread.start()
        try:
            await self._is_opened
        except BaseException:
            # Nobody would stop it.
            self._is_abandoned = True
            self._stop_pulse()
            self._end()
            raise

    async def stop(self, *, bye: bool = True) -> None:
        """Say bye, if this life ends in order, and fall silent."""
        self._stop_pulse()
        self._says_bye = bye
        self._end()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, self._limits.silent_s)

    def _end(self) -> None:
        if self._loop is not None and self._stopping is not None:
            with suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._stopping.set)

    @property
    def loop_age_s(self) -> float:
        """How long ago the event loop had a turn, beyond what is usual."""
        assert self._owner is not None
        return max(0.0, self._owner.time() - self._pulsed_at - self._limits.beat_s)

    def _beat_owner(self) -> None:
        assert self._owner is not None
        self._pulsed_at = self._owner.time()
        self._pulse = self._owner.call_later(self._limits.beat_s, self._beat_owner)

    def _stop_pulse(self) -> None:
        if self._pulse is not None:
            self._pulse.cancel()

    async def _run(self) -> None:
        self._stopping, self._loop = asyncio.Event(), asyncio.get_running_loop()
        bus = self._make_bus()
        try:
            await bus.open()
        except Exception as failed:  # noqa: BLE001 - raised where it was started
            self._opened(failed)
            return
        if self._is_abandoned:
            await bus.close()
            return
        self._opened(None)
        task = asyncio.create_task(beating(bus, self._made, self._limits, lambda: self.loop_age_s))
        await asyncio.wait([task, asyncio.create_task(self._stopping.wait())], return_when=asyncio.FIRST_COMPLETED)
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            log.error("this node beats no more: others will take its rooms", error=repr(error))
        task.cancel()
        if self._life and self._says_bye:
            await say_bye(bus, self._life)
        await bus.close()

    def _made(self, number: int, loop_age_s: float) -> Beat:
        beat = self._make(number, loop_age_s)
        self._life = beat.life
        return beat

    def _opened(self, error: Exception | None) -> None:
        assert self._owner is not None
        assert self._is_opened is not None

        def tell(opened: asyncio.Future[None]) -> None:
            if opened.done():
                return
            if error is None:
                opened.set_result(None)
            else:
                opened.set_exception(error)

        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._owner.call_soon_threadsafe(tell, self._is_opened)
