"""The pure half of the client: what a reset, a resync or an end makes of its channels."""

from typing import Any

import msgspec
import pytest

from holdfast.client.channels import ChannelGone, ChannelOpened, Restarted
from holdfast.client.protocol import Welcomed
from holdfast.core.codec import Codec
from holdfast.core.errors import NotSeated, ProtocolError
from holdfast.core.limits import Limits
from holdfast.schemas.frames import Ack, Auth, Outcome, Position, Reply, SeatFrame
from tests.client.script import Script, frames_of, info

# Reset


def test_a_reset_fails_what_was_asked_and_ends_every_channel(seated: Script) -> None:
    seated.push("lost")
    request_id = seated.client.request("search", {})
    reset = Outcome("reset", reason="expired")

    gone, replied, welcomed = seated.resume(session="s2", outcome=reset)

    assert gone == ChannelGone(1, "expired", is_reset=True)
    assert isinstance(replied, Reply)
    assert (replied.id, replied.problem and replied.problem.code) == (request_id, "reset")
    assert welcomed == Welcomed(reset)
    assert seated.said() == []


def test_after_a_reset_channels_and_requests_are_counted_from_one(seated: Script) -> None:
    seated.client.request("search", {})
    seated.resume(session="s2", outcome=Outcome("reset", reason="expired"))

    assert seated.seat(1) == [ChannelOpened(1, "room-1", "arena")]
    assert seated.client.request("search", {}) == 1


def test_a_message_of_the_former_session_acknowledges_nothing_in_the_next(seated: Script) -> None:
    *_, former = seated.arrive(seated.data(1), seated.data(2), seated.data(3))
    seated.resume(session="s2", outcome=Outcome("reset", reason="expired"))
    seated.seat(1)

    seated.client.processed(former)

    assert seated.said(with_acks=True) == []


def test_a_client_that_must_sign_in_again_forgets_its_session_and_says_so(seated: Script) -> None:
    seated.client.lost()

    assert seated.client.sign_in_again("token_reused")
    hello = seated.hello()
    events = seated.welcome(session="s2")

    assert (hello.auth, hello.resume) == (Auth("guest", "ada.secret"), None)
    assert events == [ChannelGone(1, "token_reused", is_reset=True), Welcomed(Outcome("reset", reason="token_reused"))]


def test_a_client_signs_in_again_once(seated: Script) -> None:
    seated.client.sign_in_again("token_reused")

    assert not seated.client.sign_in_again("auth_failed")


def test_a_client_with_nothing_to_sign_in_with_does_not(seated: Script) -> None:
    other = seated.in_another_process(seated.client.save())
    without = Script(seated.codec, None)

    assert other.client.sign_in_again("token_reused")
    assert not without.client.sign_in_again("token_reused")


# Resync


def test_a_stream_that_begins_anew_is_told_and_counted_from_one(seated: Script) -> None:
    seated.arrive(seated.data(1), seated.data(2))

    events = seated.resume(info(0, generation=2), outcome=Outcome("resynced"))

    assert events == [Restarted(1, 2), Welcomed(Outcome("resynced"))]
    assert [arrived.seq for arrived in seated.arrive(seated.data(1))] == [1]


def test_a_resync_costs_nothing_of_what_was_sent(seated: Script) -> None:
    seated.push("a", "b")
    seated.said()

    seated.resume(info(1, generation=2), outcome=Outcome("resynced"))

    assert seated.said_data() == [(2, "b")]


def test_a_message_from_before_the_resync_acknowledges_nothing_after_it(seated: Script) -> None:
    *_, former = seated.arrive(seated.data(1), seated.data(2))
    seated.resume(info(0, generation=2), outcome=Outcome("resynced"))

    seated.client.processed(former)

    assert seated.hello().resume.positions == [Position(1, 2, 0)]  # type: ignore[union-attr] # it has a session


def test_a_seat_may_begin_its_stream_anew_without_a_drop(seated: Script) -> None:
    seated.push("kept")
    seated.process(seated.data(1))

    events = seated.hear(SeatFrame("resynced", 1, 2, "room-1", "arena"))

    assert events == [Restarted(1, 2)]
    assert seated.client.unacked(1) == 1


def test_a_seat_that_is_announced_twice_is_refused(seated: Script) -> None:
    with pytest.raises(ProtocolError, match="opened twice"):
        seated.seat(1)


# The ends of channels


def test_a_channel_that_the_server_has_no_more_is_gone(seated: Script) -> None:
    assert seated.resume() == [ChannelGone(1, "dropped"), Welcomed(Outcome("resumed"))]
    with pytest.raises(NotSeated):
        seated.push("late")


def test_a_seat_whose_announcement_was_lost_is_told_by_the_welcome(codec: Codec) -> None:
    script = Script(codec)
    script.welcome()

    events = script.resume(info(0))

    assert events == [ChannelOpened(1, "room-1", "arena"), Welcomed(Outcome("resumed"))]
    script.push("a")
    assert script.said_data() == [(1, "a")]


def test_the_last_message_of_a_channel_is_acknowledged_at_once_and_the_channel_forgotten(seated: Script) -> None:
    *_, left = seated.arrive(seated.data(1), seated.left(2))
    assert seated.said(with_acks=True) == []

    seated.client.processed(left)

    assert seated.said() == [Ack(1, 2)]
    assert seated.client.channels.get(1) is None


@pytest.mark.parametrize("is_away", [False, True])
def test_the_end_of_a_channel_is_told_again_by_the_next_hello(seated: Script, is_away: bool) -> None:
    (left,) = seated.arrive(seated.left(1))
    if is_away:
        seated.client.lost()
    seated.client.processed(left)
    seated.client.lost()

    assert seated.hello().resume.positions == [Position(1, 1, 1)]  # type: ignore[union-attr] # it has a session
    assert seated.welcome(outcome=Outcome("resumed")) == [Welcomed(Outcome("resumed"))]
    assert seated.said() == []
    assert seated.hello().resume.positions == []  # type: ignore[union-attr] # it has a session


def test_a_seat_that_was_gone_before_it_was_known_is_no_seat(codec: Codec) -> None:
    script = Script(codec)
    script.welcome()
    unknown = msgspec.structs.replace(info(0), room="", kind="")

    events = script.resume(unknown)

    assert events == [Welcomed(Outcome("resumed"))]
    assert script.client.channels.seats() == []
    script.process(script.data(1), script.left(2))
    assert script.said() == [Ack(1, 2)]


def test_channels_that_nobody_reads_are_bounded(seated: Script) -> None:
    gone: list[Any] = []
    for channel in range(2, 20):
        gone += frames_of(ChannelGone, seated.seat(channel))

    assert len(list(seated.client.channels)) == Limits().closing_channels_max + 1
    assert gone[0] == ChannelGone(1, "left")
