"""A channel: two gapless message streams, such as those between a seat and its room. Both ends run this same class.

Outward, messages get the numbers 1, 2, 3 … and are kept until the peer has acknowledged them; at most a window of
them is in flight. Inward, a message is accepted if it is the next one, so the memory against doubles is one integer:

    number              verdict
    accepted + 1        new: accept it
    <= accepted         a double: acknowledge again, do nothing else
    > accepted + 1      a gap: the peer is broken, its connection closes and it resumes

`accepted` and `applied` differ while a room is busy: a message is accepted when it is given its place in the room's
order, and acknowledged only once it has been applied. When more piles up than may be kept, the outward stream has
`overflowed`: nothing more is kept, and at the next resume it begins anew in its next generation.

Messages that many clients get are kept as a `Block` that their channels share. Where only some of its messages are sent
again or acknowledged, it is replaced by its messages.
"""

from collections import deque
from typing import cast

from msgspec import Raw

from holdfast.core.block import MESSAGE_OVERHEAD_BYTES, Block, Entry, Said, messages_of, weight
from holdfast.core.errors import ProtocolError
from holdfast.core.limits import Limits
from holdfast.core.reasons import Reason
from holdfast.schemas.frames import BlockFrame, Data

# Instead of a deque while nothing is in flight: an empty one takes 760 bytes, and most held seats keep nothing.
_NONE_IN_FLIGHT: deque[Entry] = cast("deque[Entry]", ())


