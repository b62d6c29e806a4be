"""A bot: the session that `play` gets, which also counts and times whatever goes through it."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from holdfast.cli.bench.tally import LoadTally
from holdfast.client.channels import Arrived
from holdfast.client.protocol import ClientProtocol, Event, Welcomed
from holdfast.client.room import ClientRoom
from holdfast.client.session import ClientSession
from holdfast.core.errors import HoldfastError
from holdfast.core.messages import ASK


class _Unacknowledged(NamedTuple):
    seq: int
    due_at: float
    is_ask: bool


class CountingProtocol(ClientProtocol):
    """A client's protocol whose messages are counted, apart from what the protocol itself keeps of them."""

    tally: LoadTally
    late_s = 0.0
    """How late the bot is: the next message was due so much earlier."""

    def count_in(self, tally: LoadTally) -> None:
        """Count here from now on."""
        self.tally = tally
        self._unacknowledged: dict[int, deque[_Unacknowledged]] = {}
        self._last: dict[tuple[str, int, int], int] = {}

    @property
    def waiting(self) -> int:
        """Messages that were sent and not acknowledged."""
        return sum(map(len, self._unacknowledged.values()))

    def push(self, channel: int, name: str, body: bytes) -> int:
        number = super().push(channel, name, body)
        self.tally.sent += 1
        due_at = time.perf_counter() - self.late_s
        self.late_s = 0.0
        self._unacknowledged.setdefault(channel, deque()).append(_Unacknowledged(number, due_at, name == ASK))
        return number

    def receive(self, payload: bytes) -> Iterator[Event]:
        for event in super().receive(payload):
            if isinstance(event, Arrived):
                self.count(event)
            elif isinstance(event, Welcomed):
                self._welcomed(event)
            yield event
        self._acknowledge()

    def count(self, arrived: Arrived) -> None:
        """A message came for the game: is it the next one?"""
        stream = (arrived.session, arrived.channel, arrived.generation)
        last = self._last.get(stream, 0)
        self.tally.received += 1
        self.tally.lost += max(0, arrived.seq - last - 1)
        self.tally.duplicated += arrived.seq <= last
        self._last[stream] = max(last, arrived.seq)

    def _welcomed(self, welcomed: Welcomed) -> None:
        outcome, tally = welcomed.outcome, self.tally
        match outcome.kind:
            case "resumed":
                tally.resumed += 1
                tally.replayed += outcome.replayed
            case "resynced":
                tally.resynced += 1
            case "reset":
                tally.reset += 1
                # The numbers begin anew, and so does everything that was on its way.
                self.give_up()
            case _:
                pass

    def _acknowledge(self) -> None:
        now = time.perf_counter()
        for number, waiting in list(self._unacknowledged.items()):
            channel = self.channels.get(number)
            if channel is None:
                self.tally.undelivered += len(waiting)
                del self._unacknowledged[number]
                continue
            while waiting and waiting[0].seq <= channel.acked:
                sent = waiting.popleft()
                self.tally.acknowledged += 1
                (self.tally.asks if sent.is_ask else self.tally.sends).add(now - sent.due_at)

    def give_up(self) -> None:
        """What is not acknowledged will not be, and the client knows."""
        self.tally.undelivered += self.waiting
        self._unacknowledged.clear()


class BotSession(ClientSession):
    """What `play` gets: a client's session, and what a bot needs beside that."""

    protocol: CountingProtocol
    number = 0
    """Which bot this is, from 0; a bot that takes the place of one that has finished has a number of its own."""
    random: Random
    """Chance of its own: the same in each run with the same --seed."""
    _readers: set[asyncio.Task[None]]

    def begin(self, number: int, seed: int) -> None:
        """Be this bot."""
        self.number = number
        self.random = Random(f"{seed} {number}")  # noqa: S311 - a load needs no secrets
        self._readers = set()

    async def every(self, seconds: float) -> AsyncIterator[int]:
        """Beats at a fixed rate, the first one at a moment of the bot's own.

        A bot that is late, because it waited for an answer, catches up; the message that it sends then counts from the
        moment at which it was due. So a server that stalls cannot hide what it delays.
        """
        due = time.perf_counter() + self.random.random() * seconds
        beat = 0
        while True:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self.protocol.late_s = max(0.0, time.perf_counter() - due)
            yield beat
            due += seconds
            beat += 1

    def discard(self, room: ClientRoom) -> None:
        """Read and forget what the room says from now on, for a bot that has no use for it.

        A client that does not read acknowledges nothing, and is resynced when the server has kept too much for it.
        """
        task = asyncio.ensure_future(_read(room))
        self._readers.add(task)
        task.add_done_callback(self._readers.discard)

    def end(self) -> None:
        """Stop reading."""
        for task in list(self._readers):
            task.cancel()


async def _read(room: ClientRoom) -> None:
    try:
        async for _ in room:
            pass
    except HoldfastError:
        pass  # the seat or the session is gone: the bot hears of it


Play = Callable[[BotSession], Any]
