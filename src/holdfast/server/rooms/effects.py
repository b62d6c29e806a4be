"""What a room has done outside the server: effects, and the game's own saves of players' data.

An effect is a row that is written in one commit with the room, and deleted when it has been carried out. After a crash
in between it is carried out again, with the same key: the receiver must recognise a key that it has seen (R10).
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from holdfast.core.errors import Throttled
from holdfast.core.room import Room, player_data_type
from holdfast.core.room_context import RoomContext
from holdfast.core.session import Player, seat_of
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
Failure = Callable[[Exception, str, str], None]
Save = Callable[[], Coroutine[Any, Any, None]]


class KeptRoom(Protocol):
    """How a room is kept: `Persistence`."""

    @property
    def effects_waiting(self) -> int:
        """How many effects wait for the next commit."""

    def effect(self, record: EffectRecord, follow: Callable[..., None], /) -> None:
        """Carry out an effect once the current turn is over, and saved where the room is."""


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
                    if _is_cancelled(error):
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

    async def stop(self) -> None:
        """Cancel what is not done; the next server carries it out."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _is_cancelled(error: BaseException) -> bool:
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


class RoomEffects:
    """The effects of one room."""

    def __init__(
        self, context: RoomContext, outbox: Outbox, persistence: KeptRoom, follow: Callable[..., None]
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._persistence = persistence
        self._follow = follow

    def want(self, name: str, payload: Any) -> None:
        """Carry out an effect once the turn is over, and saved where the room is."""
        turn, room_id = self._context.transaction, self._context.room_id
        held = turn.marks.get(self._outbox, 0) if turn is not None else 0
        self._outbox.check(name, room_id, self._persistence.effects_waiting + held)
        record = effect_record(name, payload, room_id)
        if turn is not None:
            turn.mark(self._outbox)
        self._context.later(self._persistence.effect, record, self._follow)


# Saves of players' data


class PlayerSaves:
    """The saves of a node: one at a time for each player, whichever rooms ask for them; the newest data comes last.

    A room may end before the last of its players is saved.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: dict[str, Save] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def want(self, player_id: str, save: Save) -> None:
        """Save a player now, or when the save under way is over."""
        self._waiting[player_id] = save
        if player_id not in self._tasks:
            self._tasks[player_id] = self.loop.create_task(self._save(player_id))

    async def _save(self, player_id: str) -> None:
        try:
            while (save := self._waiting.pop(player_id, None)) is not None:
                await save()
        finally:
            del self._tasks[player_id]

    async def stop(self, within_s: float) -> None:
        """Wait for the saves under way, then cancel the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=within_s)
        for task in list(self._tasks.values()):
            task.cancel()


class RoomSaves:
    """Calls `Room.save` for the players of one room on a drop, on a leave and at the room's rate, with a copy of their
    data, beside the room's turns.
    """

    def __init__(
        self,
        room: Room[Any],
        saves: PlayerSaves,
        *,
        take_turn: Callable[[Callable[[], None]], None],
        timeout_s: float,
        failed: Failure,
    ) -> None:
        self._room = room
        self._saves = saves
        self._take_turn = take_turn
        self._timeout_s = timeout_s
        self._failed = failed
        self._is_wanted = type(room).save is not Room.save
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Save everybody at the room's rate from now on."""
        if self._is_wanted and self._room.save_s > 0:
            self._timer = self._saves.loop.call_later(self._room.save_s, self._due)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self.start()
        if self._room.transactional:
            # Not in the middle of a turn, which may still fail.
            self._take_turn(self._save_all)
        else:
            self._save_all()

    def _save_all(self) -> None:
        for player in self._room.players:
            self.save(player)

    def save(self, player: Player[Any]) -> None:
        # A room's own agents have no account.
        if not self._is_wanted or seat_of(player).agent:
            return
        try:
            copy = msgspec.msgpack.decode(msgspec.msgpack.encode(player.data), type=player_data_type(type(self._room)))
        except Exception as error:  # noqa: BLE001 - the game's data, which cannot be copied
            self._failed(error, "save", player.id)
        else:
            self._saves.want(player.id, partial(self._save, player.id, copy))

    async def _save(self, player_id: str, data: Any) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                result = self._room.save(player_id, data)
                if inspect.isawaitable(result):
                    await result
        except Exception as error:  # noqa: BLE001 - the game's code
            self._failed(error, "save", player_id)
        except asyncio.CancelledError as error:
            if _is_cancelled(error):
                raise
            self._failed(RuntimeError("it asked for the result of something that was cancelled"), "save", player_id)
