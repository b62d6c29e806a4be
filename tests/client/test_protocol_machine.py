"""ClientProtocol against a small server made of the core's Channel: whatever breaks when, both ends agree in the end.

The application on the client's side keeps what it processed together with what `save` returns, as a careful game would,
so that a crash takes it back to a moment when the two agreed.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.client.channels import Arrived, Restarted
from holdfast.client.protocol import ClientProtocol
from holdfast.client.saved import SavedState
from holdfast.core.channel import Channel
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.limits import Limits
from holdfast.schemas.frames import Ack, Auth, ChannelInfo, Data, Hello, Outcome, Ping, Pong, Position, Welcome
from tests.client.script import terms

# Small, so that windows close and streams overflow.
WINDOW = 4
LIMITS = Limits(
    window_messages_max=WINDOW, kept_messages_max=3 * WINDOW, ack_messages=3, window_bytes_max=4096, kept_bytes_max=8192
)


class ModelServer:
    """One session with one seat. It applies at once, and keeps what it said in each generation of its stream."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.channel = Channel(1, LIMITS)
        self.applied: list[int] = []
        self.said: dict[int, list[int]] = {1: []}
        self._number = codec.body_decoder(int)

    def say(self, content: int) -> None:
        if not self.channel.overflowed:
            self.said[self.channel.generation].append(content)
        self.channel.push("hit", self.codec.encode(content))

    def hear(self, payload: bytes) -> list[bytes]:
        answers: list[bytes] = []
        for frame in self.codec.from_client(payload):
            match frame:
                case Hello():
                    answers.append(self._welcome(frame))
                case Data():
                    self._acknowledged(frame.ack)
                    if self.channel.accept(frame.seq):
                        self.applied.append(self._number.decode(frame.body))
                        self.channel.applied = frame.seq
                case Ack() | Pong():
                    self._acknowledged(frame.ack)
                case _:
                    raise AssertionError(f"{frame} was not to be expected")
        return answers

    def _welcome(self, hello: Hello) -> bytes:
        kind = "new"
        if hello.resume is not None:
            position = next(iter(hello.resume.positions), Position(1, 1, 0))
            kind = "resumed"
            if self.channel.resume(position.generation, position.received) is None:
                kind = "resynced"
                self.channel.resync()
                self.said[self.channel.generation] = []
        info = ChannelInfo(1, self.channel.generation, self.channel.applied, "room-1", "arena")
        small = terms(window_messages_max=WINDOW, window_bytes_max=LIMITS.window_bytes_max)
        return self.codec.payload(Welcome("s1", "ada", "t1", Outcome(kind), small, [info]))

    def _acknowledged(self, ack: int) -> None:
        if ack > self.channel.acked:
            self.channel.acknowledge(ack)

    def outgoing(self, *, with_ack: bool) -> list[bytes]:
        channel = self.channel
        frames: list[Any] = [*channel.take()]
        if with_ack and not frames and channel.owes_ack:
            frames = [Ack(1, channel.applied)]
            channel.ack_sent = channel.applied
        return [self.codec.payload(*frames)] if frames else []


@dataclass
class Game:
    """The application: what it asked for, and what it has processed of which generation."""

    sent: list[int] = field(default_factory=list)
    generation: int = 1
    processed: list[int] = field(default_factory=list)

    def copy(self) -> "Game":
        return Game(list(self.sent), self.generation, list(self.processed))


