"""The server's half of the protocol for the servers of others, without a socket: exactly once, and by the rules."""

from random import Random
from typing import Any

import pytest
from msgspec import Raw

from holdfast.core.channel import Channel
from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.errors import ProtocolError
from holdfast.core.limits import Limits
from holdfast.core.reasons import CLOSE_CODES, Reason
from holdfast.library.connection import SignInAsked, StreamConnection, Unnumbered
from holdfast.schemas.frames import Bye, Close, Data, Hello, Latest, Ping, Pong, Reply, Request, Welcome
from tests.cases import every_case
from tests.library.ends import Ends

STEPS = ("up", "down", "write", "carry_up", "carry_down", "carry_up", "carry_down", "cut", "work", "rest")

BODY = Raw(MSGPACK.encode({"number": 1}))


def played(seed: int, codec: Codec = MSGPACK) -> Ends:
    """Both ends talk while the connection is cut at random, in the middle of everything; then it holds."""
    ends = Ends(codec=codec, random=Random(seed))
    random = ends.random
    ends.open()
    ends.settle()
    said_up = said_down = 0
    for _ in range(400):
        match random.choice(STEPS):
            case "up" if not ends.client.is_full(1):
                said_up += 1
                ends.say_up(said_up)
            case "down":
                said_down += 1
                ends.say_down(said_down)
            case "write":
                ends.write()
            case "carry_up" if ends.up:
                ends.carry_up()
            case "carry_down" if ends.down:
                ends.carry_down()
            case "cut" if random.random() < 0.3:
                ends.cut()
                ends.open()
            case "work":
                ends.session.is_handling = True  # a handler awaits something: what comes has to wait
            case "rest":
                ends.session.is_handling = False
                ends.handle()
            case _:
                pass  # not possible at the moment
    ends.session.is_handling = False
    ends.handle()
    ends.settle()
    assert ends.heard_up == list(range(1, said_up + 1))
    assert ends.heard_down == list(range(1, said_down + 1))
    return ends


@every_case("codec", [MSGPACK, JSON])
@every_case("seed", range(60))
def test_each_message_arrives_once_and_in_order_however_the_connection_is_cut(seed: int, codec: Codec) -> None:
    ends = played(seed, codec)

    assert {outcome.kind for outcome in ends.outcomes} <= {"new", "resumed"}
    assert len(ends.sessions) == 1


def test_a_double_that_is_not_dropped_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    accept = Channel.accept
    monkeypatch.setattr(Channel, "accept", lambda self, seq: accept(self, seq) or True)

    with pytest.raises(AssertionError):
        any(played(seed) is None for seed in range(20))


def test_a_message_that_is_not_kept_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    resume = Channel.resume

    def forgetful(self: Channel, generation: int, received: int | None) -> int | None:
        return resume(self, generation, self.sent)

    monkeypatch.setattr(Channel, "resume", forgetful)

    with pytest.raises((AssertionError, ProtocolError)):
        any(played(seed) is None for seed in range(20))


# Tokens


def test_a_token_is_used_once_and_its_second_use_ends_the_session() -> None:
    ends = Ends()
    ends.open()
    ends.settle()
    stolen = ends.client.hello()
    for _ in range(2):
        ends.cut()
        ends.open()
        ends.settle()
    thief = StreamConnection(ends.place, MSGPACK, 0.0, wake=lambda: None)

    assert list(thief.receive(stolen, 0.0)) == []

    assert thief.closing is not None
    assert thief.closing.code == CLOSE_CODES[Reason.TOKEN_REUSED]
    assert ends.ended == [("ada", Reason.TOKEN_REUSED)]


def test_a_welcome_that_was_lost_does_not_lock_the_client_out() -> None:
    ends = Ends()
    ends.open()
    ends.settle()

    for _ in range(5):
        ends.cut()
        ends.open()
        ends.carry_up()
        ends.write()  # the welcome is written, and never arrives
    ends.cut()
    ends.open()
    ends.settle()

    assert ends.outcomes[-1].kind == "resumed"


def test_a_session_is_not_resumed_by_another_player_whom_the_server_has_proven() -> None:
    ends = Ends()
    ends.open()
    ends.settle()
    ends.cut()

    ends.open(player_id="mallory")
    ends.carry_up()

    assert ends.happened[-1] == "SignInAsked"


def test_a_newer_connection_takes_the_session_over() -> None:
    ends = Ends()
    first = ends.open()
    ends.settle()
    ends.client.lost()

    ends.open()
    ends.settle()

    assert ends.happened == ["SignInAsked", "TakenOver", "Returned"]
    assert first.closing is not None
    assert first.closing.reason == Reason.SUPERSEDED


def test_what_was_not_kept_is_declared() -> None:
    ends = Ends(limits=Limits(kept_messages_max=64, window_messages_max=32))
    ends.open()
    ends.settle()
    ends.cut()
    for number in range(100):
        ends.say_down(number)

    ends.open()
    ends.settle()
    ends.say_down(100)
    ends.settle()

    assert ends.outcomes[-1].kind == "resynced"
    assert ends.heard_down == [100]


def test_a_session_that_is_gone_is_reset() -> None:
    ends = Ends()
    ends.open()
    ends.settle()
    ends.cut()
    ends.sessions.clear()

    ends.open()
    ends.settle()

    assert (ends.outcomes[-1].kind, ends.outcomes[-1].reason) == ("reset", "expired")


# Time


def closed_at(connection: StreamConnection, now: float) -> tuple[str, ...]:
    connection.outgoing(now)
    return () if connection.closing is None else (connection.closing.reason,)


