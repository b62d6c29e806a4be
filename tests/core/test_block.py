"""Blocks in a channel: messages with the numbers, limits and replays of others, written in one frame."""

import pytest
from msgspec import Raw

from holdfast.core.block import MESSAGE_OVERHEAD_BYTES, Block
from holdfast.core.channel import Channel
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.schemas.frames import BlockFrame, Data
from tests.core.channel_samples import a_channel, messages, numbers, pushed

ABC = (("said", b"1"), ("heard", b"2"), ("said", b"3"))


def with_block(channel: Channel) -> Channel:
    assert channel.keep(Block(JSON, *ABC))
    return channel


@pytest.mark.parametrize("codec", [JSON, MSGPACK])
def test_a_peer_that_reads_blocks_gets_one_frame_with_all_messages(codec: Codec) -> None:
    channel = a_channel()
    assert channel.keep(Block(codec, *((name, codec.encode(name)) for name, _ in ABC)))

    (frame,) = codec.from_server(codec.payload(*channel.take_blocks()))

    assert isinstance(frame, BlockFrame)
    assert (frame.channel, frame.seq, frame.ack) == (1, 1, 0)
    assert messages(frame.data()) == [(seq, name, codec.encode(name)) for seq, (name, _) in enumerate(ABC, 1)]


def test_another_peer_gets_the_same_messages_one_by_one() -> None:
    assert messages(with_block(pushed(1)).take()) == [(1, "said", b"1"), *((i, *each) for i, each in enumerate(ABC, 2))]


def test_a_block_is_encoded_once_for_all_channels_and_only_its_head_for_each() -> None:
    block = Block(JSON, *ABC)
    channels = [a_channel(), pushed(1)]
    for channel in channels:
        channel.applied = channel.last_seq
        assert channel.keep(block)

    first, *_, second = [frame for channel in channels for frame in channel.take_blocks()]

    assert isinstance(first, BlockFrame)
    assert isinstance(second, BlockFrame)
    assert (first.seq, first.ack) == (1, 0)
    assert (second.seq, second.ack) == (2, 1)
    assert first.messages is second.messages


def test_a_block_of_one_message_is_an_ordinary_frame() -> None:
    channel = a_channel()
    channel.keep(Block(JSON, ("said", b"1")))

    assert channel.take_blocks() == [Data(1, 1, 0, "said", Raw(b"1"))]


def test_messages_alone_and_in_blocks_keep_their_order() -> None:
    channel = with_block(pushed(1, window_messages_max=20))
    channel.push("said", b"5")

    first, block, last = channel.take_blocks()

    assert (first.seq, block.seq, last.seq) == (1, 2, 5)
    assert isinstance(block, BlockFrame)


def test_a_resume_in_the_middle_of_a_block_sends_only_the_rest() -> None:
    channel = with_block(a_channel())
    channel.take_blocks()

    assert channel.resume(1, 2) == 1
    assert messages(channel.take()) == [(3, "said", b"3")]


def test_an_acknowledgement_in_the_middle_of_a_block_frees_what_it_covers() -> None:
    channel = with_block(a_channel())
    channel.take_blocks()

    channel.acknowledge(2)

    assert (channel.acked, channel.kept, channel.kept_bytes) == (2, 1, 1 + MESSAGE_OVERHEAD_BYTES)
    assert channel.kept_messages() == [("said", b"3")]


def test_of_a_block_that_does_not_fit_into_the_window_the_first_messages_are_sent() -> None:
    channel = with_block(pushed(2))

    assert numbers(channel.take()) == [1, 2, 3, 4]
    channel.acknowledge(1)
    assert numbers(channel.take()) == [5]


def test_all_messages_of_a_block_count_towards_what_may_be_kept() -> None:
    channel = pushed(8)

    assert not channel.keep(Block(JSON, *ABC))

    assert (channel.overflowed, channel.kept, channel.kept_bytes) == (True, 0, 0)


def test_a_block_that_waits_is_saved_as_its_messages() -> None:
    channel = with_block(pushed(1))

    assert channel.kept_messages() == [("said", b"1"), *ABC]
