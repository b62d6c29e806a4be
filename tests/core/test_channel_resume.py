"""A channel goes on where it was (R5): after a drop, in another process, and at an end that remembers less."""

import pytest

from holdfast.core.block import MESSAGE_OVERHEAD_BYTES
from holdfast.core.errors import ProtocolError
from tests.cases import every_case
from tests.core.channel_samples import a_channel, messages, numbers, pushed, received

# R5: a resume replays exactly what is missing.


@every_case("position", range(6))
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


def test_a_saved_state_with_places_that_were_filled_is_full_until_the_peer_has_applied_them() -> None:
    channel = a_channel()
    channel.fill_to(2, "forgotten", b"")
    elsewhere = a_channel()

    elsewhere.restore_outward(channel.last_seq, channel.kept_messages(), filled_to=2)
    is_full = [elsewhere.is_full]
    for ack in (1, 2):
        elsewhere.acknowledge(ack)
        is_full.append(elsewhere.is_full)

    assert is_full == [True, True, False]


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
