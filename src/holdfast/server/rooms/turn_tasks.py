"""Turns that take their time: what their tasks do."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def take_time(
    work: Coroutine[Any, Any, Any],
    turn_s: float,
    ended: Callable[[Exception | None, Any], None],
    is_cut_off: Callable[[], bool],
) -> None:
    """Await what a turn has begun, for at most `turn_s`. Cancelled by its room (`is_cut_off`), it has no end."""
    error: Exception | None = None
    result: Any = None
    try:
        async with asyncio.timeout(turn_s):
            result = await work
    except asyncio.CancelledError as cancelled:
        if is_cut_off():
            raise
        error = of_something_else(cancelled)
    except Exception as raised:  # noqa: BLE001 - whatever a game raises is contained in its turn
        error = raised
    ended(error, result)


def of_something_else(cancelled: asyncio.CancelledError) -> Exception:
    """The turn awaited something that was cancelled; the turn itself was not. A failure like any other."""
    error = RuntimeError("it awaited something that was cancelled")
    error.__cause__ = cancelled
    return error
