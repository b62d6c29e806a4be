"""What a channel keeps is bounded (R7): overflowing, giving up, and beginning anew in the next generation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.block import MESSAGE_OVERHEAD_BYTES
from holdfast.core.errors import ProtocolError
from tests.core.channel_samples import a_channel, messages, numbers, pushed, received

# R7: what is kept is bounded, and an overflow is declared.


def test_at_most_the_limit_of_messages_is_kept() -> None:
    channel = pushed(10, kept_messages_max=10)

    kept = channel.kept
    fits = channel.push("said", b"one too many")

    assert kept == 10
    assert not fits
    assert channel.overflowed


def test_at_most_the_limit_of_bytes_is_kept() -> None:
    channel = a_channel(kept_bytes_max=1000)

    assert channel.push("said", bytes(1000 - MESSAGE_OVERHEAD_BYTES))
    assert not channel.push("said", b"")
    assert channel.overflowed


def test_an_overflowed_channel_keeps_nothing_takes_nothing_and_sends_nothing() -> None:
    channel = pushed(10)
    channel.take()
    channel.push("said", b"one too many")

    again = channel.push("said", b"another")

    assert not again
    assert (channel.kept, channel.kept_bytes) == (0, 0)
    assert channel.take() == []


def test_late_acknowledgements_of_an_overflowed_channel_do_no_harm() -> None:
    channel = pushed(10)
    channel.take()
    channel.push("said", b"one too many")

    channel.acknowledge(4)

    assert channel.overflowed
    assert (channel.kept, channel.kept_bytes) == (0, 0)


def test_an_overflow_between_a_resume_and_its_replay_leaves_nothing_to_acknowledge() -> None:
    channel = pushed(10)
    channel.take()
    channel.resume(1, 0)
    channel.push("said", b"one too many")

    channel.acknowledge(2)

    assert channel.overflowed
    assert (channel.kept, channel.kept_bytes) == (0, 0)


def test_an_overflowed_channel_cannot_be_resumed_and_says_so() -> None:
    channel = pushed(11 - 1)
    channel.push("said", b"one too many")

    assert channel.resume(1, 0) is None
    assert channel.resume(1, channel.last_seq) is None


def test_a_resync_begins_the_stream_anew_in_the_next_generation() -> None:
    channel = pushed(10)
    channel.take()
    channel.push("said", b"one too many")

    channel.resync()
    channel.push("state", b"now")

    assert channel.generation == 2
    assert not channel.overflowed
    assert messages(channel.take()) == [(1, "state", b"now")]
    assert channel.resume(1, 0) is None
    assert channel.resume(2, 0) == 1


def test_what_an_earlier_generation_sent_cannot_be_acknowledged_in_the_next() -> None:
    channel = pushed(4)
    channel.take()
    channel.resume(1, 0)
    channel.resync()
    channel.push("state", b"now")
    channel.take()

    with pytest.raises(ProtocolError, match="never sent"):
        channel.acknowledge(2)

    assert channel.kept == 1


def test_a_resync_opens_the_whole_window_again() -> None:
    channel = pushed(8, window_messages_max=4)
    channel.take()

    channel.resync()
    for _ in range(8):
        channel.push("said", b"")

    assert numbers(channel.take()) == [1, 2, 3, 4]
    assert channel.kept_bytes == 8 * MESSAGE_OVERHEAD_BYTES


def test_a_resync_of_one_direction_leaves_the_other_as_it_was() -> None:
    channel = received(1, 2, 3)

    channel.resync()

    assert not channel.accept(3)
    assert channel.accept(4)


def test_the_receiver_of_a_resync_starts_from_one_again_and_goes_on_sending() -> None:
    channel = received(1, 2, 3)
    channel.push("said", b"a")
    channel.take()

    channel.restart_inward(2)

    assert channel.generation == 2
    assert channel.accept(1)
    assert not channel.owes_ack
    assert channel.resume(2, 0) == 1
    assert messages(channel.take()) == [(1, "said", b"a")]


# What a gate asks before it lets more in


@pytest.mark.parametrize(("messages", "would"), [(0, False), (7, False), (8, True), (100, True)])
def test_a_channel_says_whether_so_many_more_messages_could_be_kept(messages: int, *, would: bool) -> None:
    channel = pushed(3)

    assert channel.would_overflow(messages, 0) is would


@pytest.mark.parametrize(("spare", "would"), [(0, False), (-1, True)])
def test_a_channel_says_whether_so_many_more_bytes_could_be_kept(spare: int, *, would: bool) -> None:
    channel = pushed(3, kept_bytes_max=1000)
    left = 1000 - channel.kept_bytes

    assert channel.would_overflow(1, left - spare) is would


@given(sizes=st.lists(st.integers(0, 400), min_size=1, max_size=20), already=st.integers(0, 5))
def test_what_would_not_overflow_is_kept_and_what_would_is_not(sizes: list[int], already: int) -> None:
    channel = pushed(already, kept_bytes_max=2000)
    weight = sum(size + MESSAGE_OVERHEAD_BYTES for size in sizes)
    would = channel.would_overflow(len(sizes), weight)

    kept = [channel.push("said", bytes(size)) for size in sizes]

    assert channel.overflowed is would
    assert all(kept) is not would


def test_asking_changes_nothing() -> None:
    channel = pushed(3)

    channel.would_overflow(100, 10**9)

    assert not channel.overflowed
    assert numbers(channel.take()) == [1, 2, 3]


# Giving up


def test_a_channel_that_gave_up_is_as_one_that_overflowed() -> None:
    channel = pushed(6)
    channel.take()

    channel.give_up()

    assert channel.overflowed
    assert (channel.kept, channel.kept_bytes, channel.take()) == (0, 0, [])
    assert not channel.push("said", b"lost")
    assert channel.resume(1, 4) is None


def test_what_was_sent_before_a_channel_gave_up_may_still_be_acknowledged() -> None:
    channel = pushed(6)
    sent = numbers(channel.take())

    channel.give_up()
    channel.acknowledge(sent[-1])

    assert channel.last_seq == sent[-1]
    with pytest.raises(ProtocolError, match="never sent"):
        channel.acknowledge(sent[-1] + 1)


def test_after_giving_up_the_stream_begins_anew_in_the_next_generation() -> None:
    channel = pushed(6)
    channel.take()
    channel.give_up()

    channel.resync()
    channel.push("said", b"state")

    assert channel.generation == 2
    assert messages(channel.take()) == [(1, "said", b"state")]
