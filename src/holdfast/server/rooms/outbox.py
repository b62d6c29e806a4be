"""Effects: what rooms have done outside the server, each until it succeeds.

An effect is a row that is written in one commit with the room, and deleted when it has been carried out. After a crash
in between it is carried out again, with the same key: the receiver must recognise a key that it has seen (R10).
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
from msgspec import Raw

from holdfast.core.errors import Throttled
from holdfast.logs import get_logger
from holdfast.schemas.room import EffectRecord
from holdfast.server.context import Context
from holdfast.stores.port import Broken, RevisionConflict, Store, StoreError

log = get_logger("holdfast.server")

_FIRST_RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class Effect:
    """A request to the outside world, made by a room."""

    key: str
    """The same for every attempt, and different for every effect: pass it on as the idempotency key."""
    name: str
    payload: Any
    room_id: str
    attempt: int = 1


Carry = Callable[[Effect], Awaitable[None]]
StartedEffect = tuple[str, EffectRecord, int | None]
"""An effect that is being carried out: its key, the effect, and its revision in the store."""


class Outbox:
    """Carries out the effects of a node's rooms, each until it succeeds."""

    def __init__(
        self,
        context: Context,
        effects: Mapping[str, Carry],
        *,
        store: Store | None,
        broken: Callable[[Broken], None],
    ) -> None:
        """`broken` is called when the store may have lost what was saved."""
        self._loop = context.clock.loop
        self._limits = context.limits
        self._counters = context.counters
        self._random = context.random
        self._effects = dict(effects)
        self._store = store
        self._broken = broken
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._started: dict[str, StartedEffect] = {}
        self._done: set[str] = set()
        """Those that only have to be struck off."""
        self._of_room: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._tasks)

    def has(self, key: str) -> bool:
        """Whether an effect is being carried out here."""
        return key in self._tasks

    def check(self, name: str, room_id: str, wanted: int = 0) -> None:
        """Refuse an effect that nobody carries out, or one too many of a room of which `wanted` are not saved yet."""
        if name not in self._effects:
            known = ", ".join(sorted(self._effects)) or "none"
            raise LookupError(f"no effect is called {name!r}; there is {known}: give it to Server(effects=…)")
        waiting = self._of_room[room_id] + wanted
        if waiting >= self._limits.effects_max:
            raise Throttled(f"{waiting} effects of this room wait to be carried out; raise Limits.effects_max")

    def start(self, key: str, record: EffectRecord, revision: int | None) -> None:
        """Carry out an effect; `revision` is that of its row in the store, None if it is in memory only."""
        if key not in self._tasks:
            self._of_room[record.room] += 1
            self._started[key] = (key, record, revision)
            self._tasks[key] = self._loop.create_task(self._carry_out(key, record, revision))

    async def _carry_out(self, key: str, record: EffectRecord, revision: int | None) -> None:
        try:
            await self._until_done(key, record)
            self._done.add(key)
            if revision is not None:
                await self._forget(key, revision)
        finally:
            del self._tasks[key], self._started[key]
            self._done.discard(key)
            self._of_room[record.room] -= 1
            if not self._of_room[record.room]:
                del self._of_room[record.room]

    async def _until_done(self, key: str, record: EffectRecord) -> None:
        payload = msgspec.msgpack.decode(record.payload)
        carry = self._effects.get(record.name)
        attempt = 1
        while True:
            if carry is None:
                log.error("an effect waits: nobody carries it out; see Server(effects=…)", effect=key, name=record.name)
            else:
                try:
                    async with asyncio.timeout(self._limits.effect_s):
                        await carry(Effect(key, record.name, payload, record.room, attempt))
                    self._counters.effects_done += 1
                    return
                except (Exception, asyncio.CancelledError) as error:
                    if is_cancelled(error):
                        raise
                    self._counters.effects_failed += 1
                    log.warning("an effect failed", effect=key, name=record.name, attempt=attempt, error=repr(error))
            await asyncio.sleep(pause_s(attempt, self._limits.effect_retry_max_s, self._random))
            attempt += 1

    async def _forget(self, key: str, revision: int) -> None:
        assert self._store is not None
        while True:
            try:
                await self._store.delete(key, revision)
                return
            except RevisionConflict:
                return
            except Broken as error:
                self._broken(error)
                return
            except StoreError as error:
                log.warning("an effect was carried out but cannot be struck off; trying again", effect=key, error=error)
                await asyncio.sleep(self._limits.store_retry_s)

    async def pause(self, room_ids: Collection[str]) -> list[StartedEffect]:
        """Stop carrying out the effects of these rooms; returns those that are not done."""
        if not any(self._of_room[room_id] for room_id in room_ids):
            return []
        started = [each for each in self._started.values() if each[1].room in room_ids]
        paused = [each for each in started if each[0] not in self._done]
        # The others only have to be struck off.
        tasks = {key: self._tasks[key] for key, _, _ in started}
        for key, _, _ in paused:
            tasks[key].cancel()
        await asyncio.wait(tasks.values())
        return paused

    async def stop(self) -> None:
        """Cancel what is not done; the next server carries it out."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def is_cancelled(error: BaseException) -> bool:
    """Whether this task was cancelled, not something whose result it asked for."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def pause_s(attempt: int, max_s: float, random: Random) -> float:
    """How long to wait after an attempt: exponential backoff with jitter."""
    return random.uniform(0.5, 1.0) * min(max_s, _FIRST_RETRY_S * 2.0 ** min(attempt - 1, 32))


def effect_record(name: str, payload: Any, room_id: str) -> EffectRecord:
    """An effect as it is stored; `TypeError` if its payload cannot be."""
    try:
        encoded = msgspec.msgpack.encode(payload)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"the payload of effect {name!r} cannot be saved: {error}") from None
    return EffectRecord(name, room_id, Raw(encoded))