def test_a_hello_must_come_in_time() -> None:
    limits = Limits()
    connection = Ends(limits=limits).open()

    assert connection.next_at == limits.hello_s
    assert closed_at(connection, limits.hello_s - 0.1) == ()
    assert closed_at(connection, limits.hello_s) == (Reason.HELLO_TIMEOUT,)


def test_a_connection_whose_player_is_being_authenticated_needs_no_look_at_the_clock() -> None:
    ends = Ends()
    connection = ends.open()

    events = list(connection.receive(ends.up.pop(), ends.limits.hello_s / 2))

    assert [type(event) for event in events] == [SignInAsked]
    assert closed_at(connection, ends.limits.hello_s + 1.0) == ()
    assert connection.next_at is None


def test_a_client_is_pinged_measured_and_given_up_when_it_is_silent() -> None:
    ends = Ends()
    connection = ends.open()
    ends.settle()
    limits = ends.limits
    assert connection.next_at == limits.ping_s

    (ping,) = MSGPACK.from_server(connection.outgoing(limits.ping_s)[0])
    assert isinstance(ping, Ping)
    list(connection.receive(MSGPACK.payload(Pong(ping.id, ping.channel, 0)), limits.ping_s + 0.05))
    assert ends.session.stream.latency_ms == pytest.approx(50.0)

    assert closed_at(connection, limits.ping_s + 0.05 + limits.silence_s - 0.01) == ()
    assert closed_at(connection, limits.ping_s + 0.05 + limits.silence_s) == (Reason.SILENT,)


# What is refused


@every_case(
    ("payload", "reason"),
    [
        (b"\xc1", Reason.PROTOCOL),
        ("text", Reason.PROTOCOL),
        (MSGPACK.payload(Bye()), Reason.PROTOCOL),
        (b"\x90" + bytes(Limits().hello_bytes_max), Reason.TOO_BIG),
        (MSGPACK.payload(Hello()), Reason.EXPIRED),
    ],
)
def test_a_first_payload_that_is_no_hello_closes_the_connection(payload: bytes | str, reason: Reason) -> None:
    connection = Ends().open()

    assert list(connection.receive(payload, 0.0)) == []

    assert connection.closing is not None
    assert connection.closing.reason == reason
    (close,) = MSGPACK.from_server(connection.outgoing(0.0)[0])
    assert isinstance(close, Close)


@every_case(
    ("frame", "reason"),
    [
        (Hello(), Reason.PROTOCOL),
        (Data(1, 2, 0, "number", BODY), Reason.SEQUENCE),
        (Data(2, 1, 0, "number", BODY), Reason.PROTOCOL),
        (Data(1, 1, 7, "number", BODY), Reason.SEQUENCE),
        (Pong(1, 1, 9), Reason.SEQUENCE),
    ],
)
def test_a_frame_that_breaks_the_rules_closes_the_connection_and_the_session_lives(frame: Any, reason: Reason) -> None:
    ends = Ends()
    connection = ends.open()
    ends.settle()

    assert list(connection.receive(MSGPACK.payload(frame), 0.0)) == []

    assert connection.closing is not None
    assert connection.closing.reason == reason
    assert ends.session.is_over is False


def test_more_bytes_than_the_window_are_not_taken() -> None:
    ends = Ends(limits=Limits(window_bytes_max=1000))
    connection = ends.open()
    ends.settle()
    ends.session.is_handling = True  # what comes has to wait
    large = Raw(MSGPACK.encode({"number": "x" * 100}))

    for seq in range(1, 30):
        list(connection.receive(MSGPACK.payload(Data(1, seq, 0, "number", large)), 0.0))

    assert connection.closing is not None
    assert connection.closing.reason == Reason.SEQUENCE
    assert ends.session.waiting_bytes < 1000 + 200


def test_unreliable_messages_are_passed_on_without_a_number_on_the_one_channel() -> None:
    ends = Ends()
    connection = ends.open()
    ends.settle()

    frame = Latest(1, "number", BODY)
    assert list(connection.receive(MSGPACK.payload(frame), 0.0)) == [Unnumbered(ends.session, frame)]
    assert list(connection.receive(MSGPACK.payload(Latest(2, "number", BODY)), 0.0)) == []
    assert connection.closing is not None


def test_as_many_unreliable_messages_wait_for_a_client_as_the_limit_says() -> None:
    ends = Ends(limits=Limits(latest_kept_max=2))
    connection = ends.open()
    ends.settle()

    for key in "abca":
        connection.send_latest(f"number {key}", BODY, key)

    assert connection.outgoing(0.0) == [MSGPACK.payload(*(Latest(1, f"number {key}", BODY) for key in "ca"))]


@every_case(
    ("operation", "code"),
    [("join", ""), ("join_or_create", ""), ("mine", ""), ("leave", "not_allowed"), ("search", "not_found")],
)
def test_clients_find_themselves_in_the_one_place_that_there_is(operation: str, code: str) -> None:
    ends = Ends()
    connection = ends.open()
    ends.settle()

    list(connection.receive(MSGPACK.payload(Request(1, operation, Raw(MSGPACK.encode({})))), 0.0))

    (reply,) = MSGPACK.from_server(connection.outgoing(0.0)[0])
    assert isinstance(reply, Reply)
    if code:
        assert reply.problem is not None
        assert reply.problem.code == code
    else:
        (info,) = reply.result if isinstance(reply.result, list) else [reply.result]
        assert (info["id"], info["kind"]) == ("mine", "mine")


def test_the_welcome_names_the_place_and_the_terms() -> None:
    ends = Ends()
    connection = ends.open()
    ends.carry_up()

    (welcome,) = MSGPACK.from_server(connection.outgoing(0.0)[0])

    assert isinstance(welcome, Welcome)
    assert [(info.channel, info.room) for info in welcome.channels] == [(1, "mine")]
    assert welcome.terms.grace_s == 30.0
