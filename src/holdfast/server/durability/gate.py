"""The output gate: messages and acknowledgements of a durable room leave once the turn that caused them is saved.

A message is staged when the room sends it, is part of the next commit, and is released to the channel when that has
succeeded. `send_latest` bypasses the gate: it is for values of the moment, and must never confirm a durable fact.
"""

from collections.abc import Callable

from holdfast.core.block import Entry, messages_of, weight
from holdfast.core.channel import Channel
from holdfast.core.messages import Message
from holdfast.core.session import Session
from holdfast.schemas.session import ChannelRecord
from holdfast.server.rooms.outlet import ChannelOutlet, OutletOptions


class GatedOutlet(ChannelOutlet):
    """The outlet of a seat in a durable room."""

    __slots__ = (
        "_applied",
        "_generation",
        "_is_finished",
        "_leaving",
        "_leaving_applied",
        "_leaving_bytes",
        "_leaving_messages",
        "_on_staged",
        "_staged",
        "_staged_bytes",
        "_staged_messages",
        "is_waiting",
    )

    def __init__(
        self, session: Session, channel: Channel, options: OutletOptions, staged: Callable[["GatedOutlet"], None]
    ) -> None:
        """`staged` is called when something waits for a commit."""
        super().__init__(session, channel, options)
        self._on_staged = staged
        # No lists while nothing is staged: most held seats have nothing to say.
        self._staged: list[Entry] | None = None
        self._leaving: list[Entry] | None = None
        self._staged_messages = self._staged_bytes = 0
        self._leaving_messages = self._leaving_bytes = 0
        self._applied = self._leaving_applied = channel.applied
        self._generation = channel.generation
        self._is_finished = channel.is_finished
        self.is_waiting = False
        """Whether the room's writer knows that something of this outlet waits for the next commit."""

    def applied(self, seq: int) -> None:
        self._applied = seq
        if not self.is_waiting:
            self._on_staged(self)

    def _finished(self) -> None:
        self._is_finished = True

    def break_off(self, farewell: Message) -> None:
        self.part(is_lost=True)
        self._restart()
        self._is_finished = True
        super().break_off(farewell)

    def write(self, entry: Entry) -> None:
        channel = self.channel
        if channel.generation != self._generation:
            self._restart()
        if channel.overflowed or self._is_finished:
            return
        if self._staged is None:
            self._staged = [entry]
        else:
            self._staged.append(entry)
        messages, size = weight(entry)
        self._staged_messages += messages
        self._staged_bytes += size
        if not self.is_waiting:
            self._on_staged(self)
        if channel.would_overflow(*self._weight):
            self.overflow()

    @property
    def _weight(self) -> tuple[int, int]:
        """How many messages the client will have to read, too, and their bytes: those of the present commit, and those
        that wait for the next."""
        return self._leaving_messages + self._staged_messages, self._leaving_bytes + self._staged_bytes

    @property
    def is_full(self) -> bool:
        """Counts what waits for the store: the client will have to read that, too."""
        channel = self.channel
        if channel.generation != self._generation:
            # The staged messages belong to a stream that is over.
            return channel.is_full
        return channel.would_fill(*self._weight)

    def overflow(self) -> None:
        self._stage_nothing()
        super().overflow()

    def _stage_nothing(self) -> None:
        self._staged, self._staged_messages, self._staged_bytes = None, 0, 0

    def _leave_nothing(self) -> None:
        self._leaving, self._leaving_messages, self._leaving_bytes = None, 0, 0

    def _restart(self) -> None:
        # A resync restarted the stream: the state that follows it includes everything before.
        self._generation = self.channel.generation
        self._stage_nothing()
        self._leave_nothing()

    # For the room's writer

    def cut(self) -> None:
        """A commit begins: it contains what is staged."""
        if self.channel.generation != self._generation:
            self._restart()
        self._leaving, self._leaving_messages, self._leaving_bytes = (
            self._staged,
            self._staged_messages,
            self._staged_bytes,
        )
        self._stage_nothing()
        self._leaving_applied = self._applied
        self.is_waiting = False

    def not_saved(self) -> None:
        """The commit was refused, and another follows: that contains what this one did."""
        if not self.channel.overflowed:
            self._staged = [*(self._leaving or ()), *(self._staged or ())] or None
            self._staged_messages += self._leaving_messages
            self._staged_bytes += self._leaving_bytes
        self._leave_nothing()

    def record(self) -> ChannelRecord:
        """Both streams as they are once the commit has succeeded."""
        channel, leaving = self.channel, self._leaving
        kept = channel.kept_messages()
        return ChannelRecord(
            channel.number,
            channel.generation,
            max(self._leaving_applied, channel.applied),
            channel.last_seq + self._leaving_messages,
            [*kept, *messages_of(leaving)] if leaving else kept,
            self._is_finished,
            channel.overflowed,
        )

    def record_version(self) -> tuple[int, ...]:
        leaving, applied = self._leaving_messages, max(self._leaving_applied, self.channel.applied)
        number, generation, last_seq, kept, _, _, overflowed = super().record_version()
        return (number, generation, last_seq + leaving, kept + leaving, applied, self._is_finished, overflowed)

    def release(self) -> None:
        """The commit has succeeded: the messages and the acknowledgement may leave."""
        channel = self.channel
        leaving = self._leaving
        self._leave_nothing()
        if leaving and channel.generation == self._generation and not channel.overflowed:
            for entry in leaving:
                if not channel.keep(entry):
                    self.overflow()
                    break
        channel.applied = max(channel.applied, self._leaving_applied)
        channel.is_finished = self._is_finished and not self._staged
        connection = self._session.connection
        if connection is not None and not connection.is_dirty:
            connection.wake()
