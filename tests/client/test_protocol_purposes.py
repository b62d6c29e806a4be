"""The pure half of the client: several open channels at once, each with its purpose."""

import msgspec
import pytest

from holdfast.client.channels import ChannelGone, ChannelOpened, Channels, Restarted
from holdfast.core.codec import Codec
from holdfast.core.errors import ProtocolError
from holdfast.core.limits import Limits
from holdfast.core.reasons import Reason
from holdfast.schemas.frames import POSITIONS_MAX, Outcome
from tests.client.script import Script, frames_of, info

ROLLED_BACK = Outcome("resynced", reason=Reason.ROLLED_BACK)


def test_a_session_hears_each_of_its_channels(seated: Script) -> None:
    opened = [*seated.seat(2, "spectator"), *seated.seat(3, "session")]

    arrived = seated.arrive(seated.data(1), seated.data(1, channel=2), seated.data(1, channel=3))

    assert opened == [ChannelOpened(2, "room-2", "arena", "spectator"), ChannelOpened(3, "", "", "session")]
    assert [(each.channel, each.seq) for each in arrived] == [(1, 1), (2, 1), (3, 1)]


def test_a_channel_is_the_newest_until_another_with_its_purpose_is_opened(seated: Script) -> None:
    channels = seated.client.channels
    seated.seat(2, "spectator")
    are_newest_before = [channels.is_newest(number) for number in (1, 2, 3)]

    seated.seat(3)

    assert are_newest_before == [True, True, False]
    assert [channels.is_newest(number) for number in (1, 2, 3)] == [False, True, True]


def test_a_channel_may_be_announced_after_a_younger_one_of_another_purpose(seated: Script) -> None:
    seated.seat(3)

    opened = seated.seat(2, "session")

    assert opened == [ChannelOpened(2, "", "", "session")]
    assert [each.seq for each in seated.arrive(seated.data(1, channel=2))] == [1]
    with pytest.raises(ProtocolError, match="channel 2 was opened twice"):
        seated.seat(2, "session")


def test_an_old_channel_that_is_open_outlasts_younger_ones_that_are_not(codec: Codec) -> None:
    script = Script(codec)
    script.welcome()
    script.seat(1, "session")
    script.seat(2, "spectator")
    gone = [each for number in range(3, 20) for each in frames_of(ChannelGone, script.seat(number))]

    kept = [channel.number for channel in script.client.channels]

    assert len(kept) == Limits().closing_channels_max + 3
    assert kept[:2] == [1, 2]
    assert [each.channel for each in gone] == list(range(3, 15))


def test_a_hello_leaves_out_what_is_over_before_what_is_open(codec: Codec) -> None:
    script = Script(codec)
    script.welcome()
    script.seat(1, "session")
    for number in range(2, 6):
        script.seat(number)
        script.process(script.left(1, channel=number))
    for number in range(6, 12):
        script.seat(number)

    resume = script.hello().resume

    assert resume is not None
    assert len(resume.positions) == POSITIONS_MAX
    numbers = [position.channel for position in resume.positions]
    assert numbers == sorted(numbers)
    assert {1, 7, 8, 9, 10, 11} <= set(numbers)


def test_a_rollback_keeps_a_channel_only_for_the_same_purpose(seated: Script) -> None:
    seated.seat(2, "session")
    seated.seat(3, "spectator")

    events = seated.resume(
        info(0, generation=2),
        msgspec.structs.replace(info(0, channel=2, generation=2), room="", kind=""),
        info(0, channel=3, generation=2),
        outcome=ROLLED_BACK,
    )

    assert frames_of(ChannelGone, events) == [ChannelGone(number, "rolled_back", is_reset=True) for number in (2, 3)]
    assert frames_of(ChannelOpened, events) == [ChannelOpened(3, "room-3", "arena")]
    assert seated.client.channels.is_newest(3)


def test_a_saved_session_remembers_what_each_channel_is_for(seated: Script) -> None:
    seated.seat(2, "session")
    seated.seat(3, "spectator")
    seated.seat(4, "spectator")
    seated.process(seated.left(1, channel=4))

    channels: Channels = seated.in_another_process(seated.client.save()).client.channels

    assert channels.seats() == [
        ChannelOpened(1, "room-1", "arena"),
        ChannelOpened(2, "", "", "session"),
        ChannelOpened(3, "room-3", "arena", "spectator"),
    ]
    assert [channels.is_newest(number) for number in (1, 2, 3, 4)] == [True, True, False, True]


def test_a_session_s_own_stream_that_began_anew_before_we_heard_of_it_is_a_gap(seated: Script) -> None:
    events = seated.resume(info(0), info(0, channel=2, generation=3, purpose="session"))
    again = seated.in_another_process(seated.client.save()).client.channels

    assert [each.channel for each in frames_of(Restarted, events)] == [2]
    assert Restarted(2, 3) in again.seats()


def test_a_purpose_that_nobody_knows_is_acknowledged_and_passed_over(codec: Codec) -> None:
    script = Script(codec)
    script.welcome()

    events = script.resume(msgspec.structs.replace(info(0), purpose="weather"))

    assert ChannelOpened(1, "room-1", "arena", "weather") in events
    assert [arrived.seq for arrived in script.arrive(script.data(1))] == [1]
