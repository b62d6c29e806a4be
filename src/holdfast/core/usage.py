"""How much a session has sent and received, over all its connections and channels."""

from msgspec import Struct


class Usage(Struct, frozen=True, gc=False):
    """Numbered messages and bytes of payloads, from the client and to it."""

    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.messages_in + other.messages_in,
            self.messages_out + other.messages_out,
            self.bytes_in + other.bytes_in,
            self.bytes_out + other.bytes_out,
        )


NO_USAGE = Usage()
"""Shared by all sessions that have lost no connection and no channel."""
