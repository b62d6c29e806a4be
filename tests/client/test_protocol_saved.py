"""The pure half of the client: a saved session that goes on in another process."""

import msgspec
import pytest

from holdfast.client.channels import ChannelOpened, Restarted
from holdfast.client.protocol import Welcomed
from holdfast.client.saved import SavedState
from holdfast.core.codec import Codec
from holdfast.core.errors import Invalid, ProtocolError
from holdfast.schemas.frames import Ack, Auth, Outcome
from tests.client.script import TERMS, Script, info, terms


def test_a_saved_session_goes_on_where_it_was(seated: Script) -> None:
    seated.process(seated.data(1), seated.data(2))
    seated.push("a", "b")
    seated.said()

    other = seated.in_another_process(seated.client.save())
    hello = other.hello()
    other.welcome(info(1), outcome=Outcome("resumed"), token="t2")

    assert hello == seated.hello()
    assert other.client.channels.seats() == [ChannelOpened(1, "room-1", "arena")]
    assert other.said_data() == [(2, "b")]
    assert [arrived.seq for arrived in other.arrive(other.data(3))] == [3]
    assert (other.client.session_id, other.client.player_id) == ("s1", "ada")


def test_messages_that_were_not_processed_before_the_save_come_again(seated: Script) -> None:
    seated.arrive(seated.data(1), seated.data(2))

    other = seated.in_another_process(seated.client.save())
    other.welcome(info(0), outcome=Outcome("resumed"))

    assert [arrived.seq for arrived in other.arrive(other.data(1), other.data(2))] == [1, 2]


def test_numbers_that_were_used_after_an_old_save_are_never_used_again(seated: Script) -> None:
    seated.push("a")
    old = seated.client.save()
    seated.push("b", "c")

    other = seated.in_another_process(old)
    other.welcome(info(3), outcome=Outcome("resumed"))
    other.push("d")

    assert other.said_data() == [(4, "d")]


def test_what_waits_at_the_server_and_nobody_remembers_fills_the_window_of_the_process_after_the_next_too(
    seated: Script,
) -> None:
    other = seated.in_another_process(seated.client.save())
    other.welcome(info(0, accepted=2), outcome=Outcome("resumed"))
    third = other.in_another_process(other.client.save())
    third.welcome(info(0, accepted=2), outcome=Outcome("resumed"))
    was_full = third.client.is_full(1)

    third.hear(Ack(1, 2))

    assert (was_full, third.client.is_full(1)) == (True, False)


def test_nothing_is_numbered_before_the_server_has_said_how_far_an_old_save_is_behind(seated: Script) -> None:
    other = seated.in_another_process(seated.client.save())
    is_ready_before = not other.client.is_full(1), other.client.may_request

    other.welcome(info(7), outcome=Outcome("resumed"), requests=5)
    is_ready_after = not other.client.is_full(1), other.client.may_request
    other.push("a")

    assert (is_ready_before, is_ready_after) == ((False, False), (True, True))
    assert other.said_data() == [(8, "a")]
    assert other.client.request("search", {}) == 6


def test_numbers_that_the_server_has_taken_but_not_applied_are_never_used_again(seated: Script) -> None:
    seated.push("a")
    old = seated.client.save()
    seated.push("b", "c")

    other = seated.in_another_process(old)
    other.welcome(msgspec.structs.replace(info(1), accepted=3), outcome=Outcome("resumed"))
    other.push("d")

    assert other.said_data()[-1] == (4, "d")
    other.hear(Ack(1, 4))
    assert other.client.unacked(1) == 0


def test_a_server_that_has_taken_more_than_its_window_breaks_the_protocol(seated: Script) -> None:
    with pytest.raises(ProtocolError, match="window"):
        seated.resume(msgspec.structs.replace(info(0), accepted=TERMS.window_messages_max + 1))


def test_a_stream_that_began_anew_is_told_again_in_the_next_process_until_it_was_read(seated: Script) -> None:
    restarted, _ = seated.resume(info(0, generation=2), outcome=Outcome("resynced"))
    assert isinstance(restarted, Restarted)
    unread = seated.in_another_process(seated.client.save())

    seated.client.processed(seated.client.restart_of(restarted))
    read = seated.in_another_process(seated.client.save())

    seat = ChannelOpened(1, "room-1", "arena")
    assert unread.client.channels.seats() == [seat, Restarted(1, 2)]
    assert read.client.channels.seats() == [seat]


def test_an_old_save_whose_messages_the_server_has_let_go_of_is_resynced(seated: Script) -> None:
    old = seated.client.save()

    other = seated.in_another_process(old)
    events = other.welcome(info(0, generation=2), outcome=Outcome("resynced"))

    assert events == [Restarted(1, 2), Welcomed(Outcome("resynced"))]
    assert [arrived.seq for arrived in other.arrive(other.data(1))] == [1]


def test_a_saved_session_keeps_to_the_terms_of_the_server_it_comes_back_to(seated: Script) -> None:
    seated.push("a", "b", "c")

    other = seated.in_another_process(seated.client.save())
    other.welcome(info(0), outcome=Outcome("resumed"), terms=terms(window_messages_max=2))

    assert other.said_data() == [(1, "a"), (2, "b")]


def test_other_terms_after_a_resume_change_nothing_about_what_came_and_what_was_sent(seated: Script) -> None:
    first, *_ = seated.arrive(seated.data(1), seated.data(2))
    seated.client.processed(first)
    seated.push("a", "b")
    seated.said()

    seated.resume(info(1), terms=terms(window_messages_max=32))

    assert seated.said_data() == [(2, "b")]
    assert [arrived.seq for arrived in seated.arrive(seated.data(2), seated.data(3))] == [3]


def test_the_end_of_a_channel_is_saved_too(seated: Script) -> None:
    seated.process(seated.left(1))

    other = seated.in_another_process(seated.client.save())

    assert other.hello() == seated.hello()


def test_a_saved_guest_signs_in_as_the_same_guest_if_the_session_is_gone(seated: Script) -> None:
    assert seated.in_another_process(seated.client.save()).hello().auth == Auth("guest", "ada.secret")


def test_a_saved_session_does_not_become_somebody_else_when_it_is_gone(codec: Codec) -> None:
    script = Script(codec, Auth("password", "hunter2"))
    script.welcome()

    state = script.client.save()

    assert b"hunter2" not in state
    assert script.in_another_process(state).hello().auth is None
    assert script.in_another_process(state, Auth("password", "new")).hello().auth == Auth("password", "new")


@pytest.mark.parametrize("junk", [b"", b"junk", b"\xc1", msgspec.msgpack.encode({"session": 1})])
def test_what_is_no_saved_session_is_refused(junk: bytes) -> None:
    with pytest.raises(Invalid, match="not a saved session"):
        SavedState.read(junk)


def test_a_save_that_keeps_more_than_was_ever_sent_is_refused(seated: Script) -> None:
    seated.push("a", "b")
    saved = SavedState.read(seated.client.save())
    (channel,) = saved.channels
    broken = msgspec.structs.replace(saved, channels=[msgspec.structs.replace(channel, last_seq=1)])

    with pytest.raises(Invalid, match="more messages than it has sent"):
        SavedState.read(broken.write())


def test_a_session_that_was_lost_before_the_save_leaves_no_requests_to_the_next_one(seated: Script) -> None:
    seated.resume(info(0), requests=5)
    seated.client.sign_in_again("token_reused")

    other = seated.in_another_process(seated.client.save(), Auth())
    other.welcome(session="s2")
    other.client.lost()
    resume = other.hello().resume

    assert resume is not None
    assert (resume.session, resume.requests) == ("s2", 0)