class Channel:
    """One end of both streams."""

    __slots__ = (
        *("_in_flight", "_kept_bytes_max", "_kept_messages_max", "_sent_before", "_waiting"),
        *("accepted", "ack_sent", "acked", "applied", "filled_to", "generation"),
        *("is_finished", "kept_bytes", "last_seq", "number", "overflowed", "purpose", "sent"),
        *("window_bytes_max", "window_messages_max"),
    )

    def __init__(self, number: int, limits: Limits, purpose: str = "seat") -> None:
        """`purpose` is a `Purpose`; a client may hear of others from a newer server."""
        self.number = number
        self.purpose = purpose
        self.generation = 1
        self.agree(limits)
        # Outward: numbers up to `acked` are done with, up to `sent` are in flight, up to `last_seq` wait.
        self.last_seq = 0
        self.acked = 0
        self.sent = 0
        self._sent_before = 0
        self._in_flight = _NONE_IN_FLIGHT
        self._waiting: list[Entry] | None = None
        self.kept_bytes = 0
        self.filled_to = 0
        self.overflowed = False
        self.is_finished = False
        # Inward.
        self.accepted = 0
        self.applied = 0
        self.ack_sent = 0

    def agree(self, limits: Limits) -> None:
        """Keep to these limits from now on."""
        self._kept_bytes_max = limits.kept_bytes_max
        self._kept_messages_max = limits.kept_messages_max
        self.window_bytes_max = limits.window_bytes_max
        self.window_messages_max = limits.window_messages_max

    # Outward

    @property
    def kept(self) -> int:
        """Messages not yet acknowledged, sent or not."""
        return self.last_seq - self.acked

    @property
    def is_full(self) -> bool:
        """Whether one more message might overflow the stream; a sender that can wait should."""
        return (
            self.last_seq - self.acked >= self.window_messages_max
            or self.kept_bytes >= self.window_bytes_max
            or self.acked < self.filled_to
        )

    def would_fill(self, messages: int, size: int) -> bool:
        """Whether this much more would fill the window."""
        return self.kept + messages >= self.window_messages_max or self.kept_bytes + size >= self.window_bytes_max

    def push(self, name: str, body: bytes) -> bool:
        """Give a message its number and keep it; False if the stream has overflowed and keeps nothing."""
        return self.keep((name, body))

    def keep(self, entry: Entry) -> bool:
        """The same for a message, or for all messages of a block."""
        if self.overflowed:
            return False
        if self._waiting is None:
            self._waiting = [entry]
        else:
            self._waiting.append(entry)
        if type(entry) is Block:
            self.last_seq += len(entry.messages)
            self.kept_bytes += entry.size
        else:
            self.last_seq += 1
            self.kept_bytes += len(entry[1]) + MESSAGE_OVERHEAD_BYTES
        if self.kept_bytes > self._kept_bytes_max or self.last_seq - self.acked > self._kept_messages_max:
            self.give_up()
            return False
        return True

    def would_overflow(self, messages: int, size: int) -> bool:
        """Whether this much more could not be kept."""
        return self.kept + messages > self._kept_messages_max or self.kept_bytes + size > self._kept_bytes_max

    def give_up(self) -> None:
        """Keep nothing more: the peer will be resynced."""
        self.overflowed = True
        self._keep_nothing()
        self.last_seq = self.acked = self.sent

    def _keep_nothing(self) -> None:
        self._in_flight, self._waiting = _NONE_IN_FLIGHT, None
        self.kept_bytes = 0

    def shrink(self) -> None:
        """Take less memory if nothing is kept: the connection is gone."""
        if not self._in_flight:
            self._in_flight = _NONE_IN_FLIGHT

    @property
    def is_over(self) -> bool:
        """Whether the last message has been acknowledged."""
        return self.is_finished and not self.kept and not self.overflowed

    def take(self) -> list[Data]:
        """What may be written now, in order, with the acknowledgement that it carries; it counts as sent."""
        self._waiting = [*messages_of(self._waiting or [])]
        return cast("list[Data]", self.take_blocks())

    def take_blocks(self) -> list[Data | BlockFrame]:
        """The same for a peer that reads blocks."""
        entries, self._waiting = self._waiting, None
        if entries is None:
            return []
        # Nearly always everything that is kept fits into the window.
        if self.kept_bytes > self.window_bytes_max or self.last_seq - self.acked > self.window_messages_max:
            entries = self._within_window(entries)
        if not entries:
            return []
        ack = self.ack_sent = self.applied
        number, seq = self.number, self.sent + 1
        if len(entries) == 1 and self._in_flight is not _NONE_IN_FLIGHT:
            # As below: nearly always it is one message or one block.
            entry = entries[0]
            self._in_flight.append(entry)
            if type(entry) is Block:
                self.sent += len(entry.messages)
                return [entry.frame(number, seq, ack)]
            self.sent = seq
            return [Data(number, seq, ack, entry[0], Raw(entry[1]))]
        frames: list[Data | BlockFrame] = []
        for entry in entries:
            if type(entry) is Block:
                frames.append(entry.frame(number, seq, ack))
                seq += len(entry.messages)
            else:
                frames.append(Data(number, seq, ack, entry[0], Raw(entry[1])))
                seq += 1
        self.sent = seq - 1
        if self._in_flight is _NONE_IN_FLIGHT:
            self._in_flight = deque(entries)
        else:
            self._in_flight += entries
        return frames

    def _within_window(self, entries: list[Entry]) -> list[Entry]:
        """The first messages of what waits, as many as may be in flight; the others go on waiting."""
        free = self.window_messages_max - (self.sent - self.acked)
        free_bytes = self.window_bytes_max - sum(weight(entry)[1] for entry in self._in_flight)
        count = 0
        if free > 0 and free_bytes > 0:
            messages = messages_of(entries)
            entries = [*messages]
            for _, body in messages[:free]:
                if free_bytes <= 0:
                    break
                free_bytes -= len(body) + MESSAGE_OVERHEAD_BYTES
                count += 1
        self._waiting = entries[count:] or None
        return entries[:count]

    def acknowledge(self, ack: int) -> bool:
        """The peer has applied everything up to this number; True if messages wait for the window it opens."""
        if ack > self.sent:
            # What went to an earlier connection may be acknowledged before a resume has sent it again: the peer had
            # accepted it by then and was slow to apply it.
            if ack > self._sent_before:
                raise ProtocolError(f"message {ack} was acknowledged but never sent", Reason.SEQUENCE)
            self._count_as_sent(min(ack, self.last_seq))
        in_flight = self._in_flight
        acked = self.acked
        while acked < ack and in_flight:
            entry = in_flight.popleft()
            if type(entry) is not Block:
                acked += 1
                self.kept_bytes -= len(entry[1]) + MESSAGE_OVERHEAD_BYTES
            elif acked + len(entry.messages) <= ack:
                acked += len(entry.messages)
                self.kept_bytes -= entry.size
            else:
                in_flight.extendleft(reversed(entry.messages))
        self.acked = acked
        return self.sent < self.last_seq

    def _count_as_sent(self, seq: int) -> None:
        """Everything up to this number is in flight, and nothing else."""
        messages = self.kept_messages()
        count = seq - self.acked if messages else 0
        self._in_flight = deque(messages[:count]) if count else _NONE_IN_FLIGHT
        self._waiting = [*messages[count:]] or None
        self.sent = seq

    def resume(self, generation: int, received: int | None) -> int | None:
        """A new connection continues after `received`: how many messages it will be sent, or None if they are gone."""
        if self.overflowed or received is None or generation != self.generation:
            return None
        if not self.acked <= received <= self.last_seq:
            return None
        self._sent_before = max(self._sent_before, self.sent)
        self._count_as_sent(received)
        self.acknowledge(received)
        self.ack_sent = self.applied
        return self.last_seq - received

    def continued(self, sent: int, acked: int) -> None:
        """The channel has moved with its connection, on which everything up to these numbers was sent and acknowledged.

        Our memory may be older: the client does not acknowledge again.
        """
        if not self.overflowed and self.acked <= sent <= self.last_seq:
            self._count_as_sent(sent)
            if acked <= sent:
                self.acknowledge(acked)
        self.ack_sent = self.applied

    def resync(self) -> None:
        """Begin the outward stream anew, without the kept messages; the peer will be told."""
        self.generation += 1
        self.last_seq = self.acked = self.sent = self._sent_before = 0
        self._keep_nothing()
        self.overflowed = False
        self.ack_sent = self.applied

    def skip_to(self, applied: int) -> None:
        """The peer applied more than we remember sending (our state is older): never use those numbers again."""
        if applied > self.last_seq:
            self._keep_nothing()
            self.last_seq = self.acked = self.sent = applied

    def fill_to(self, accepted: int, name: str, body: bytes) -> None:
        """The peer accepted more than we remember sending: keep those places, and let it acknowledge them.

        What they weigh only the peer knows, so the channel is full until it has applied them.
        """
        self.filled_to = max(self.filled_to, accepted if accepted > self.last_seq else 0)
        while self.last_seq < accepted and self.push(name, body):
            self._sent_before = self.last_seq

    def kept_messages(self) -> list[Said]:
        """Everything unacknowledged, in order: what a saved state needs."""
        return messages_of([*self._in_flight, *(self._waiting or ())])

    def restore_outward(self, last_seq: int, kept: list[Said], *, filled_to: int = 0) -> None:
        """Go on from a saved state: the numbers up to `last_seq` are given out, the last of them still kept.

        The place of `filled_to` is the last of those that `fill_to` has kept.
        """
        self.last_seq = self._sent_before = last_seq
        self.filled_to = filled_to
        self.acked = self.sent = last_seq - len(kept)
        self._in_flight, self._waiting = _NONE_IN_FLIGHT, [*kept] or None
        self.kept_bytes = sum(len(body) + MESSAGE_OVERHEAD_BYTES for _, body in kept)

    # Inward

    def accept(self, seq: int) -> bool:
        """Whether a message that came in is the next one; False for a double, `ProtocolError` for a gap."""
        if seq == self.accepted + 1:
            if seq - self.applied > self.window_messages_max:
                raise ProtocolError("more messages in flight than the window allows", Reason.SEQUENCE)
            self.accepted = seq
            return True
        if seq > self.accepted:
            raise ProtocolError(f"message {self.accepted + 1} is missing before {seq}", Reason.SEQUENCE)
        self.ack_sent = -1
        return False

    def forget_to(self, peer_acked: int, peer_generation: int) -> None:
        """Our memory is older than the peer's: what it was told to be applied is lost, and will not be sent again."""
        self.accepted = self.applied = max(self.applied, peer_acked)
        # A stream that begins anew now must not be taken for one that did so before.
        self.generation = max(self.generation, peer_generation)

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
