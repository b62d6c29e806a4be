"""Outlets: where the messages to a seat go; and the backlog of those from it."""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from holdfast.core.block import Block
from holdfast.core.codec import Codec
from holdfast.core.messages import Message
from holdfast.schemas.session import ChannelRecord

Waiting = tuple[Callable[..., Any], tuple[Any, ...], Callable[..., None], tuple[Any, ...]]
"""A function and its argument; a callback for the end and its argument."""


class Backlog:
    """Messages from one seat that wait for the room, in order. Each has a turn in the room's queue, or is stalled.

    Messages stall while the player has more than a window to read: their answers would only add to it. They are bounded
    by the client's own window, because none of them is acknowledged.
    """

    __slots__ = ("is_leaving", "messages", "stalled", "stalled_at")

    def __init__(self) -> None:
        self.messages: deque[Waiting] = deque()
        self.stalled = 0
        """How many of them have no turn."""
        self.stalled_at = 0.0
        """When the player last acknowledged something, or the first message stalled."""
        self.is_leaving = False
        """Whether the player is leaving: then their messages are applied whatever they have read."""

    def stall(self, now: float) -> None:
        """One more message has no turn until the player reads."""
        if not self.stalled:
            self.stalled_at = now
        self.stalled += 1


class Outlet(Protocol):
    """Where a player's messages go: a channel to a client, or an agent's inbox."""

    waiting_bytes: int
    """Bytes received from this end that wait for the room."""
    latest_waiting_bytes: int
    """The same for unreliable messages, which are not part of the window."""
    backlog: Backlog | None
    """The waiting messages; None if there are none."""

    @property
    def codec(self) -> Codec | None:
        """The encoding that this end reads; None for an agent, which receives objects."""

    @property
    def is_following(self) -> bool:
        """Whether this end has a copy of the room's shared state."""

    @property
    def is_full(self) -> bool:
        """Whether this end has a window or more to read: its own messages wait until it has read."""

    def overflow(self) -> None:
        """This end does not read: keep nothing more for it, until it is resynced."""

    def mute(self) -> None:
        """Keep nothing until `unmute`: the current state follows, which has all that is said until then."""

    def unmute(self) -> None:
        """Keep messages again."""

    def send(self, message: Message) -> None:
        """Deliver exactly once, in order."""

    def prepare(self, message: Message, bodies: dict[Codec, bytes]) -> None:
        """Encode a message to many players, once per codec, into `bodies`; raises if it cannot be sent."""

    def push_block(self, block: Block) -> None:
        """Deliver what others are sent, too, in this codec. Not called for an agent."""

    def send_latest(self, message: Message, key: str) -> None:
        """Deliver soon or never; a newer message of the same type and key replaces it."""

    def send_latest_shared(self, message: Message, key: str, bodies: dict[Codec, bytes]) -> None:
        """Like `send_latest`, with the bodies that `prepare` has encoded."""

    def finish(self, farewell: Message) -> None:
        """The seat is freed: the stream ends with this message."""

    def applied(self, seq: int) -> None:
        """The room has applied the player's message with this number."""

    def record(self) -> ChannelRecord | None:
        """Both streams as they are saved; None for an agent, who has none."""

    def record_version(self) -> tuple[int, ...]:
        """Differs when `record` does, and is cheap; empty for an agent."""
