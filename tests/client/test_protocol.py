"""The pure half of the client, against hand-made payloads of a server."""

from math import inf, nan
from typing import Any

import msgspec
import pytest

from holdfast.client.events import (
    ChannelGone,
    Closed,
    LatestArrived,
    Noticed,
    Replied,
    Restarted,
    SeatTaken,
    Welcomed,
)
from holdfast.client.saved import SavedState
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.errors import Invalid, NotSeated, ProtocolError
from holdfast.core.frames import (
    Ack,
    Auth,
    Close,
    Data,
    Latest,
    Notice,
    Outcome,
    Ping,
    Pong,
    Position,
    Problem,
    Reply,
    Request,
    Seat,
)
from holdfast.core.limits import Limits
from holdfast.core.messages import Message
from holdfast.core.reasons import Reason
from tests.client.script import TERMS, Script, info, limits, terms


@pytest.fixture(params=[MSGPACK, JSON], ids=["msgpack", "json"])
def codec(request: pytest.FixtureRequest) -> Codec:
    assert isinstance(request.param, Codec)
    return request.param


@pytest.fixture
def seated(codec: Codec) -> Script:
    """A client that was welcomed and has a seat on channel 1."""
    script = Script(codec)
    script.welcome(credential="ada.secret")
    script.seat()
    return script


def frames_of(kind: type[Any], frames: list[Any]) -> list[Any]:
    return [frame for frame in frames if isinstance(frame, kind)]


# Hello


def test_a_new_client_signs_in_and_has_nothing_to_resume(codec: Codec) -> None:
    hello = Script(codec, Auth("password", "hunter2")).hello()

    assert hello.auth == Auth("password", "hunter2")
    assert hello.resume is None


def test_a_client_comes_back_with_its_token_and_how_far_it_processed(seated: Script) -> None:
    first, *_ = seated.arrive(seated.data(1), seated.data(2), seated.data(3))
    seated.client.processed(first)
    seated.client.lost()

    resume = seated.hello().resume

    assert resume is not None
    assert (resume.session, resume.token) == ("s1", "t1")
    assert resume.positions == [Position(1, 1, 1)]


def test_a_client_that_comes_back_offers_to_sign_in_as_the_guest_it_was_made(seated: Script) -> None:
    assert seated.hello().auth == Auth("guest", "ada.secret")


def test_a_sign_in_that_made_no_credential_is_offered_again_as_it_was(codec: Codec) -> None:
    script = Script(codec, Auth("password", "hunter2"))
    script.welcome()

    assert script.hello().auth == Auth("password", "hunter2")


def test_each_welcome_brings_the_token_of_the_next_resume(seated: Script) -> None:
    seated.resume(info(0), token="t2")

    resume = seated.hello().resume

    assert resume is not None
    assert resume.token == "t2"


def test_a_hello_names_no_more_channels_than_the_wire_allows(seated: Script) -> None:
    for channel in range(2, 30):
        seated.seat(channel)
        if channel % 2:
            seated.process(seated.left(1, channel=channel))

    resume = seated.hello().resume

    assert resume is not None
    assert len(resume.positions) <= 8
    assert resume.positions[-1].channel == 29


# Before and around the welcome


@pytest.mark.parametrize(
    "frame",
    [
        Ping(1),
        Ack(1, 1),
        Reply(1),
        Seat("joined", 1, 1, "room", "arena"),
        Notice("rooms", "w1", None),
        Data(1, 1, 0, "hit", msgspec.Raw(b"1")),
        Latest(1, "hit", msgspec.Raw(b"1")),
    ],
    ids=lambda frame: frame.name,
)
def test_nothing_but_a_close_may_come_before_the_welcome(codec: Codec, frame: Any) -> None:
    script = Script(codec)

    with pytest.raises(ProtocolError, match=f"a {frame.name} came before the welcome"):
        script.hear(frame)


def test_a_close_may_come_before_the_welcome(codec: Codec) -> None:
    assert Script(codec).hear(Close(4003, "busy", "full", 2.5)) == [Closed(4003, "busy", "full", 2.5)]


