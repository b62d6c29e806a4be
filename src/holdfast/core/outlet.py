"""Where the messages to a seat go, and where those from it wait for the room."""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from holdfast.core.codec import Codec
from holdfast.core.messages import Message

Waiting = tuple[Callable[..., Any], tuple[Any, ...], Callable[..., None], tuple[Any, ...]]
"""What to run and with what; what to call at the end and with what."""


class Backlog:
    """Messages from one seat that wait for the room, in order. Each has a turn in the room's queue, or is stalled.

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


class Outlet(Protocol):
    """Where a player's messages go: a channel to a client far away, or an agent in this process."""

    waiting_bytes: int
    """What was said from that end and waits for the room's turn."""
    latest_waiting_bytes: int
    """The same of what is unreliable, which is no part of the window."""
    backlog: Backlog | None
    """The same, message by message; None if nothing waits."""

    @property
    def is_full(self) -> bool:
        """Whether that end has as much to read as its window, or more: what it says waits until it has read."""

    def overflow(self) -> None:
        """That end does not read: keep nothing more for it, until it is resynced."""

    def send(self, message: Message) -> None:
        """Deliver exactly once, in order."""

    def prepare(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        """Encode a message to many, once per dialect, into `bodies`; raises if it cannot be sent."""

    def send_shared(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        """The same as `send`, with what was prepared."""

    def send_latest(self, message: Message, key: str) -> None:
        """Deliver soon or never; a newer message with the same type and key takes its place."""

    def finish(self, farewell: Message) -> None:
        """The seat is freed: the stream ends with this message."""

    def applied(self, seq: int) -> None:
        """The room has applied the player's message with this number."""
