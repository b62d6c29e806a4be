"""A channel: the two gapless message streams between one seat and its room. Both ends run this same class.

Outward, messages get the numbers 1, 2, 3 … and are kept until the peer has acknowledged them; at most a window of
them is in flight. Inward, a message is accepted if it is the next one, so the memory against doubles is one integer:

    number              verdict
    accepted + 1        new: accept it
    <= accepted         a double: acknowledge again, do nothing else
    > accepted + 1      a gap: the peer is broken, its connection closes and it resumes

`accepted` and `applied` differ while a room is busy: a message is accepted when it is given its place in the room's
order, and acknowledged only once it has been applied. When more piles up than may be kept, the outward stream has
`overflowed`: nothing more is kept, and at the next resume it begins anew in its next generation.
"""

from collections import deque

from holdfast.core.errors import ProtocolError
from holdfast.core.limits import Limits
from holdfast.core.reasons import Reason

# What a message weighs beside its body: its frame's head and the tuple that keeps it.
MESSAGE_OVERHEAD_BYTES = 64


class Channel:
    """One end of both streams."""

    __slots__ = (
        "_flight_bytes",
        "_kept",
        "_kept_bytes",
        "_limits",
        "accepted",
        "ack_sent",
        "acked",
        "applied",
        "generation",
        "is_finished",
        "last_seq",
        "number",
        "overflowed",
        "sent",
    )

    def __init__(self, number: int, limits: Limits) -> None:
        self.number = number
        self.generation = 1
        self._limits = limits
        # Outward: numbers up to `acked` are done with, up to `sent` are in flight, up to `last_seq` are kept.
        self.last_seq = 0
        self.acked = 0
        self.sent = 0
        self._kept: deque[tuple[str, bytes]] = deque()
        self._kept_bytes = 0
        self._flight_bytes = 0
        self.overflowed = False
        self.is_finished = False
        # Inward.
        self.accepted = 0
        self.applied = 0
        self.ack_sent = 0

    # Outward

    @property
    def kept(self) -> int:
        """Messages not yet acknowledged, sent or not."""
        return len(self._kept)

    @property
    def kept_bytes(self) -> int:
        """What the kept messages weigh."""
        return self._kept_bytes

    @property
    def is_full(self) -> bool:
        """Whether one more message might overflow the stream; a sender that can wait should."""
        return len(self._kept) >= self._limits.window_messages_max or self._kept_bytes >= self._limits.window_bytes_max

    def push(self, name: str, body: bytes) -> bool:
        """Give a message its number and keep it; False if the stream has overflowed and keeps nothing."""
        if self.overflowed:
            return False
        self.last_seq += 1
        self._kept.append((name, body))
        self._kept_bytes += len(body) + MESSAGE_OVERHEAD_BYTES
        if self._kept_bytes > self._limits.kept_bytes_max or len(self._kept) > self._limits.kept_messages_max:
            self.overflowed = True
            self._kept.clear()
            self._kept_bytes = 0
            return False
        return True

    @property
    def is_over(self) -> bool:
        """Whether the last message has been acknowledged."""
        return self.is_finished and not self._kept

    def take(self) -> list[tuple[int, str, bytes]]:
        """The messages that may be written now, in order; they count as sent."""
        taken: list[tuple[int, str, bytes]] = []
        if self.overflowed:
            return taken
        limits = self._limits
        kept = self._kept
        # From the right: a deque is quick at its ends, and what waits is at the right one.
        first = self.sent - self.last_seq
        last = min(0, first + limits.window_messages_max - (self.sent - self.acked))
        for place in range(first, last):
            if self._flight_bytes >= limits.window_bytes_max:
                break
            name, body = kept[place]
            self.sent += 1
            self._flight_bytes += len(body) + MESSAGE_OVERHEAD_BYTES
            taken.append((self.sent, name, body))
        return taken

    def acknowledge(self, ack: int) -> bool:
        """The peer has applied everything up to this number; True if messages wait for the window it opens."""
        if ack > self.sent and not self.overflowed:
            raise ProtocolError(f"message {ack} was acknowledged but never sent", Reason.SEQUENCE)
        kept = self._kept
        while self.acked < ack and kept:
            size = len(kept.popleft()[1]) + MESSAGE_OVERHEAD_BYTES
            self.acked += 1
            self._kept_bytes -= size
            self._flight_bytes -= size
        return self.sent < self.last_seq

    def resume(self, generation: int, received: int | None) -> int | None:
        """A new connection continues after `received`: how many messages it will be sent, or None if they are gone."""
        if self.overflowed or received is None or generation != self.generation:
            return None
        if not self.acked <= received <= self.last_seq:
            return None
        self.sent = received
        self.acknowledge(received)
        self._flight_bytes = 0
        self.ack_sent = self.applied
        return self.last_seq - received

    def resync(self) -> None:
        """Begin the outward stream anew; what was kept is given up, and the peer will be told."""
        self.generation += 1
        self.last_seq = self.acked = self.sent = 0
        self._kept.clear()
        self._kept_bytes = self._flight_bytes = 0
        self.overflowed = False
        self.ack_sent = self.applied

    def skip_to(self, applied: int) -> None:
        """The peer applied more than we remember sending (our state is older): never use those numbers again."""
        if applied > self.last_seq:
            self._kept.clear()
            self._kept_bytes = self._flight_bytes = 0
            self.last_seq = self.acked = self.sent = applied

    def kept_messages(self) -> list[tuple[str, bytes]]:
        """Everything unacknowledged, in order: what a saved state needs."""
        return list(self._kept)

    def restore_outward(self, last_seq: int, kept: list[tuple[str, bytes]]) -> None:
        """Go on from a saved state: the numbers up to `last_seq` are given out, the last of them still kept."""
        self.last_seq = last_seq
        self.acked = self.sent = last_seq - len(kept)
        self._kept = deque(kept)
        self._kept_bytes = sum(len(body) + MESSAGE_OVERHEAD_BYTES for _, body in kept)

    # Inward

    def accept(self, seq: int) -> bool:
        """Whether a message that came in is the next one; False for a double, `ProtocolError` for a gap."""
        if seq == self.accepted + 1:
            if seq - self.applied > self._limits.window_messages_max:
                raise ProtocolError("more messages in flight than the window allows", Reason.SEQUENCE)
            self.accepted = seq
            return True
        if seq > self.accepted:
            raise ProtocolError(f"message {self.accepted + 1} is missing before {seq}", Reason.SEQUENCE)
        self.ack_sent = -1
        return False

    @property
    def owes_ack(self) -> bool:
        """Whether something was applied that the peer does not know of yet."""
        return self.ack_sent < self.applied

    def restart_inward(self, generation: int) -> None:
        """The peer began its stream anew."""
        self.generation = generation
        self.accepted = self.applied = self.ack_sent = 0

    def __repr__(self) -> str:
        return (
            f"<Channel {self.number}.{self.generation} out {self.acked}/{self.sent}/{self.last_seq}"
            f" in {self.applied}/{self.accepted}>"
        )