@pytest.mark.parametrize(("said", "meant"), [(-1.0, 0.0), (nan, 0.0), (inf, inf)])
def test_a_time_to_wait_that_is_none_is_no_wait(said: float, meant: float) -> None:
    (closed,) = Script(MSGPACK).hear(Close(4003, "busy", "", said))

    assert isinstance(closed, Closed)
    assert closed.retry_after_s == meant


def test_a_second_welcome_is_refused(seated: Script) -> None:
    with pytest.raises(ProtocolError, match="second welcome"):
        seated.welcome()


def test_bytes_that_are_no_frames_are_refused(seated: Script) -> None:
    with pytest.raises(ProtocolError):
        list(seated.client.receive(b"\xc1"))


def test_nothing_is_written_before_the_welcome(codec: Codec) -> None:
    script = Script(codec)
    script.client.request("search", {})

    assert script.said() == []


def test_what_was_asked_before_the_first_welcome_is_asked_after_it(codec: Codec) -> None:
    script = Script(codec)
    script.client.request("search", {})

    events = script.welcome()

    assert events == [Welcomed(Outcome("new"))]
    assert [frame.id for frame in frames_of(Request, script.said())] == [1]


# To the server


def test_a_message_is_kept_until_it_is_acknowledged(seated: Script) -> None:
    seated.push("a", "b", "c")
    seated.said()

    assert seated.client.unacked(1) == 3
    seated.hear(Ack(1, 2))
    assert seated.client.unacked(1) == 1


@pytest.mark.parametrize("by", ["ack", "data", "ping"])
def test_whatever_carries_an_acknowledgement_acknowledges(seated: Script, by: str) -> None:
    seated.push("a", "b")
    seated.said()

    seated.hear({"ack": Ack(1, 2), "data": seated.data(1, ack=2), "ping": Ping(1, 1, 2)}[by])

    assert seated.client.unacked(1) == 0


def test_an_acknowledgement_of_what_was_never_sent_breaks_the_sequence(seated: Script) -> None:
    seated.push("a")
    seated.said()

    with pytest.raises(ProtocolError) as error:
        seated.hear(Ack(1, 2))

    assert error.value.reason is Reason.SEQUENCE


def test_after_a_resume_the_rest_is_sent_again_in_order_and_byte_for_byte(seated: Script) -> None:
    seated.push({"x": 1.5}, ["two"], None, "four")
    first = [frame.body for frame in frames_of(Data, seated.said())]

    seated.resume(info(1))
    again = frames_of(Data, seated.said())

    assert [frame.seq for frame in again] == [2, 3, 4]
    assert [bytes(frame.body) for frame in again] == [bytes(body) for body in first[1:]]


def test_what_the_server_applied_before_the_drop_is_not_sent_again(seated: Script) -> None:
    seated.push("a", "b", "c")
    seated.said()

    seated.resume(info(3))

    assert seated.said_data() == []
    assert seated.client.unacked(1) == 0


def test_messages_that_are_sent_while_away_go_out_after_the_resume(seated: Script) -> None:
    seated.push("a")
    seated.said()
    seated.client.lost()
    seated.push("b")
    assert seated.said() == []

    seated.welcome(info(0), outcome=Outcome("resumed"))

    assert seated.said_data() == [(1, "a"), (2, "b")]


def test_a_drop_during_the_resend_sends_everything_once_more(seated: Script) -> None:
    seated.push("a", "b", "c")
    seated.said()

    seated.resume(info(1))
    seated.said()
    seated.resume(info(1))

    assert seated.said_data() == [(2, "b"), (3, "c")]


def test_no_more_is_in_flight_than_the_servers_window(codec: Codec) -> None:
    script = Script(codec)
    script.welcome(terms=terms(window_messages_max=2))
    script.seat()
    script.push("a", "b")

    assert script.client.is_full(1)
    assert script.said_data() == [(1, "a"), (2, "b")]
    script.hear(Ack(1, 1))
    assert not script.client.is_full(1)


