"""Two ends of a channel, a link that loses what is under way when it is cut, slow application on both sides."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.core.block import MESSAGE_OVERHEAD_BYTES, Block
from holdfast.core.channel import Channel
from holdfast.core.codec import MSGPACK
from holdfast.core.limits import Limits
from holdfast.core.records import channel_record, restored_channel
from holdfast.schemas.frames import BlockFrame, Data


class Frame(NamedTuple):
    """What travels: a message, or a lone acknowledgement (seq 0)."""

    seq: int
    ack: int
    body: bytes


class Welcome(NamedTuple):
    """What a resume is answered with: the generation of the stream that follows, and what the server applied."""

    generation: int
    applied: int


def one_by_one(frames: Sequence[Data | BlockFrame]) -> Iterator[Data]:
    """What the peer reads."""
    for frame in MSGPACK.from_server(MSGPACK.payload(*frames)):
        if isinstance(frame, BlockFrame):
            yield from frame.data()
        elif isinstance(frame, Data):
            yield frame


class End:
    """One end: its channel, what it said, what it has accepted but not applied, and what it applied, by generation."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.channel = Channel(1, limits)
        self.said: dict[int, list[bytes]] = {1: []}
        self.hears = 1  # the generation of the stream that comes in; only the server's ever begins anew
        self.waiting: deque[tuple[int, bytes]] = deque()
        self.applied: dict[int, list[bytes]] = {1: []}
        self.arriving: deque[Frame | Welcome] = deque()
        self.writes_blocks = False  # that is for the server

    def accept(self, frame: Frame) -> None:
        """Deal with a frame as both ends do; any `ProtocolError` is a failure of this test."""
        self.channel.acknowledge(frame.ack)
        if frame.seq and self.channel.accept(frame.seq):
            self.waiting.append((frame.seq, frame.body))

    def apply(self) -> None:
        self.channel.applied, body = self.waiting.popleft()
        self.applied.setdefault(self.hears, []).append(body)

    def written(self) -> list[Frame]:
        frames = self.channel.take_blocks() if self.writes_blocks else self.channel.take()
        taken = [Frame(data.seq, data.ack, bytes(data.body)) for data in one_by_one(frames)]
        if not taken and self.channel.owes_ack:
            taken.append(Frame(0, self.channel.applied, b""))
        self.channel.ack_sent = self.channel.applied
        return taken


SIZES = st.lists(st.integers(0, 120), min_size=1, max_size=4)
COUNTS = st.integers(0, 6)


