"""What became of the messages that a seat has sent."""

from typing import NamedTuple

from msgspec import Raw

from holdfast.client.vocabulary import Vocabulary
from holdfast.core.channel import Channel
from holdfast.core.messages import Message


class Unconfirmed(NamedTuple):
    """A message that the server has not acknowledged yet."""

    number: int
    message: Message
    """`Untyped`, unless its type is among the `messages` of `connect`."""


class Outbox:
    """A channel's outward half, to be asked; it keeps its answers when the channel is over."""

    def __init__(self, channel: Channel, vocabulary: Vocabulary) -> None:
        self._channel = channel
        self._vocabulary = vocabulary

    @property
    def sent(self) -> int:
        """The last number that was given out."""
        return self._channel.last_seq

    @property
    def accepted(self) -> int:
        """The last number that the server has applied, as far as it told us."""
        return self._channel.acked

    def unconfirmed(self) -> list[Unconfirmed]:
        """The messages in between."""
        kept = self._channel.kept_messages()
        first = self._channel.last_seq - len(kept) + 1
        return [
            Unconfirmed(number, self._vocabulary.message(name, Raw(body)))
            for number, (name, body) in enumerate(kept, first)
        ]
