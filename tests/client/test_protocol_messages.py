"""The pure half of the client: messages both ways, and their acknowledgement."""

from typing import Any

import pytest

from holdfast.core.codec import Codec
from holdfast.core.errors import Invalid, NotSeated, ProtocolError
from holdfast.core.messages import Message
from holdfast.core.reasons import Reason
from holdfast.schemas.frames import Ack, BlockFrame, BlockMessage, Data, Latest, Outcome, Ping, Pong, Request
from tests.client.script import Script, frames_of, info, limits, terms

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


def block(script: Script, seq: int, *bodies: str) -> BlockFrame:
    return BlockFrame(1, seq, 0, [BlockMessage("hit", script.raw(body)) for body in bodies])


def test_a_block_is_its_messages_in_their_order(seated: Script) -> None:
    arrived = seated.arrive(block(seated, 1, "a", "b"), seated.data(3))

    assert [(each.seq, each.name) for each in arrived] == [(1, "hit"), (2, "hit"), (3, "hit")]


def test_of_a_block_that_was_heard_in_part_the_rest_is_new(seated: Script) -> None:
    seated.arrive(block(seated, 1, "a", "b"))

    (new,) = seated.arrive(block(seated, 2, "b", "c"))

    assert (new.seq, bytes(new.body)) == (3, bytes(seated.raw("c")))


def test_a_block_after_a_gap_breaks_the_sequence(seated: Script) -> None:
    with pytest.raises(ProtocolError, match="message 1 is missing"):
        seated.hear(block(seated, 2, "b"))


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


@pytest.mark.parametrize("terms_of_none", [{"window_messages_max": 0}, {"window_bytes_max": -1}, {"silence_s": -1.0}])
def test_terms_under_which_nobody_could_say_anything_break_the_protocol(
    codec: Codec, terms_of_none: dict[str, Any]
) -> None:
    script = Script(codec)

    with pytest.raises(ProtocolError, match="terms cannot be kept"):
        script.welcome(terms=terms(**terms_of_none))


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
    assert seated.hear(seated.latest(7)) == [Latest(1, "hit", seated.raw(7))]


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


def test_large_messages_are_acknowledged_before_they_fill_the_window(codec: Codec) -> None:
    script = Script(codec)
    script.welcome(terms=terms(window_bytes_max=4_000))
    script.seat()

    script.process(script.data(1, body="x" * 400))
    early = script.said()
    script.process(script.data(2, body="x" * 400), script.data(3, body="x" * 400))

    assert early == []
    assert script.said() == [Ack(1, 3)]


def test_a_request_takes_the_acknowledgement_with_it(seated: Script) -> None:
    seated.process(seated.data(1))
    seated.client.request("leave", {})

    ack, request = seated.said()

    assert ack == Ack(1, 1)
    assert isinstance(request, Request)
    assert seated.said(with_acks=True) == []


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