class Conversation(RuleBasedStateMachine):
    """Every step is one thing that can happen to either end or to the wire between them."""

    @initialize(codec=st.sampled_from([MSGPACK, JSON]))
    def begin(self, codec: Codec) -> None:
        self.codec = codec
        self.server = ModelServer(codec)
        self.game = Game()
        self.client = ClientProtocol(codec, Auth(), LIMITS)
        self.count = 0
        self.unread: deque[tuple[Arrived, int]] = deque()
        self.number = codec.body_decoder(int)
        self._connect()
        self._deliver_all()
        self.saved = (self.client.save(), self.game.copy())

    def _connect(self) -> None:
        self.up: deque[bytes] = deque([self.client.hello()])
        self.down: deque[bytes] = deque()

    def _content(self) -> int:
        self.count += 1
        return self.count

    # Both ends speak

    @precondition(lambda self: not self.client.is_full(1))
    @rule()
    def client_sends(self) -> None:
        content = self._content()
        self.game.sent.append(content)
        self.client.push(1, "move", self.codec.encode(content))

    @rule(count=st.integers(1, WINDOW))
    def server_says(self, count: int) -> None:
        for _ in range(count):
            self.server.say(self._content())

    @rule(with_acks=st.booleans())
    def client_writes(self, *, with_acks: bool) -> None:
        self.up += self.client.outgoing(with_acks=with_acks)

    @precondition(lambda self: self.client.is_welcome)
    @rule(with_ack=st.booleans())
    def server_writes(self, *, with_ack: bool) -> None:
        self.down += self.server.outgoing(with_ack=with_ack)

    @precondition(lambda self: self.client.is_welcome)
    @rule()
    def server_pings(self) -> None:
        self.down.append(self.codec.payload(Ping(1, 1, self.server.channel.applied)))

    # The wire

    @precondition(lambda self: self.up)
    @rule()
    def server_hears(self) -> None:
        self.down += self.server.hear(self.up.popleft())

    @precondition(lambda self: self.down)
    @rule()
    def client_hears(self) -> None:
        for event in self.client.receive(self.down.popleft()):
            match event:
                case Arrived():
                    self.unread.append((event, self.number.decode(event.body)))
                case Restarted():
                    self.unread.clear()
                    self.game.generation = self.server.channel.generation
                    self.game.processed = []
                case _:
                    pass

    @rule()
    def connection_breaks(self) -> None:
        self.client.lost()
        self._connect()

    # The application

    @precondition(lambda self: self.unread)
    @rule()
    def game_processes(self) -> None:
        arrived, content = self.unread.popleft()
        self.game.processed.append(content)
        self.client.processed(arrived)

    @rule()
    def game_saves(self) -> None:
        self.saved = (self.client.save(), self.game.copy())

    @rule()
    def process_dies_and_starts_again(self) -> None:
        state, game = self.saved
        # What was asked for after the save and did not arrive died with the process.
        arrived = set(self.server.applied)
        self.game = game.copy()
        self.game.sent = self.server.applied + [content for content in game.sent if content not in arrived]
        self.client = ClientProtocol(self.codec, None, LIMITS)
        self.client.load(SavedState.read(state))
        self.unread.clear()
        self._connect()

    # What must hold

    @invariant()
    def everything_is_applied_once_and_in_order(self) -> None:
        assert self.server.applied == self.game.sent[: len(self.server.applied)]

    @invariant()
    def everything_is_processed_once_and_in_order(self) -> None:
        said = self.server.said[self.game.generation]
        assert self.game.processed == said[: len(self.game.processed)]

    @invariant()
    def nothing_grows_without_bound(self) -> None:
        assert len(self.unread) <= WINDOW
        assert self.client.unacked(1) <= WINDOW

    def teardown(self) -> None:
        self.connection_breaks()
        self._deliver_all()
        if self.server.channel.overflowed:
            self.connection_breaks()
            self._deliver_all()

        assert self.server.applied == self.game.sent
        assert self.game.processed == self.server.said[self.game.generation]
        assert self.game.generation == self.server.channel.generation
        assert self.client.unacked(1) == self.server.channel.kept == 0

    def _deliver_all(self) -> None:
        """Until nobody has anything to say."""
        for _ in range(10_000):
            self.client_writes(with_acks=True)
            if self.client.is_welcome:
                self.server_writes(with_ack=True)
            if not (self.up or self.down or self.unread):
                return
            while self.up:
                self.server_hears()
            while self.down:
                self.client_hears()
            while self.unread:
                self.game_processes()
        pytest.fail("the two ends never come to rest")


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=100, stateful_step_count=60, suppress_health_check=list(HealthCheck))