def test_everything_that_is_not_full_lets_through_can_be_kept(codec: Codec) -> None:
    script = Script(codec, limits=limits(kept_messages_max=3, kept_bytes_max=1000))
    script.welcome(terms=terms(window_messages_max=100, window_bytes_max=100_000))
    script.seat()

    while not script.client.is_full(1):
        script.push("x" * 500)

    assert script.client.unacked(1) == 100


def test_a_server_that_has_forgotten_what_it_acknowledged_breaks_the_protocol(seated: Script) -> None:
    seated.push("a", "b")
    seated.said()
    seated.hear(Ack(1, 2))

    with pytest.raises(ProtocolError, match="forgotten") as error:
        seated.resume(info(1))

    assert error.value.reason is Reason.PROTOCOL
    assert not seated.client.is_welcome


def test_a_message_that_no_payload_can_carry_is_refused(codec: Codec) -> None:
    class Shout(Message):
        text: str

    script = Script(codec)
    script.welcome(terms=terms(payload_bytes_max=1024))

    with pytest.raises(Invalid, match="send it in parts"):
        script.client.body(Shout("x" * 1024))


def test_payloads_are_no_larger_than_the_server_takes(codec: Codec) -> None:
    script = Script(codec)
    script.welcome(terms=terms(payload_bytes_max=1024))
    script.seat()
    script.push(*["x" * 400] * 10)

    payloads = script.client.outgoing()

    assert max(map(len, payloads)) <= 1024
    assert len(payloads) == 5


def test_a_seat_that_is_gone_takes_no_messages(seated: Script) -> None:
    seated.process(seated.left(1))

    with pytest.raises(NotSeated):
        seated.push("late")
    with pytest.raises(NotSeated):
        seated.client.push_latest(1, "hit", b"1")


# Unreliable messages


def test_of_unreliable_messages_with_the_same_key_the_newest_is_written(seated: Script) -> None:
    for x in range(3):
        seated.client.push_latest(1, "at", seated.codec.encode(x))
        seated.client.push_latest(1, "at", seated.codec.encode(x + 10), "other")

    latest = frames_of(Latest, seated.said())

    assert [seated.codec.body_decoder(int).decode(frame.body) for frame in latest] == [2, 12]


def test_unreliable_messages_wait_in_bounded_number_while_the_link_is_congested(codec: Codec) -> None:
    script = Script(codec, limits=limits(latest_kept_max=4))
    script.welcome()
    script.seat()
    for x in range(100):
        script.client.push_latest(1, "at", script.codec.encode(x), str(x))

    assert script.said(with_latest=False) == []
    assert len(frames_of(Latest, script.said())) == 4


def test_unreliable_messages_do_not_survive_a_drop(seated: Script) -> None:
    seated.client.push_latest(1, "at", seated.codec.encode(1))
    seated.client.lost()
    seated.client.push_latest(1, "at", seated.codec.encode(2))

    seated.welcome(info(0), outcome=Outcome("resumed"))

    assert frames_of(Latest, seated.said()) == []


def test_an_unreliable_message_that_comes_in_is_told(seated: Script) -> None:
    assert seated.hear(seated.latest(7)) == [LatestArrived(1, "hit", seated.raw(7))]


# From the server


def test_the_next_message_is_told_once_however_often_it_comes(seated: Script) -> None:
    first = seated.arrive(seated.data(1), seated.data(2))
    again = seated.arrive(seated.data(1), seated.data(2), seated.data(3))

    assert [arrived.seq for arrived in first] == [1, 2]
    assert [arrived.seq for arrived in again] == [3]


def test_a_gap_breaks_the_sequence(seated: Script) -> None:
    with pytest.raises(ProtocolError, match="message 1 is missing") as error:
        seated.hear(seated.data(2))

    assert error.value.reason is Reason.SEQUENCE