class Link(RuleBasedStateMachine):
    """The client waits when its channel is full, as clients do; the server's room does not and may overflow."""

    def __init__(self) -> None:
        super().__init__()
        self.is_up = False  # the server has answered a hello, and the link has not been cut since
        self.is_welcome = False  # the client has heard the answer
        self.bodies = 0

    @initialize(
        window=st.integers(1, 4),
        kept=st.integers(4, 9),
        kept_bytes=st.sampled_from([500, 1200, 10_000]),
        blocks=st.booleans(),
    )
    def limits_are(self, window: int, kept: int, kept_bytes: int, *, blocks: bool) -> None:
        limits = replace(
            Limits(),
            window_messages_max=window,
            window_bytes_max=min(400, kept_bytes - 200),  # the message that fills the window still fits
            kept_messages_max=kept,
            kept_bytes_max=kept_bytes,
        )
        self.client, self.server = End(limits), End(limits)
        self.server.writes_blocks = blocks

    def body(self, size: int) -> bytes:
        self.bodies += 1
        return MSGPACK.encode(b"%d:" % self.bodies + bytes(size))

    # What the ends do. Most of it arrives at once, or the interesting states are too far away.

    @rule(sizes=SIZES, arriving=COUNTS)
    def client_says(self, sizes: list[int], arriving: int) -> None:
        for size in sizes:
            if not self.client.channel.is_full:
                body = self.body(size)
                assert self.client.channel.push("said", body)
                self.client.said[1].append(body)
        self.client_writes(arriving)

    @rule(sizes=SIZES, arriving=COUNTS)
    def server_says(self, sizes: list[int], arriving: int) -> None:
        said = self.server.said[self.server.channel.generation]
        for size in sizes:
            body = self.body(size)
            if self.server.channel.push("said", body):
                said.append(body)
        self.server_writes(arriving)

    @rule(sizes=SIZES, arriving=COUNTS)
    def server_says_to_many(self, sizes: list[int], arriving: int) -> None:
        bodies = [self.body(size) for size in sizes]
        if self.server.channel.keep(Block(MSGPACK, *(("said", body) for body in bodies))):
            self.server.said[self.server.channel.generation] += bodies
        self.server_writes(arriving)

    @precondition(lambda self: self.client.waiting)
    @rule(count=COUNTS)
    def client_applies(self, count: int) -> None:
        for _ in range(min(count, len(self.client.waiting))):
            self.client.apply()

    @precondition(lambda self: self.server.waiting)
    @rule(count=COUNTS)
    def server_applies(self, count: int) -> None:
        for _ in range(min(count, len(self.server.waiting))):
            self.server.apply()

    @precondition(lambda self: self.is_welcome)
    @rule(arriving=COUNTS)
    def client_writes(self, arriving: int) -> None:
        if self.is_welcome:
            self.server.arriving += self.client.written()
            self.server_receives(arriving)

    @precondition(lambda self: self.is_up)
    @rule(arriving=COUNTS)
    def server_writes(self, arriving: int) -> None:
        if self.is_up:
            self.client.arriving += self.server.written()
            self.client_receives(arriving)

    # What the link does

    @precondition(lambda self: self.server.arriving)
    @rule(count=COUNTS)
    def server_receives(self, count: int) -> None:
        for _ in range(min(count, len(self.server.arriving))):
            frame = self.server.arriving.popleft()
            assert isinstance(frame, Frame)
            self.server.accept(frame)

    @precondition(lambda self: self.client.arriving)
    @rule(count=COUNTS)
    def client_receives(self, count: int) -> None:
        for _ in range(min(count, len(self.client.arriving))):
            match self.client.arriving.popleft():
                case Welcome() as welcome:
                    self.client_is_welcome(welcome)
                case Frame() as frame:
                    self.client.accept(frame)

    @precondition(lambda self: self.is_up)
    @rule()
    def cut(self) -> None:
        self.is_up = self.is_welcome = False
        self.client.arriving.clear()
        self.server.arriving.clear()

    # Coming back

    @rule(client_applies=COUNTS, server_applies=COUNTS, arriving=COUNTS)
    def client_comes_back(self, client_applies: int, server_applies: int, arriving: int) -> None:
        """On a new connection, also while the server believes in the old one; both go on applying meanwhile."""
        self.cut()
        generation, position = self.client.channel.generation, self.client.channel.applied
        self.client_applies(client_applies)
        self.server_welcomes(generation, position)
        self.server_applies(server_applies)
        self.server_writes(arriving)

    def server_welcomes(self, generation: int, position: int) -> None:
        channel = self.server.channel
        was_lost = channel.overflowed or generation != channel.generation
        said = self.server.said[channel.generation]

        replayed = channel.resume(generation, position)

        assert replayed == (None if was_lost else len(said) - position)
        if replayed is None:
            channel.resync()
            self.server.said[channel.generation] = []
        assert not channel.overflowed
        self.is_up = True
        self.client.arriving.append(Welcome(channel.generation, channel.applied))

    def client_is_welcome(self, welcome: Welcome) -> None:
        channel = self.client.channel
        self.is_welcome = True
        if welcome.generation != channel.generation:
            channel.restart_inward(welcome.generation)
            self.client.hears = welcome.generation
            self.client.waiting.clear()  # out of date

        replayed = channel.resume(channel.generation, welcome.applied)

        assert replayed == len(self.client.said[1]) - welcome.applied

    @precondition(lambda self: not self.is_up)
    @rule()
    def client_goes_on_in_another_process(self) -> None:
        """What it had accepted and not applied is forgotten with the old process, and will be sent again."""
        self.cut()
        old = self.client.channel
        new = Channel(1, self.client.limits)
        new.generation = old.generation
        new.accepted = new.applied = new.ack_sent = old.applied
        new.restore_outward(old.last_seq, old.kept_messages())
        self.client.channel = new
        self.client.waiting.clear()

    @rule()
    def server_comes_back_from_its_store(self) -> None:
        """The same for the server, which may die in the middle of anything."""
        self.cut()
        self.server.channel = restored_channel(channel_record(self.server.channel), self.server.limits)
        self.server.waiting.clear()

    @rule()
    def everything_settles(self) -> None:
        """Without further cuts all that was said is applied, and nothing is left of it but the counters."""
        if not self.is_up or self.server.channel.overflowed:
            self.client_comes_back(0, 0, 0)
        for _ in range(100):  # far more rounds than windows can be filled
            self.exchange()
            if not self.client.arriving and not self.server.arriving:
                break

        assert self.server.applied[1] == self.client.said[1]
        generation = self.server.channel.generation
        assert self.client.applied.get(generation, []) == self.server.said[generation]
        for end in (self.client, self.server):
            assert (end.channel.kept, end.channel.kept_bytes) == (0, 0)

    def exchange(self) -> None:
        self.client_receives(len(self.client.arriving))
        self.server_receives(len(self.server.arriving))
        self.client_applies(len(self.client.waiting))
        self.server_applies(len(self.server.waiting))
        self.client_writes(0)
        self.server_writes(0)

    # What always holds

    @invariant()
    def what_was_applied_is_a_prefix_of_what_was_said(self) -> None:
        for speaker, listener in ((self.client, self.server), (self.server, self.client)):
            for generation, applied in listener.applied.items():
                assert applied == speaker.said[generation][: len(applied)]

    @invariant()
    def a_stream_begins_anew_only_in_the_next_generation_and_declared(self) -> None:
        assert list(self.server.said) == list(range(1, self.server.channel.generation + 1))
        assert self.client.channel.generation in self.server.said
        assert list(self.client.said) == [1]

    @invariant()
    def what_is_kept_and_in_flight_is_within_the_limits(self) -> None:
        for end in (self.client, self.server):
            channel, limits = end.channel, end.limits
            assert channel.kept <= limits.kept_messages_max
            assert channel.kept_bytes <= limits.kept_bytes_max
            in_flight = end.said[max(end.said)][channel.acked : channel.sent]
            assert len(in_flight) <= limits.window_messages_max
            # The message that fills the window in bytes may pass it; nothing follows it.
            assert sum(len(body) + MESSAGE_OVERHEAD_BYTES for body in in_flight[:-1]) < limits.window_bytes_max
            assert len(end.waiting) <= limits.window_messages_max

    @invariant()
    def the_bytes_kept_are_the_bytes_of_the_messages_kept(self) -> None:
        for end in (self.client, self.server):
            kept = end.channel.kept_messages()
            assert end.channel.kept_bytes == sum(len(body) + MESSAGE_OVERHEAD_BYTES for _, body in kept)
            assert end.channel.overflowed or len(kept) == end.channel.last_seq - end.channel.acked

    @invariant()
    def nothing_is_acknowledged_before_it_was_applied(self) -> None:
        assert self.client.channel.acked <= len(self.server.applied[1])
        server = self.server.channel
        # Of a stream that overflowed nothing is kept, and so nothing that is still to be acknowledged.
        assert server.overflowed or server.acked <= len(self.client.applied.get(server.generation, []))

    def teardown(self) -> None:
        if hasattr(self, "client"):
            self.everything_settles()


Link.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=50,
    phases=set(Phase) - {Phase.explain},  # a failure is a list of steps, which explains itself
)
TestLink = Link.TestCase
