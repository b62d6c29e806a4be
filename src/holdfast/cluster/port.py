"""The port of a bus: what nodes say to all others, and ask one of them. Nothing on it lasts.

A message reaches everybody who listens at that moment, and nobody else; it may be lost with a link, but it is never
duplicated, and one sender's messages come in their order. What must not be lost belongs into a store.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol


class BusError(Exception):
    """The errors of a bus."""


class NobodyThere(BusError):
    """Nobody listens for such questions: the node is gone, or has lost its link to the bus."""


class NoReply(BusError):
    """No reply came in time, or this node has no link itself: the other one may live, and may have heard it."""


Heard = Callable[[str, bytes], None]
"""Called with the topic and the payload of a message."""
Answer = Callable[[bytes], bytes | Awaitable[bytes]]
"""Returns the reply to a question, at once or later; the next question is heard meanwhile."""


class Bus(Protocol):
    """The port. Topics are words with dots between, as in "beat.KbVh3"."""

    async def open(self) -> None:
        """Connect, or raise an error of the kind of bus."""

    async def close(self) -> None:
        """Listen and answer no more. Idempotent."""

    def on_reconnect(self, heard: Callable[[], None]) -> None:
        """Call this when the link was lost and is back: what was said meanwhile was not heard."""

    async def reaches_most(self) -> bool:
        """Whether this link reaches what decides for the whole cluster: whoever is not heard over it is not to be had.

        A node that is cut off from the others, and not from the store, is told so by this.
        """

    async def tell(self, topic: str, payload: bytes) -> None:
        """Say it to all who listen; it is lost if there is no link."""

    async def listen(self, topic: str, heard: Heard) -> None:
        """Hear what is said on a topic, also by this node; "beat.*" is every topic of two words that begins so."""

    async def answer(self, topic: str, answer: Answer) -> None:
        """Reply to questions on a topic."""

    async def ask(self, topic: str, payload: bytes, within_s: float) -> bytes:
        """The reply of somebody who answers there; `NobodyThere` or `NoReply`."""
