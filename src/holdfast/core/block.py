"""A block: messages that follow each other in the streams of several clients, encoded once for all of them."""

from typing import cast

from msgspec import Raw

from holdfast.core.codec import Codec
from holdfast.schemas.frames import BlockFrame, BlockMessage, Data

Said = tuple[str, bytes]
"""One message: its wire name and its encoded body."""


class Block:
    """Some messages in one codec. Channels keep a reference to it; it may grow until the first of them does.

    Each channel gives the messages numbers of its own: only the head of the frame is written for one client.
    """

    __slots__ = ("_codec", "_written", "body_bytes", "messages")

    def __init__(self, codec: Codec, *messages: Said) -> None:
        self._codec = codec
        self.messages = [*messages]
        self.body_bytes = sum(len(body) for _, body in messages)
        self._written: Raw | None = None

    def add(self, name: str, body: bytes) -> None:
        """Say one more."""
        self.messages.append((name, body))
        self.body_bytes += len(body)

    def frame(self, channel: int, first: int, ack: int) -> Data | BlockFrame:
        """The messages, numbered from `first`: one alone is an ordinary frame."""
        messages, written = self.messages, self._written
        if len(messages) == 1:
            if written is None:
                written = self._written = Raw(messages[0][1])
            return Data(channel, first, ack, messages[0][0], written)
        if written is None:
            written = self._written = Raw(self._codec.encode([(name, Raw(body)) for name, body in messages]))
        # Encoded already.
        return BlockFrame(channel, first, ack, cast("list[BlockMessage]", written))


Entry = Said | Block
"""What has its place in a stream: one message, or several that other streams have too."""


def messages_of(entries: "list[Entry]") -> list[Said]:
    """All messages, one by one."""
    found: list[Said] = []
    for entry in entries:
        if isinstance(entry, Block):
            found += entry.messages
        else:
            found.append(entry)
    return found
