"""Which commit room takes a turn at this moment: a message that it sends to a session must wait until that is saved."""

from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

from holdfast.server.durability.room_writer import RoomWriter
from holdfast.server.rooms.turns import Done, Turns


class CurrentTurn:
    """The commit room of one server whose code is running now."""

    __slots__ = ("plain",)

    def __init__(self) -> None:
        self.plain: RoomWriter | None = None
        """In a turn that runs without a pause."""

    @property
    def room(self) -> RoomWriter | None:
        """None if no room is saved with every turn, or no turn of one has led here."""
        if self.plain is not None:
            return self.plain
        turn = _awaiting.get()
        return turn.writer if turn is not None and turn.of is self and not turn.is_over else None


class _AsyncTurn:
    """A turn that is a task, and those that it starts and awaits."""

    __slots__ = ("is_over", "of", "writer")

    def __init__(self, of: CurrentTurn, writer: RoomWriter) -> None:
        self.of = of
        self.writer = writer
        self.is_over = False


_awaiting: ContextVar[_AsyncTurn | None] = ContextVar("holdfast_turn", default=None)


class GatedTurns(Turns):
    """The turns of a durable room."""

    current: CurrentTurn
    writer: RoomWriter | None = None
    """Both are set before the first turn; no writer for a room whose messages do not wait for the store."""

    def take(self, run: Any, args: tuple[Any, ...], done: Done | None = None, done_args: tuple[Any, ...] = ()) -> None:
        current = self.current
        before = current.plain
        if self.writer is not None:
            current.plain = self.writer
        try:
            super().take(run, args, done, done_args)
        finally:
            current.plain = before

    async def _await(self, work: Coroutine[Any, Any, Any], done: Done | None, done_args: tuple[Any, ...]) -> None:
        if self.writer is not None:
            turn = _AsyncTurn(self.current, self.writer)
            # Of this task alone, and of those that it starts.
            _awaiting.set(turn)
            work = _marked(work, turn)
        await super()._await(work, done, done_args)


async def _marked(work: Coroutine[Any, Any, Any], turn: _AsyncTurn) -> Any:
    try:
        return await work
    finally:
        # Tasks that outlive the turn are no part of it.
        turn.is_over = True
