"""The pure half of the client, against hand-made payloads of a server: hellos, welcomes and requests."""

from math import inf, nan
from typing import Any

import msgspec
import pytest

from holdfast.client.protocol import Welcomed
from holdfast.client.saved import SavedState
from holdfast.core.codec import MSGPACK, Codec
from holdfast.core.errors import Invalid, ProtocolError
from holdfast.schemas.frames import (
    Ack,
    Auth,
    Close,
    Data,
    Latest,
    Notice,
    Outcome,
    Ping,
    Position,
    Reply,
    Request,
    RequestProblem,
    SeatFrame,
)
from tests.client.script import TERMS, Script, frames_of, info

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
    assert resume.positions == [Position(1, 1, 1, accepted=3)]


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
        SeatFrame("joined", 1, 1, "room", "arena"),
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
    assert Script(codec).hear(Close(4003, "busy", "full", 2.5)) == [Close(4003, "busy", "full", 2.5)]


@pytest.mark.parametrize(("said", "meant"), [(-1.0, 0.0), (nan, 0.0), (inf, inf)])
def test_a_time_to_wait_that_is_none_is_no_wait(said: float, meant: float) -> None:
    (closed,) = Script(MSGPACK).hear(Close(4003, "busy", "", said))

    assert isinstance(closed, Close)
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

    assert seated.hear(Reply(request_id, [])) == [Reply(request_id, [], None)]
    assert seated.hear(Reply(request_id, [])) == []


def test_a_refusal_is_told_with_its_problem(seated: Script) -> None:
    request_id = seated.client.request("join", {"room": "x"})
    problem = RequestProblem("room_full", "all 8 seats are taken")

    assert seated.hear(Reply(request_id, problem=problem)) == [Reply(request_id, None, problem)]


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
    assert seated.hear(Notice("rooms", "w1", body)) == [Notice("rooms", "w1", body)]


def test_a_request_does_not_overtake_the_messages_before_it(seated: Script) -> None:
    seated.push("last words")
    seated.client.request("leave", {})

    assert [type(frame) for frame in seated.said()] == [Data, Request]


# Secrets


def test_no_secret_is_in_any_repr(seated: Script) -> None:
    seated.push("what I said")
    client = seated.client

    shown = repr([client, client.channels, SavedState.read(client.save()), *seated.resume(info(0))])

    assert not any(secret in shown for secret in ("t1", "ada.secret", "what I said"))
