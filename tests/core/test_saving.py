"""A session that was saved goes on as if nothing had happened but a lost connection."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from holdfast.core.codec import JSON, MSGPACK, Codec
from holdfast.core.codecs import CODECS
from holdfast.core.limits import Limits
from holdfast.core.records import Unreadable, channel_record, decode_session, encode, restored_session, session_record
from holdfast.core.session import Session
from holdfast.core.tokens import TOKEN_BYTES, Verdict
from holdfast.schemas.frames import Reply, RequestProblem
from holdfast.schemas.session import SessionRecord
from tests.core.samples import a_connection, a_session

LIMITS = Limits()


def a_long_session(codec: Codec = MSGPACK) -> Session:
    session = a_session("s-7", "ada", now=1.0, limits=LIMITS, roles=frozenset({"admin", "host"}))
    session.codec = codec
    session.attach(a_connection(), now=2.0)
    session.detach(now=3.0)
    session.attach(a_connection("c-2"), now=4.0)
    session.last_request, session.requests_announced = 4, 6
    session.replied(Reply(2, Raw(codec.encode({"id": "r-1"}))))
    session.replied(Reply(3, None, RequestProblem("room_full", "all 8 seats are taken")))
    session.replied(Reply(4, Raw(codec.encode(None))))
    return session


def record_of(session: Session, room_id: str = "r-1") -> SessionRecord:
    closing = [channel_record(channel) for channel in session.closing]
    return decode_session(encode(session_record(session, room_id, closing)))


def restored(session: Session, limits: Limits = LIMITS) -> Session:
    return restored_session("s-7", record_of(session), limits=limits, now=50.0, grace_s=20.0)


@pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: str(codec.name))
def test_a_session_comes_back_as_who_it_was(codec: Codec) -> None:
    session = restored(a_long_session(codec))

    assert (str(session.id), str(session.player_id)) == ("s-7", "ada")
    assert session.roles == frozenset({"admin", "host"})
    assert session.codec is codec
    assert session.grace_s == 20.0
    assert session.created_at == session.last_active_at == 50.0


def test_a_session_that_comes_back_has_no_connection_and_waits_with_a_fresh_grace() -> None:
    session = restored(a_long_session())

    session.restored(now=60.0)

    assert session.status == "disconnected"
    assert (session.connection, session.room_id, session.player, session.channel) == (None, "", None, None)
    assert not session.has_expired(79.9)
    assert session.has_expired(80.0)


def test_what_an_old_connection_says_is_still_out_of_date() -> None:
    session = a_long_session()

    back = restored(session)
    back.restored(now=60.0)
    back.attach(a_connection("c-3"), now=61.0)

    assert back.epoch == session.epoch + 1 == 3


@pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: str(codec.name))
def test_requests_that_were_answered_are_answered_the_same_again(codec: Codec) -> None:
    session = a_long_session(codec)

    back = restored(session)

    assert (back.last_request, back.requests_announced) == (4, 6)
    assert [reply.id for reply in back.replies] == [2, 3, 4]
    for reply in session.replies:
        assert codec.encode(back.reply_to(reply.id)) == codec.encode(reply)


def test_channels_whose_seat_is_gone_still_owe_their_last_messages() -> None:
    session = a_long_session()
    for body in (b"first", b"second"):
        channel = session.open_channel()
        channel.push("said", body)
        channel.is_finished = True
        session.close_channel()

    back = restored(session)

    assert [(channel.number, channel.kept_messages()) for channel in back.channels()] == [
        (1, [("said", b"first")]),
        (2, [("said", b"second")]),
    ]
    assert all(channel.is_finished for channel in back.closing)


def test_the_number_of_a_channel_is_never_used_again() -> None:
    session = a_long_session()
    session.open_channel()
    session.close_channel()
    session.closing = ()

    back = restored(session)

    assert back.was_opened(1)
    assert not back.was_opened(2)
    assert back.open_channel().number == 2


def test_the_record_says_where_the_seat_is() -> None:
    session = a_long_session()

    assert record_of(session, "r-9").room == "r-9"
    assert record_of(session, "").room == ""


def test_a_session_of_a_dialect_that_nobody_speaks_any_more_is_unreadable() -> None:
    record = session_record(a_long_session(JSON), "", [])
    stranger = SessionRecord(**{name: getattr(record, name) for name in record.__struct_fields__} | {"codec": "morse"})

    with pytest.raises(Unreadable, match="session s-7 uses the codec 'morse'"):
        restored_session("s-7", stranger, limits=LIMITS, now=0.0, grace_s=1.0)


# Tokens


def entropy(number: int) -> bytes:
    return number.to_bytes(TOKEN_BYTES, "big")


def test_tokens_keep_their_verdicts() -> None:
    session = a_long_session()
    first = session.tokens.issue(entropy(1))
    second = session.tokens.rotate(entropy(2))
    session.tokens.confirm()
    unconfirmed = session.tokens.rotate(entropy(3))

    def verdict(token: str) -> Verdict:
        return restored(session).tokens.present(token)

    assert verdict(first) is Verdict.REUSED
    assert verdict(second) is Verdict.GOOD
    assert verdict(unconfirmed) is Verdict.GOOD
    assert verdict("a guess") is Verdict.UNKNOWN


def test_without_a_next_token_none_is_good() -> None:
    session = a_long_session()
    token = session.tokens.issue(entropy(1))

    back = restored(session)

    assert back.tokens.present("") is Verdict.UNKNOWN
    assert back.tokens.present(token) is Verdict.GOOD


def test_where_there_was_no_next_token_there_is_none_to_confirm() -> None:
    session = a_long_session()
    token = session.tokens.issue(entropy(1))

    back = restored(session)
    back.tokens.confirm()

    assert back.tokens.hashes() == session.tokens.hashes()
    assert back.tokens.present(token) is Verdict.GOOD


def test_a_token_that_is_confirmed_after_the_restart_retires_the_one_before_it() -> None:
    session = a_long_session()
    first = session.tokens.issue(entropy(1))
    second = session.tokens.rotate(entropy(2))

    back = restored(session)

    assert back.tokens.present(second) is Verdict.GOOD
    assert back.tokens.present(first) is Verdict.REUSED


def test_of_more_retired_tokens_than_may_be_kept_the_latest_are() -> None:
    session = a_long_session()
    tokens = [session.tokens.issue(entropy(0))]
    for number in range(1, 7):
        tokens.append(session.tokens.rotate(entropy(number)))
        session.tokens.confirm()

    back = restored(session, replace(LIMITS, retired_tokens_max=2))

    assert [back.tokens.present(token) for token in tokens[-4:]] == [
        Verdict.UNKNOWN,
        Verdict.REUSED,
        Verdict.REUSED,
        Verdict.GOOD,
    ]


@given(resumes=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12))
def test_tokens_that_are_saved_at_any_time_are_judged_as_they_would_have_been(
    resumes: list[tuple[bool, bool]],
) -> None:
    def family() -> tuple[Session, list[str]]:
        session = a_long_session()
        tokens = [session.tokens.issue(entropy(0))]
        for number, (presents, confirms) in enumerate(resumes, start=1):
            if presents:
                session.tokens.present(tokens[-1])
            tokens.append(session.tokens.rotate(entropy(number)))
            if confirms:
                session.tokens.confirm()
        return session, tokens

    _, tokens = family()
    for token in [*tokens, "a guess"]:
        session, _ = family()
        back = restored(session)

        assert back.tokens.present(token) is session.tokens.present(token)


def test_no_token_is_in_a_record() -> None:
    session = a_long_session()
    tokens = [session.tokens.issue(entropy(1)), session.tokens.rotate(entropy(2))]

    stored = encode(session_record(session, "", []))

    assert all(token.encode() not in stored for token in tokens)
    assert entropy(1) not in stored
