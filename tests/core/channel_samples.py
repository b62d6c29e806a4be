"""Channels with small limits: new, with messages to send, with messages received."""

from dataclasses import replace
from typing import Any

from holdfast.core.channel import Channel
from holdfast.core.limits import Limits
from holdfast.schemas.frames import Data

LIMITS = replace(Limits(), window_messages_max=4, window_bytes_max=4096, kept_messages_max=10, kept_bytes_max=16 * 1024)


def a_channel(**limits: int) -> Channel:
    changed: dict[str, Any] = dict(limits)
    return Channel(1, replace(LIMITS, **changed))


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
