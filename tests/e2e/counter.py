"""A client of the counting game: counts at the room, and writes down what the room counts at it."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field

from holdfast import ClientRoom, Message
from tests.e2e.counting import LEAD, PULSES_HZ, Ask, Begin, Down, Report, Up


@dataclass
class Counter:
    """One client, and what it was told."""

    messages: int
    per_pulse: int = 1
    numbers: list[int] = field(default_factory=list)
    strange: list[Message] = field(default_factory=list)
    report: Report | None = None
    _heard: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def trouble_ends(self) -> int:
        """The number at which we wait for the trouble to be over; the room is at most LEAD pulses ahead of us."""
        return self.messages - 2 * LEAD * self.per_pulse

    async def play(self, room: ClientRoom, trouble: Coroutine[None, None, None]) -> None:
        """Count to the end, both ways; until the trouble is over, both ends have something left to say."""
        await room.send(Begin(self.messages, self.per_pulse))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen(room))
            troubling = tasks.create_task(trouble)
            await self._count(room, 1, self.trouble_ends)
            await troubling
            await self._count(room, self.trouble_ends + 1, self.messages)
            await self.has_heard(self.messages)
            await room.send(Ask())

    async def has_heard(self, number: float) -> None:
        """Wait until the room has counted that far."""
        while not self.numbers or self.numbers[-1] < number:
            self._heard.clear()
            await self._heard.wait()

    def check(self) -> None:
        """Everything came once and in order, here and there."""
        assert self.numbers == list(range(1, self.messages + 1))
        assert self.strange == []
        assert self.report is not None
        assert (self.report.received, self.report.wrong) == (self.messages, [])

    async def _count(self, room: ClientRoom, first: int, last: int) -> None:
        for number in range(first, last + 1):
            await room.send(Up(number))
            if number % self.per_pulse == 0:
                await asyncio.sleep(1 / PULSES_HZ)

    async def _listen(self, room: ClientRoom) -> None:
        async for message in room:
            match message:
                case Down():
                    self.numbers.append(message.number)
                case Report():
                    self.report = message
                    return
                case _:
                    self.strange.append(message)
            self._heard.set()
