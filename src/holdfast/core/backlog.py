"""What a player has said and the room has not taken its turn for: the room is busy, or the player must read first."""

from collections import deque
from collections.abc import Callable
from typing import Any

Waiting = tuple[Callable[..., Any], tuple[Any, ...], Callable[..., None], tuple[Any, ...]]
"""What to run and with what; what to call at the end and with what."""


class Backlog:
    """The messages of one player, in order. Each has a turn in the room's queue, or is stalled and has none.

    Messages stall while the player has more to read than a window: their answers would only add to it. The client's own
    window bounds them, for nothing of this is acknowledged.
    """

    __slots__ = ("is_leaving", "messages", "stalled", "stalled_at")

    def __init__(self) -> None:
        self.messages: deque[Waiting] = deque()
        self.stalled = 0
        """How many of them have no turn."""
        self.stalled_at = 0.0
        """When the player was last seen to read, or the first message stalled."""
        self.is_leaving = False
        """Whether the player leaves: what they said is applied first, whatever they have read."""

    def stall(self, now: float) -> None:
        """One more has no turn until the player reads."""
        if not self.stalled:
            self.stalled_at = now
        self.stalled += 1
