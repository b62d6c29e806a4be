"""A channel that was saved goes on as if nothing had happened but a lost connection."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.channel import Channel
from holdfast.core.codec import MSGPACK
from holdfast.core.errors import ProtocolError
from holdfast.core.limits import Limits
from holdfast.core.records import channel_record, decode_session, encode, restored_channel, session_record
from holdfast.schemas.session import ChannelRecord
from tests.core.samples import a_session

LIMITS = replace(Limits(), window_messages_max=4, window_bytes_max=600, kept_messages_max=8, kept_bytes_max=1500)


def saved(channel: Channel) -> Channel:
    """The channel as another process has it; what is saved must be able to travel."""
    session = a_session(limits=LIMITS)
    session.codec = MSGPACK
    record = decode_session(encode(session_record(session, "", [channel_record(channel)])))
    return restored_channel(record.closing[0], LIMITS)


def a_channel(pushed: int = 0, *, sent: int = 0, acked: int = 0, applied: int = 0) -> Channel:
    channel = Channel(3, replace(LIMITS, window_messages_max=max(1, sent)))
    for number in range(1, pushed + 1):
        assert channel.push("said", b"%d" % number)
        if number == sent:
            channel.take()
    channel.acknowledge(acked)
    for seq in range(1, applied + 1):
        channel.accept(seq)
        channel.applied = seq
    return channel


def bodies(channel: Channel) -> list[tuple[int, bytes]]:
    return [(frame.seq, bytes(frame.body)) for frame in channel.take()]


def test_a_new_channel_comes_back_as_new() -> None:
    channel = saved(Channel(1, LIMITS))

    assert channel_record(channel) == channel_record(Channel(1, LIMITS)) == ChannelRecord(1, 1, 0, 0, [])


def test_a_channel_comes_back_with_what_was_not_acknowledged() -> None:
    channel = saved(a_channel(5, sent=4, acked=2, applied=7))
    owed = channel.owes_ack

    replayed = channel.resume(1, 3)

    assert not owed, "the welcome will say it"
    assert replayed == 2
    assert bodies(channel) == [(4, b"4"), (5, b"5")]
    assert (channel.accepted, channel.applied) == (7, 7)
    assert channel.push("said", b"new")
    assert bodies(channel) == [(6, b"new")]


def test_what_was_accepted_but_not_applied_is_asked_for_again() -> None:
    channel = a_channel(applied=2)
    channel.accept(3)

    restored = saved(channel)

    assert restored.accept(3)
    with pytest.raises(ProtocolError):
        restored.accept(5)


def test_an_overflow_is_not_forgotten() -> None:
    channel = a_channel(3, sent=2)
    channel.give_up()

    restored = saved(channel)

    assert restored.overflowed
    assert not restored.push("said", b"lost")
    assert restored.resume(1, 2) is None
    restored.resync()
    assert (restored.generation, restored.last_seq) == (2, 0)


def test_a_later_generation_stays_the_later_one() -> None:
    channel = a_channel(3, sent=3)
    channel.resync()
    channel.push("said", b"state")

    restored = saved(channel)

    assert restored.resume(1, 1) is None
    assert restored.resume(2, 0) == 1


@pytest.mark.parametrize(("acked", "is_over"), [(2, False), (3, True)])
def test_a_finished_channel_is_over_when_its_last_message_is_acknowledged(acked: int, *, is_over: bool) -> None:
    channel = a_channel(3, sent=3, acked=1)
    channel.is_finished = True

    restored = saved(channel)
    restored.resume(1, acked)

    assert restored.is_finished
    assert restored.is_over is is_over


def test_a_finished_channel_that_overflowed_is_not_over() -> None:
    channel = a_channel(3, sent=3)
    channel.give_up()
    channel.is_finished = True

    assert not saved(channel).is_over


# Any channel, at any time: to be saved is no more than to lose a connection.

STEPS = ("push", "push", "push", "take", "take", "ack", "accept", "accept", "apply", "cut", "cut", "forget", "finish")
scripts = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3)), min_size=10, max_size=50)


class Talk:
    """A channel in use by a peer that says nothing but the truth: what it claims to have, it was sent."""

    def __init__(self, *, is_saved: bool) -> None:
        self.channel = Channel(1, LIMITS)
        self.is_saved = is_saved
        self.reached = 0
        self.bodies = 0

    def do(self, step: str, number: int) -> object:
        """What a step gives, and everything that can be seen of the channel after it."""
        try:
            given = self._do(self.channel, step, number)
        except ProtocolError as error:
            given = error.reason
        channel = self.channel
        return (
            given,
            (channel.generation, channel.last_seq, channel.kept_messages(), channel.kept_bytes, channel.is_full),
            (channel.accepted, channel.applied, channel.overflowed, channel.is_finished, channel.is_over),
        )

    def _do(self, channel: Channel, step: str, number: int) -> object:
        match step:
            case "push":
                self.bodies += 1
                return channel.push("said", b"%d:" % self.bodies + bytes(90 * number))
            case "take":
                taken = channel.take()
                self.reached = max([self.reached, *(frame.seq for frame in taken)])
                return taken
            case "ack":
                return channel.acknowledge(min(channel.acked + number, self.reached))
            case "accept":
                return channel.accept(channel.accepted + number)
            case "apply":
                channel.applied = min(channel.accepted, channel.applied + number)
                return None
            case "cut":
                return self._come_back(min(channel.acked + number, self.reached))
            case "forget":
                return self._come_back(None)
            case _:
                channel.is_finished = number == 3
                return None

    def _come_back(self, received: int | None) -> object:
        # What waited for its turn is given up either way: who is saved has forgotten it, and it will be sent again.
        self.channel.accepted = self.channel.applied
        if self.is_saved:
            self.channel = saved(self.channel)
        replayed = self.channel.resume(self.channel.generation, received)
        if replayed is None:
            self.channel.resync()
            self.reached = 0
        return replayed, self.channel.owes_ack


@settings(max_examples=300)
@given(script=scripts)
def test_a_channel_that_is_saved_behaves_as_one_that_was_not(script: list[tuple[str, int]]) -> None:
    lucky, restored = Talk(is_saved=False), Talk(is_saved=True)

    for step, number in script:
        assert restored.do(step, number) == lucky.do(step, number)
