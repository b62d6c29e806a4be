"""What all rooms of a server share."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from holdfast.core.addresses import AddressShares
from holdfast.core.errors import Throttled
from holdfast.observability.metrics import TurnMeter
from holdfast.server.agent_sessions import AgentSessions
from holdfast.server.context import Context
from holdfast.server.presence import Presence
from holdfast.server.rooms.outbox import Outbox
from holdfast.server.rooms.recordings import Recordings
from holdfast.server.rooms.saves import PlayerSaves
from holdfast.server.sessions import SessionLifecycle, StoredSessions

Trace = Callable[..., tuple[Callable[..., Any], Callable[..., None]]]
"""Wraps the turn of a message: takes what to run and what to call at its end, and returns what to use instead."""


class ReservedSeats:
    """The seats that players have reserved, counted by player and room. Those of operators ("") are not counted. Also
    on how many waitlists each player is."""

    def __init__(self, per_player_max: int) -> None:
        self._per_player_max = per_player_max
        self._rooms: dict[str, Counter[str]] = {}
        self.waiting: Counter[str] = Counter()

    def is_interested(self, player_id: str) -> bool:
        """Whether something here ends with the player's last session."""
        return player_id in self._rooms or player_id in self.waiting

    def waits(self, player_id: str) -> None:
        """The player is on a waitlist."""
        self.waiting[player_id] += 1

    def waits_no_more(self, player_id: str) -> None:
        # Unlike -= 1, this removes a player who waits nowhere.
        self.waiting -= Counter((player_id,))

    def count(self, player_id: str) -> int:
        """How many seats are reserved in this player's name, in all rooms."""
        return self._rooms.get(player_id, Counter()).total()

    def rooms(self, player_id: str) -> list[str]:
        return list(self._rooms.get(player_id, ()))

    def is_full(self, player_id: str) -> bool:
        return self.count(player_id) >= self._per_player_max

    def check(self, player_id: str, seats: int) -> None:
        if player_id and self.count(player_id) + seats > self._per_player_max:
            raise Throttled(f"a player may have {self._per_player_max} seats reserved at a time")

    def add(self, player_id: str, room_id: str) -> None:
        if player_id:
            self._rooms.setdefault(player_id, Counter())[room_id] += 1

    def remove(self, player_id: str, room_id: str) -> None:
        rooms = self._rooms.get(player_id)
        if rooms is None:
            return
        rooms[room_id] -= 1
        if rooms[room_id] <= 0:
            del rooms[room_id]
        if not rooms:
            del self._rooms[player_id]


class Brains:
    """The tasks that play the agents of all rooms. Each is cancelled by its room; what is left is awaited here."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, brain: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(brain)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # If the task is cancelled before it begins, Python would warn that the brain was never awaited.
        task.add_done_callback(lambda _: brain.close())
        return task

    async def stop(self, within_s: float) -> None:
        """Cancel what still runs, and wait for its end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=within_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomServices:
    """Given to every `RoomRunner` of a server."""

    context: Context
    grace_s: float
    """Of a session without a seat."""
    turn_meter: Callable[[str], TurnMeter]
    """By kind of room."""
    trace: Callable[[], Trace | None]
    """How messages are traced, if they are."""
    lifecycle: SessionLifecycle
    presence: Presence
    stored: StoredSessions
    player_saves: PlayerSaves
    outbox: Outbox
    recordings: Recordings
    reserved: ReservedSeats
    shares: AddressShares
    brains: Brains
    agents: AgentSessions
