"""The game's own saves of players' data: `Room.save`, called beside the room's turns."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from holdfast.core.room import Room, player_data_type
from holdfast.core.session import Player, seat_of
from holdfast.server.rooms.outbox import is_cancelled

Failure = Callable[[Exception, str, str], None]
Save = Callable[[], Coroutine[Any, Any, None]]


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
            if is_cancelled(error):
                raise
            self._failed(RuntimeError("it awaited something that was cancelled"), "save", player_id)
