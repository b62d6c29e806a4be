"""Recordings as files: written and read, and refused with a reason when they are something else."""

import zlib

import msgspec
import pytest

from holdfast.core.recording import NotARecording, Recording, RecordingSize
from holdfast.core.recording_file import from_bytes, to_bytes
from holdfast.schemas.recording import CauseRecord, RecordingHead, StoredBlock, TurnRecord

HEAD = RecordingHead("r", "table", 10.0, 1_000.0, "0.1.0")
_encode = msgspec.msgpack.encode


def recorded(turns: int) -> Recording:
    """A recording of a counter."""
    recording = Recording(HEAD, RecordingSize(1_000_000, 100_000))
    for number in range(1, turns + 1):
        if recording.wants_keyframe:
            recording.begin_block(_encode([["count", number - 1]]))
        patch = msgspec.Raw(_encode([["count", number]]))
        recording.append(TurnRecord(number, 10.0 + number, 0.001, CauseRecord("tick", "on_tick"), patch))
    return recording


def test_every_turn_and_state_is_read_back() -> None:
    recording = recorded(250)

    reader = from_bytes(to_bytes(HEAD, recording.blocks()))

    assert [turn.number for turn in reader.turns()] == list(range(1, 251))
    assert [state["count"] for _, state in reader.states(0, 250)] == list(range(251))
    assert [reader.state_at(number)["count"] for number in (0, 1, 99, 100, 101, 250)] == [0, 1, 99, 100, 101, 250]
    assert (reader.head, len(reader), 251 in reader) == (HEAD, 250, False)


def test_a_file_of_something_else_is_refused() -> None:
    for data in (b"", b"{}", b'{"format": "holdfast-room"}', b"\x95\xa3abc", b"x" * 1000):
        with pytest.raises(NotARecording, match="it is not a recording"):
            from_bytes(data)


def test_a_file_of_a_later_version_is_refused() -> None:
    data = to_bytes(HEAD, recorded(3).blocks()).replace(b"holdfast-recording\x01", b"holdfast-recording\x07", 1)

    with pytest.raises(NotARecording, match="version 7"):
        from_bytes(data)


def test_a_file_that_is_cut_short_or_changed_anywhere_is_refused_or_the_same() -> None:
    data = to_bytes(HEAD, recorded(120).blocks())
    whole = [(number, dict(state)) for number, state in from_bytes(data).states(0, 120)]

    for place in range(len(data)):
        damaged = bytes([*data[:place], data[place] ^ 0x41, *data[place + 1 :]])
        for each in (data[:place], damaged):
            try:
                reader = from_bytes(each)
                read = [(number, dict(state)) for number, state in reader.states(0, 120)]
            except NotARecording:
                continue
            # What is not in a block has no checksum: a time, a name.
            assert read == whole or reader.head != HEAD or reader.last != 120


def test_a_block_that_inflates_to_more_than_it_says_is_refused() -> None:
    bomb = StoredBlock(1, 1, 0.0, 100, zlib.compress(bytes(50_000_000)))

    with pytest.raises(NotARecording, match="not as long"):
        from_bytes(to_bytes(HEAD, [bomb])).state_at(1)


def test_turns_that_are_missing_are_noticed() -> None:
    first, _, *rest = recorded(350).blocks()

    with pytest.raises(NotARecording, match="turns before 201 are missing"):
        from_bytes(to_bytes(HEAD, [first, *rest]))
