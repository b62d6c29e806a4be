"""The two gapless streams of a channel: rules R1, R5, R6 and R7 of exactly-once delivery."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.channel import MESSAGE_OVERHEAD_BYTES, Channel
from holdfast.core.errors import ProtocolError
from holdfast.core.frames import Data
from holdfast.core.limits import Limits
from holdfast.core.reasons import Reason

LIMITS = replace(Limits(), window_messages_max=4, window_bytes_max=4096, kept_messages_max=10, kept_bytes_max=16 * 1024)


def a_channel(**limits: int) -> Channel:
    return Channel(1, replace(LIMITS, **limits))


def pushed(count: int, **limits: int) -> Channel:
    """A channel with `count` messages "1", "2" … none of them sent."""
    channel = a_channel(**limits)
    for number in range(1, count + 1):
        assert channel.push("said", b"%d" % number)
    return channel


def messages(taken: list[Data]) -> list[tuple[int, str, bytes]]:
    return [(frame.seq, frame.type, bytes(frame.body)) for frame in taken]


def numbers(taken: list[Data]) -> list[int]:
    return [frame.seq for frame in taken]


def received(*applied: int) -> Channel:
    """A channel that accepted and applied these messages."""
    channel = a_channel()
    for seq in applied:
        assert channel.accept(seq)
        channel.applied = seq
    return channel


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


# R5: a resume replays exactly what is missing.


@pytest.mark.parametrize("position", range(6))
def test_a_resume_replays_exactly_what_is_missing_with_unchanged_bytes(position: int) -> None:
    channel = pushed(5, window_messages_max=10)
    sent = channel.take()

    missing = channel.resume(1, position)

    assert missing == 5 - position
    assert channel.take() == sent[position:]


def test_a_resume_acknowledges_what_the_peer_has() -> None:
    channel = pushed(5, window_messages_max=10)
    channel.take()

    channel.resume(1, 3)

    assert (channel.acked, channel.kept) == (3, 2)
    assert channel.kept_bytes == 2 * (1 + MESSAGE_OVERHEAD_BYTES)


def test_what_was_never_sent_is_sent_after_what_is_repeated() -> None:
    channel = pushed(3, window_messages_max=2)
    channel.take()

    assert channel.resume(1, 0) == 3
    assert numbers(channel.take()) == [1, 2]
    channel.acknowledge(2)
    assert numbers(channel.take()) == [3]


def test_a_second_resume_before_anything_was_written_replays_the_same() -> None:
    channel = pushed(3)
    channel.take()

    assert channel.resume(1, 1) == 2
    assert channel.resume(1, 1) == 2
    assert numbers(channel.take()) == [2, 3]


def test_a_second_resume_after_the_replay_was_lost_replays_it_again() -> None:
    channel = pushed(3)
    first = channel.take()
    channel.resume(1, 0)
    second = channel.take()
    channel.resume(1, 0)

    assert channel.take() == second == first


def test_a_resume_opens_the_whole_window_in_bytes() -> None:
    size = 100 + MESSAGE_OVERHEAD_BYTES
    channel = a_channel(window_messages_max=100, window_bytes_max=3 * size)
    for _ in range(6):
        channel.push("said", bytes(100))

    for _ in range(4):
        assert numbers(channel.take()) == [1, 2, 3]
        channel.resume(1, 0)
    channel.take()
    channel.acknowledge(3)

    assert numbers(channel.take()) == [4, 5, 6]


def test_a_position_older_than_what_is_kept_cannot_be_resumed() -> None:
    channel = pushed(3)
    channel.take()
    channel.acknowledge(2)

    assert channel.resume(1, 1) is None
    assert channel.resume(1, 2) == 1


def test_a_position_beyond_everything_cannot_be_resumed() -> None:
    channel = pushed(3)
    channel.take()

    assert channel.resume(1, 4) is None
    assert (channel.acked, channel.kept) == (0, 3)


@pytest.mark.parametrize("generation", [0, 2, 99])
def test_another_generation_cannot_be_resumed(generation: int) -> None:
    channel = pushed(3)
    channel.take()

    assert channel.resume(generation, 1) is None
    assert channel.resume(1, 1) == 2


def test_a_peer_that_lost_its_memory_cannot_be_resumed() -> None:
    assert pushed(3).resume(1, None) is None


def test_a_resume_tells_the_peer_what_was_applied_so_nothing_is_owed() -> None:
    channel = received(1, 2)
    before = channel.owes_ack

    channel.resume(1, 0)

    assert before
    assert not channel.owes_ack


def test_what_was_sent_before_a_resume_may_be_acknowledged_before_it_is_sent_again() -> None:
    channel = pushed(5, window_messages_max=3)
    channel.take()
    channel.resume(1, 1)

    channel.acknowledge(3)

    assert (channel.acked, channel.kept) == (3, 2)
    assert channel.kept_bytes == 2 * (1 + MESSAGE_OVERHEAD_BYTES)
    assert numbers(channel.take()) == [4, 5]
    channel.acknowledge(5)
    assert (channel.kept, channel.kept_bytes) == (0, 0)


def test_after_a_resume_what_was_never_sent_can_still_not_be_acknowledged() -> None:
    channel = pushed(5, window_messages_max=3)
    channel.take()
    channel.resume(1, 1)

    with pytest.raises(ProtocolError, match="never sent"):
        channel.acknowledge(4)

    assert numbers(channel.take()) == [2, 3, 4]


def test_an_acknowledgement_before_the_replay_leaves_the_window_in_bytes_whole() -> None:
    size = 100 + MESSAGE_OVERHEAD_BYTES
    channel = a_channel(window_messages_max=100, window_bytes_max=2 * size)
    for _ in range(8):
        channel.push("said", bytes(100))

    for turn in range(3):
        assert numbers(channel.take()) == [2 * turn + 1, 2 * turn + 2]
        channel.resume(1, 2 * turn)
        channel.acknowledge(2 * turn + 2)

    assert numbers(channel.take()) == [7, 8]


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


# A client in another process


def test_a_saved_stream_goes_on_with_the_same_numbers_and_bytes() -> None:
    channel = pushed(5, window_messages_max=10)
    sent = channel.take()
    channel.acknowledge(2)
    last_seq, kept = channel.last_seq, channel.kept_messages()

    elsewhere = a_channel()
    elsewhere.restore_outward(last_seq, kept)
    replayed = elsewhere.resume(1, 3)
    elsewhere.push("said", b"6")

    assert replayed == 2
    assert messages(elsewhere.take()) == [*messages(sent[3:]), (6, "said", b"6")]


def test_a_restored_stream_weighs_what_it_weighed() -> None:
    channel = pushed(3)

    elsewhere = a_channel()
    elsewhere.restore_outward(channel.last_seq, channel.kept_messages())

    assert (elsewhere.kept, elsewhere.kept_bytes) == (3, channel.kept_bytes)
    elsewhere.take()
    elsewhere.acknowledge(3)
    assert (elsewhere.kept, elsewhere.kept_bytes) == (0, 0)


def test_what_the_former_process_sent_may_be_acknowledged_before_it_is_sent_again() -> None:
    channel = pushed(3)
    channel.take()

    elsewhere = a_channel()
    elsewhere.restore_outward(channel.last_seq, channel.kept_messages())
    elsewhere.resume(1, 1)
    elsewhere.acknowledge(2)

    assert numbers(elsewhere.take()) == [3]


def test_after_an_older_saved_state_no_number_is_used_for_another_message() -> None:
    channel = a_channel()
    channel.restore_outward(3, [("said", b"3")])

    position = channel.resume(1, 7)
    channel.skip_to(7)
    channel.push("said", b"new")

    assert position is None
    assert messages(channel.take()) == [(8, "said", b"new")]
    assert channel.kept_bytes == 3 + MESSAGE_OVERHEAD_BYTES
    channel.acknowledge(8)
    assert (channel.kept, channel.kept_bytes) == (0, 0)


def test_skipping_to_what_was_given_out_already_skips_nothing() -> None:
    channel = pushed(3)

    channel.skip_to(2)
    channel.skip_to(3)

    assert numbers(channel.take()) == [1, 2, 3]


def test_numbers_the_peer_has_accepted_are_not_used_for_another_message() -> None:
    channel = a_channel()
    channel.restore_outward(3, [])
    channel.resume(1, 3)

    channel.fill_to(5, "forgotten", b"")
    channel.push("said", b"new")

    assert messages(channel.take()) == [(4, "forgotten", b""), (5, "forgotten", b""), (6, "said", b"new")]


def test_places_that_were_filled_may_be_acknowledged_before_they_are_sent() -> None:
    channel = a_channel()
    channel.restore_outward(3, [])
    channel.resume(1, 3)
    channel.fill_to(5, "forgotten", b"")
    channel.push("said", b"new")

    channel.acknowledge(5)

    assert messages(channel.take()) == [(6, "said", b"new")]
    with pytest.raises(ProtocolError, match="never sent"):
        channel.acknowledge(7)


def test_filling_to_what_was_given_out_already_fills_nothing() -> None:
    channel = pushed(3)

    channel.fill_to(2, "forgotten", b"")
    channel.fill_to(3, "forgotten", b"")

    assert channel.kept_messages() == [("said", b"1"), ("said", b"2"), ("said", b"3")]


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


# An end that remembers less than its peer


def test_numbers_that_were_acknowledged_and_forgotten_are_skipped() -> None:
    channel = received(1, 2)

    channel.forget_to(5, 1)

    assert (channel.accepted, channel.applied) == (5, 5)
    assert not channel.accept(5)
    assert channel.accept(6)


def test_an_end_that_remembers_as_much_as_its_peer_forgets_nothing() -> None:
    channel = received(1, 2, 3)

    channel.forget_to(2, 1)

    assert (channel.accepted, channel.applied) == (3, 3)
    assert channel.accept(4)


@pytest.mark.parametrize(("known", "following"), [(1, 3), (2, 3), (3, 4), (9, 10)])
def test_a_stream_that_begins_anew_does_so_in_a_generation_that_the_peer_has_not_seen(
    known: int, following: int
) -> None:
    channel = a_channel()
    channel.generation = 2

    channel.forget_to(0, known)
    channel.resync()

    assert channel.generation == following


def test_a_channel_shows_where_it_is() -> None:
    channel = pushed(3, window_messages_max=2)
    channel.take()
    channel.acknowledge(1)
    channel.accept(1)

    assert repr(channel) == "<Channel 1.1 out 1/2/3 in 0/1>"
