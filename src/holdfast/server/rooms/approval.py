"""A room's approval of a newcomer: its `admit`, with a deadline; and what may come between."""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.core.errors import Failed, Refused, Throttled
from holdfast.core.room import Room
from holdfast.core.session import Player


class Interrupted(Exception):
    """The session dropped while it was joining; nothing has changed."""


async def approve(
    room: Room[Any], player: Player[Any], within_s: float, failed: Callable[[Exception, str, str], None]
) -> None:
    """Ask the game whether this player may join; `Refused` if not."""
    try:
        answer = room.admit(player)
        if asyncio.iscoroutine(answer):
            async with asyncio.timeout(within_s):
                await answer
    except Refused:
        raise
    except TimeoutError:
        raise Throttled("the room took too long to decide; try again") from None
    except Exception as error:  # noqa: BLE001 - the game's code
        failed(error, "admit", player.id)
        raise Failed("admit failed") from None
