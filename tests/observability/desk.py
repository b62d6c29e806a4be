"""A bus to publish on, events that count, and a handler that takes its time."""

import asyncio

from holdfast.observability.bus import EventBus
from holdfast.schemas.events import RoomEvent, SessionEvent


class Counted(SessionEvent, frozen=True, kw_only=True, tag="counted"):
    number: int


class Built(RoomEvent, frozen=True, kw_only=True, tag="built"):
    pass


class Desk:
    """A bus, and what went wrong on it."""

    def __init__(self, waiting_max: int = 1000) -> None:
        self.failures: list[tuple[str, Exception]] = []
        loop = asyncio.get_running_loop()
        self.bus = EventBus(
            loop, wall_clock=loop.time, waiting_max=waiting_max, failed=lambda *failure: self.failures.append(failure)
        )

    def publish(self, *numbers: int, session: str = "s") -> None:
        for number in numbers:
            self.bus.publish(Counted(session=session, player="ada", number=number))


class Slow:
    """A handler that takes its time: it begins with one event when it may finish the one before."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.done: list[int] = []
        self.may_go_on = asyncio.Semaphore(0)

    async def __call__(self, event: Counted) -> None:
        self.begun.append(event.number)
        await self.may_go_on.acquire()
        self.done.append(event.number)


async def a_turn(times: int = 5) -> None:
    for _ in range(times):
        await asyncio.sleep(0)
