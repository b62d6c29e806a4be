"""Outside effects: what a room wants done beyond this server, after the turn that wanted it is saved.

An effect is a row that is written in one commit with the room, and deleted when it was carried out. A crash in between
carries it out again, with the same key: who is asked must know a key it has seen (R10).
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
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
    """Something to be done outside."""

    key: str
    """The same for every attempt, and for no other effect: pass it on as the idempotency key."""
    name: str
    payload: Any
    room_id: str
    attempt: int = 1


Carry = Callable[[Effect], Awaitable[None]]


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
        self._of_room: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._tasks)

    def check(self, name: str, room_id: str, wanted: int = 0) -> None:
        """Whether somebody is there to carry it out, and not too many of the room wait: here, and so many there."""
        if name not in self._effects:
            known = ", ".join(sorted(self._effects)) or "none"
            raise LookupError(f"no effect is called {name!r}; there is {known}: give it to Server(effects=…)")
        waiting = self._of_room[room_id] + wanted
        if waiting >= self._limits.effects_max:
            raise Throttled(f"{waiting} effects of this room wait to be carried out; raise Limits.effects_max")

    def start(self, key: str, record: EffectRecord, revision: int | None) -> None:
        """Carry an effect out; `revision` is where the store has it, None if it is in memory only."""
        if key not in self._tasks:
            self._of_room[record.room] += 1
            self._tasks[key] = self._loop.create_task(self._carry_out(key, record, revision))

    async def _carry_out(self, key: str, record: EffectRecord, revision: int | None) -> None:
        try:
            await self._until_done(key, record)
            if revision is not None:
                await self._forget(key, revision)
        finally:
            del self._tasks[key]
            self._of_room[record.room] -= 1
            if not self._of_room[record.room]:
                del self._of_room[record.room]

    async def _until_done(self, key: str, record: EffectRecord) -> None:
        payload = msgspec.msgpack.decode(record.payload)
        attempt = 1
        while True:
            carry = self._effects.get(record.name)
            if carry is None:
                log.error("an effect waits: nobody carries it out; see Server(effects=…)", effect=key, name=record.name)
            else:
                try:
                    async with asyncio.timeout(self._limits.effect_s):
                        await carry(Effect(key, record.name, payload, record.room, attempt))
                except (Exception, asyncio.CancelledError) as error:
                    task = asyncio.current_task()
                    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                        raise
                    self._counters.effects_failed += 1
                    log.warning("an effect failed", effect=key, name=record.name, attempt=attempt, error=repr(error))
                else:
                    self._counters.effects_done += 1
                    return
            await asyncio.sleep(pause_s(attempt, self._limits.effect_retry_max_s, self._random))
            attempt += 1

    async def _forget(self, key: str, revision: int) -> None:
        assert self._store is not None
        while True:
            try:
                await self._store.delete(key, revision)
            except RevisionConflict:
                return
            except Broken as error:
                self._broken(error)
                return
            except StoreError as error:
                log.warning("an effect was carried out but cannot be struck off; trying again", effect=key, error=error)
                await asyncio.sleep(self._limits.store_retry_s)
            else:
                return

    async def stop(self) -> None:
        """Leave what is not done to the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def pause_s(attempt: int, max_s: float, random: Random) -> float:
    """How long to wait after an attempt: longer each time, and never in step with others."""
    return random.uniform(0.5, 1.0) * min(max_s, _FIRST_RETRY_S * 2.0 ** min(attempt - 1, 32))


def effect_record(name: str, payload: Any, room_id: str) -> EffectRecord:
    """An effect as it is stored; a payload that cannot be is an error now, in the turn that wants it."""
    try:
        encoded = msgspec.msgpack.encode(payload)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"the payload of effect {name!r} cannot be saved: {error}") from None
    return EffectRecord(name, room_id, Raw(encoded))
