"""The saved state of a session: what a client needs to continue it in another process."""

from typing import Self

import msgspec

from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.errors import Invalid
from holdfast.schemas.frames import Number, Position, hidden_from_rich


class SavedChannel(msgspec.Struct, frozen=True):
    """One channel: how far its inward stream was processed, and what the server has not acknowledged."""

    number: Number
    generation: Number
    received: Number
    last_seq: Number
    room: str
    kind: str
    outbox: list[tuple[str, bytes]]
    # Whether the stream was restarted and the reader does not know yet.
    is_restarted: bool = False

    def __repr__(self) -> str:
        return f"SavedChannel({self.number}.{self.generation}, in {self.received}, out {self.last_seq})"


class SavedState(msgspec.Struct, frozen=True):
    """A whole session. It holds secrets: keep it like a password."""

    codec: str = msgspec.field(name="dialect")
    session: str
    token: str
    player: str
    scheme: str
    credential: str
    channels: list[SavedChannel]
    finished: list[Position]
    # Of the last welcome: which history the positions belong to, and the highest request that was answered.
    lineage: str = ""
    requests: Number = 0

    @classmethod
    def read(cls, state: bytes) -> Self:
        """What `write` wrote; `Invalid` if it is anything else."""
        try:
            saved = msgspec.msgpack.decode(state, type=cls)
        except DECODE_ERRORS as error:
            raise Invalid(f"this is not a saved session: {error}") from None
        if any(len(channel.outbox) > channel.last_seq for channel in saved.channels):
            raise Invalid("this is not a saved session: it keeps more messages than it has sent")
        return saved

    def write(self) -> bytes:
        """The state as bytes, for a file."""
        return msgspec.msgpack.encode(self)

    def __repr__(self) -> str:
        return f"SavedState(session={self.session!r}, token=***, player={self.player!r}, channels={self.channels})"

    __rich_repr__ = hidden_from_rich