def test_what_came_before_a_broken_frame_is_told(seated: Script) -> None:
    told: list[Any] = []

    with pytest.raises(ProtocolError):
        told.extend(seated.client.receive(seated.codec.payload(seated.data(1), seated.data(3))))

    assert [event.seq for event in told] == [1]


def test_a_message_for_a_channel_that_was_never_opened_is_refused(seated: Script) -> None:
    with pytest.raises(ProtocolError, match="never opened"):
        seated.hear(seated.data(1, channel=2))


def test_a_message_for_a_channel_that_is_over_is_ignored(seated: Script) -> None:
    seated.process(seated.left(1))

    assert seated.hear(seated.data(1)) == []


def test_the_servers_window_counts_whatever_the_client_would_like(codec: Codec) -> None:
    script = Script(codec, limits=limits(window_messages_max=1))
    script.welcome(terms=terms(window_messages_max=3))
    script.seat()

    assert len(script.arrive(*[script.data(seq) for seq in (1, 2, 3)])) == 3
    with pytest.raises(ProtocolError, match="window"):
        script.hear(script.data(4))


# Acknowledging


def test_a_message_is_acknowledged_after_it_was_processed_and_not_before(seated: Script) -> None:
    (arrived,) = seated.arrive(seated.data(1))
    assert seated.said(with_acks=True) == []

    seated.client.processed(arrived)

    assert seated.said(with_acks=True) == [Ack(1, 1)]
    assert seated.said(with_acks=True) == []


def test_a_lone_acknowledgement_waits_for_enough_messages(codec: Codec) -> None:
    script = Script(codec, limits=limits(ack_messages=3))
    script.welcome()
    script.seat()

    said = []
    for seq in range(1, 7):
        script.process(script.data(seq))
        said.append(script.said())

    assert said == [[], [], [Ack(1, 3)], [], [], [Ack(1, 6)]]


def test_a_small_window_is_acknowledged_before_it_closes(codec: Codec) -> None:
    script = Script(codec, limits=limits(ack_messages=32))
    script.welcome(terms=terms(window_messages_max=4))
    script.seat()

    script.process(script.data(1), script.data(2))

    assert script.said() == [Ack(1, 2)]


def test_messages_carry_the_acknowledgement(seated: Script) -> None:
    seated.process(seated.data(1), seated.data(2))
    seated.push("a")

    (data,) = frames_of(Data, seated.said())

    assert data.ack == 2
    assert seated.said(with_acks=True) == []


def test_a_double_is_acknowledged_again(seated: Script) -> None:
    seated.process(seated.data(1))
    seated.said(with_acks=True)

    seated.hear(seated.data(1))

    assert seated.said(with_acks=True) == [Ack(1, 1)]


def test_a_ping_is_answered_with_the_acknowledgement(seated: Script) -> None:
    seated.process(seated.data(1))

    seated.hear(Ping(7, 1, 0, 12.5))

    assert seated.said(with_acks=True) == [Pong(7, 1, 1)]
    assert seated.client.latency_ms == 12.5


def test_a_ping_without_a_seat_is_answered(codec: Codec) -> None:
    script = Script(codec)
    script.welcome()

    script.hear(Ping(1))

    assert script.said() == [Pong(1)]


# Requests


def test_a_request_that_was_not_answered_is_sent_again_with_its_id(seated: Script) -> None:
    first = seated.client.request("create", {"kind": "arena"})
    second = seated.client.request("search", {})
    said = seated.said()
    seated.hear(Reply(first, "done"))

    seated.resume(info(0), requests=1)

    assert seated.said() == [said[1]]
    assert said[1].id == second  # type: ignore[union-attr] # a Request


def test_a_request_is_answered_once(seated: Script) -> None:
    request_id = seated.client.request("search", {})

    assert seated.hear(Reply(request_id, [])) == [Replied(request_id, [], None)]
    assert seated.hear(Reply(request_id, [])) == []


def test_a_refusal_is_told_with_its_problem(seated: Script) -> None:
    request_id = seated.client.request("join", {"room": "x"})
    problem = Problem("room_full", "all 8 seats are taken")

    assert seated.hear(Reply(request_id, problem=problem)) == [Replied(request_id, None, problem)]


