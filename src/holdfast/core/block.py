"""A block: messages that follow each other in the streams of several clients, encoded once for all of them."""

from typing import Any, final

from msgspec import Raw

from holdfast.core.codec import Codec
from holdfast.schemas.frames import BlockFrame, Data

MESSAGE_OVERHEAD_BYTES = 64
"""The size of a message besides its body: its frame's head, and the tuple that keeps it."""

Said = tuple[str, bytes]
"""One message: its wire name and its encoded body."""


@final
class Block:
    """Some messages in one codec. Channels keep a reference to it; it may grow until the first of them does.

    Each channel gives the messages numbers of its own: only the head of the frame is written for one client.
    """

    __slots__ = ("_codec", "_written", "messages", "size")

    def __init__(self, codec: Codec, *messages: Said) -> None:
        self._codec = codec
        self.messages = [*messages]
        self.size = sum(len(body) + MESSAGE_OVERHEAD_BYTES for _, body in messages)
        # Instead of the body, or the messages, of a frame.
        self._written: Any = None

    def add(self, name: str, body: bytes) -> None:
        """Say one more."""
        self.messages.append((name, body))
        self.size += len(body) + MESSAGE_OVERHEAD_BYTES

    def frame(self, channel: int, first: int, ack: int) -> Data | BlockFrame:
        """The messages, numbered from `first`: one alone is an ordinary frame."""
        messages, written = self.messages, self._written
        if len(messages) == 1:
            if written is None:
                written = self._written = Raw(messages[0][1])
            return Data(channel, first, ack, messages[0][0], written)
        if written is None:
            written = self._written = Raw(self._codec.encode([(name, Raw(body)) for name, body in messages]))
        return BlockFrame(channel, first, ack, written)


Entry = Said | Block
"""What has its place in a stream: one message, or several that other streams have too."""


def weight(entry: Entry) -> tuple[int, int]:
    """How many messages these are, and their bytes."""
    if isinstance(entry, Block):
        return len(entry.messages), entry.size
    return 1, len(entry[1]) + MESSAGE_OVERHEAD_BYTES


def messages_of(entries: "list[Entry]") -> list[Said]:
    """All messages, one by one."""
    found: list[Said] = []
    for entry in entries:
        if isinstance(entry, Block):
            found += entry.messages
        else:
            found.append(entry)
    return found
