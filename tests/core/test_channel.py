"""The two gapless streams of a channel while nothing is lost: rules R1, R6 and the window of R7."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.block import MESSAGE_OVERHEAD_BYTES
from holdfast.core.channel import Channel
from holdfast.core.errors import ProtocolError
from holdfast.core.reasons import Reason
from tests.core.channel_samples import a_channel, messages, numbers, pushed, received

# R1: a message is accepted if it is the next one.


def test_the_next_message_is_accepted() -> None:
    channel = a_channel()

    assert channel.accept(1)
    assert channel.accept(2)
    assert channel.accepted == 2


@pytest.mark.parametrize("seq", [1, 2, 3])
def test_a_double_is_not_accepted_and_is_acknowledged_again(seq: int) -> None:
    channel = received(1, 2, 3)
    channel.ack_sent = 3

    assert not channel.accept(seq)

    assert channel.accepted == channel.applied == 3
    assert channel.owes_ack


@pytest.mark.parametrize("seq", [5, 6, 100, 2**53 - 1])
def test_a_gap_breaks_the_protocol_and_changes_nothing(seq: int) -> None:
    channel = received(1, 2, 3)

    with pytest.raises(ProtocolError, match="message 4 is missing") as broken:
        channel.accept(seq)

    assert broken.value.reason is Reason.SEQUENCE
    assert channel.accepted == 3
    assert channel.accept(4)


@given(st.lists(st.integers(1, 12), max_size=40))
def test_whatever_comes_in_each_message_is_accepted_once_and_in_order(arriving: list[int]) -> None:
    channel = a_channel(window_messages_max=100)
    accepted = []

    for seq in arriving:
        try:
            if channel.accept(seq):
                accepted.append(seq)
        except ProtocolError:
            assert seq > len(accepted) + 1

    assert accepted == list(range(1, len(accepted) + 1))


def test_a_message_is_acknowledged_only_once_it_was_applied() -> None:
    channel = a_channel()
    channel.accept(1)
    channel.accept(2)

    before = channel.owes_ack
    channel.applied = 1

    assert not before
    assert channel.owes_ack
    assert (channel.accepted, channel.applied) == (2, 1)


def test_a_peer_that_sends_more_than_the_window_allows_breaks_the_protocol() -> None:
    channel = a_channel(window_messages_max=2)
    channel.accept(1)
    channel.accept(2)

    with pytest.raises(ProtocolError, match="window") as broken:
        channel.accept(3)

    assert broken.value.reason is Reason.SEQUENCE
    channel.applied = 1
    assert channel.accept(3)


# Sending: numbers, and the window (R7).


def test_messages_get_the_numbers_from_one_and_leave_in_order_unchanged() -> None:
    channel = a_channel()
    channel.push("said", b"a")
    channel.push("moved", b"b")

    assert messages(channel.take()) == [(1, "said", b"a"), (2, "moved", b"b")]


def test_a_message_is_taken_once() -> None:
    channel = pushed(2)
    channel.take()

    assert channel.take() == []
    channel.push("said", b"3")
    assert numbers(channel.take()) == [3]


def test_what_was_taken_is_kept_until_it_is_acknowledged() -> None:
    channel = pushed(3)
    channel.take()

    kept = channel.kept
    channel.acknowledge(3)

    assert kept == 3
    assert channel.kept == 0


def test_no_more_messages_are_in_flight_than_the_window_allows() -> None:
    channel = pushed(10, window_messages_max=4)

    assert numbers(channel.take()) == [1, 2, 3, 4]
    assert channel.take() == []


def test_each_acknowledgement_opens_the_window_by_what_it_names() -> None:
    channel = pushed(10, window_messages_max=4)
    channel.take()

    channel.acknowledge(3)

    assert numbers(channel.take()) == [5, 6, 7]
    assert channel.take() == []


def test_the_window_in_bytes_is_passed_by_at_most_the_message_that_fills_it() -> None:
    size = 100 + MESSAGE_OVERHEAD_BYTES
    channel = a_channel(window_messages_max=100, window_bytes_max=2 * size + 1)
    for _ in range(8):
        channel.push("said", bytes(100))

    first = numbers(channel.take())
    channel.acknowledge(1)
    second = numbers(channel.take())
    channel.acknowledge(3)
    third = numbers(channel.take())

    assert (first, second, third) == ([1, 2, 3], [4], [5, 6])


def test_a_message_larger_than_the_window_in_bytes_still_gets_through_alone() -> None:
    channel = a_channel(window_bytes_max=100)
    channel.push("said", bytes(1000))
    channel.push("said", b"small")

    assert numbers(channel.take()) == [1]
    channel.acknowledge(1)
    assert numbers(channel.take()) == [2]


def test_small_messages_are_weighed_with_what_it_costs_to_keep_them() -> None:
    channel = a_channel()

    channel.push("said", b"")

    assert channel.kept_bytes == MESSAGE_OVERHEAD_BYTES > 0


def test_a_full_channel_asks_its_sender_to_wait_long_before_it_overflows() -> None:
    by_count = pushed(4, window_messages_max=4)
    by_bytes = pushed(1, window_bytes_max=MESSAGE_OVERHEAD_BYTES)

    assert by_count.is_full
    assert by_bytes.is_full
    assert not pushed(3, window_messages_max=4).is_full
    by_count.take()
    by_count.acknowledge(1)
    assert not by_count.is_full


# R6: acknowledgements are cumulative and trim what is kept.


def test_an_acknowledgement_trims_everything_up_to_it() -> None:
    channel = pushed(4)
    channel.take()

    channel.acknowledge(3)

    assert channel.kept_messages() == [("said", b"4")]
    assert channel.kept_bytes == 1 + MESSAGE_OVERHEAD_BYTES


def test_an_acknowledgement_that_comes_late_or_twice_changes_nothing() -> None:
    channel = pushed(4)
    channel.take()
    channel.acknowledge(3)

    for ack in (3, 2, 0):
        channel.acknowledge(ack)

    assert (channel.acked, channel.kept) == (3, 1)


@pytest.mark.parametrize("ack", [3, 4, 5, 2**53 - 1])
def test_acknowledging_what_was_never_sent_breaks_the_protocol_and_changes_nothing(ack: int) -> None:
    channel = pushed(4, window_messages_max=2)
    channel.take()

    with pytest.raises(ProtocolError, match="never sent") as broken:
        channel.acknowledge(ack)

    assert broken.value.reason is Reason.SEQUENCE
    assert (channel.acked, channel.kept) == (0, 4)


def test_when_everything_is_acknowledged_nothing_is_left_and_the_whole_window_is_open() -> None:
    channel = a_channel(window_messages_max=4, window_bytes_max=500)
    for _ in range(50):
        channel.push("said", bytes(90))
        channel.take()
        channel.acknowledge(channel.last_seq)

    assert (channel.kept, channel.kept_bytes) == (0, 0)
    for _ in range(5):
        channel.push("said", bytes(60))
    assert len(channel.take()) == 4


def test_what_is_taken_carries_the_last_acknowledgement_and_pays_what_was_owed() -> None:
    channel = pushed(3, window_messages_max=2)
    for seq in (1, 2):
        channel.accept(seq)
    channel.applied = 1

    first = channel.take()
    channel.applied = 2
    owed = channel.owes_ack
    channel.acknowledge(1)
    second = channel.take()

    assert [frame.ack for frame in first] == [1, 1]
    assert owed
    assert [(frame.seq, frame.ack) for frame in second] == [(3, 2)]
    assert not channel.owes_ack


def test_taking_nothing_pays_nothing() -> None:
    channel = received(1, 2)

    assert channel.take() == []
    assert channel.owes_ack


# The end of a channel


def finished(channel: Channel) -> Channel:
    """Give the channel its last message, as the server does when a seat is freed."""
    channel.is_finished = True
    channel.push("holdfast.left", b"")
    return channel


def test_a_channel_is_over_when_its_last_message_is_acknowledged_and_not_before() -> None:
    channel = finished(pushed(2))
    channel.take()
    seen = [channel.is_over]

    for ack in (1, 2, 3):
        channel.acknowledge(ack)
        seen.append(channel.is_over)

    assert seen == [False, False, False, True]


def test_a_channel_whose_seat_is_still_taken_is_never_over() -> None:
    channel = pushed(1)
    channel.take()
    channel.acknowledge(1)

    assert not channel.is_over


def test_a_resume_that_has_everything_ends_a_finished_channel() -> None:
    channel = finished(pushed(2))
    channel.take()

    assert channel.resume(1, 3) == 0
    assert channel.is_over


@pytest.mark.parametrize("messages", [9, 10])
def test_a_finished_channel_that_overflowed_is_not_over_for_nobody_has_its_last_message(messages: int) -> None:
    channel = pushed(messages)
    if messages == 9:
        channel.push("said", b"fits")

    finished(channel)

    assert channel.overflowed
    assert not channel.is_over
    assert channel.resume(1, 0) is None


def test_a_channel_shows_where_it_is() -> None:
    channel = pushed(3, window_messages_max=2)
    channel.take()
    channel.acknowledge(1)
    channel.accept(1)

    assert repr(channel) == "<Channel 1.1 out 1/2/3 in 0/1>"