def test_a_request_that_cannot_be_encoded_leaves_no_gap(seated: Script) -> None:
    with pytest.raises(TypeError):
        seated.client.request("create", {"properties": object()})
    with pytest.raises(Invalid):
        seated.client.request("create", {"properties": "x" * 100_000})

    assert seated.client.request("search", {}) == 1


def test_no_more_is_asked_at_once_than_the_server_answers(seated: Script) -> None:
    for _ in range(TERMS.requests_in_flight_max):
        assert seated.client.may_request
        seated.client.request("search", {})

    assert not seated.client.may_request
    seated.hear(Reply(1))
    assert seated.client.may_request


@pytest.mark.parametrize("body", [None, 1, {"changed": [], "removed": ["r1"]}])
def test_a_notice_is_told_as_it_is(seated: Script, body: Any) -> None:
    assert seated.hear(Notice("rooms", "w1", body)) == [Noticed("rooms", "w1", body)]


def test_a_request_does_not_overtake_the_messages_before_it(seated: Script) -> None:
    seated.push("last words")
    seated.client.request("leave", {})

    assert [type(frame) for frame in seated.said()] == [Data, Request]


# Reset


def test_a_reset_fails_what_was_asked_and_ends_every_channel(seated: Script) -> None:
    seated.push("lost")
    request_id = seated.client.request("search", {})
    reset = Outcome("reset", reason="expired")

    gone, replied, welcomed = seated.resume(session="s2", outcome=reset)

    assert gone == ChannelGone(1, "expired")
    assert isinstance(replied, Replied)
    assert (replied.id, replied.problem and replied.problem.code) == (request_id, "reset")
    assert welcomed == Welcomed(reset)
    assert seated.said() == []


def test_after_a_reset_channels_and_requests_are_counted_from_one(seated: Script) -> None:
    seated.client.request("search", {})
    seated.resume(session="s2", outcome=Outcome("reset", reason="expired"))

    assert seated.seat(1) == [SeatTaken(1, "room-1", "arena")]
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
    assert events == [ChannelGone(1, "token_reused"), Welcomed(Outcome("reset", reason="token_reused"))]


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

    events = seated.hear(Seat("resynced", 1, 2, "room-1", "arena"))

    assert events == [Restarted(1, 2)]
    assert seated.client.unacked(1) == 1


def test_a_seat_that_is_announced_twice_is_refused(seated: Script) -> None:
    with pytest.raises(ProtocolError, match="opened twice"):
        seated.seat(1)


# The ends of channels


def test_a_channel_that_the_server_has_no_more_is_gone(seated: Script) -> None:
    assert seated.resume() == [ChannelGone(1, "left"), Welcomed(Outcome("resumed"))]
    with pytest.raises(NotSeated):
        seated.push("late")


def test_a_seat_whose_announcement_was_lost_is_told_by_the_welcome(codec: Codec) -> None:
    script = Script(codec)
    script.welcome()

    events = script.resume(info(0))

    assert events == [SeatTaken(1, "room-1", "arena"), Welcomed(Outcome("resumed"))]
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


# Another process


def test_a_saved_session_goes_on_where_it_was(seated: Script) -> None:
    seated.process(seated.data(1), seated.data(2))
    seated.push("a", "b")
    seated.said()

    other = seated.in_another_process(seated.client.save())
    hello = other.hello()
    other.welcome(info(1), outcome=Outcome("resumed"), token="t2")

    assert hello == seated.hello()
    assert other.client.channels.seats() == [SeatTaken(1, "room-1", "arena")]
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

    seat = SeatTaken(1, "room-1", "arena")
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


# Secrets


def test_no_secret_is_in_any_repr(seated: Script) -> None:
    seated.push("what I said")
    client = seated.client

    shown = repr([client, client.channels, SavedState.read(client.save()), *seated.resume(info(0))])

    assert not any(secret in shown for secret in ("t1", "ada.secret", "what I said"))
