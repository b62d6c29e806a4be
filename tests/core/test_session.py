"""A session on its own: it outlives its connections, and each new one raises its epoch."""

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.connection import Connection, ConnectionId
from holdfast.core.limits import Limits
from holdfast.core.reasons import Reason
from holdfast.core.session import Session, SessionFlags, SessionStep
from holdfast.core.tables import IllegalTransition
from holdfast.core.tokens import TOKEN_BYTES
from holdfast.schemas.frames import Purpose
from tests.core.samples import a_connection, a_session


def a_connected_session(*, now: float = 0.0, grace_s: float = 30.0) -> Session:
    session = a_session(grace_s=grace_s)
    session.attach(a_connection(), now)
    return session


def test_a_new_session_waits_for_its_first_connection() -> None:
    session = a_session(now=7.0)

    assert session.status == "preconnect"
    assert session.connection is None
    assert session.epoch == 0
    assert session.created_at == session.last_active_at == 7.0
    assert not session.has_expired(10**9)


def test_a_session_that_its_server_remembers_waits_with_a_fresh_grace_and_counts_no_drop() -> None:
    session = a_session(now=7.0, grace_s=30.0)

    session.restored(now=100.0)

    assert session.status == "disconnected"
    assert session.drops == 0
    assert not session.has_expired(129.9)
    assert session.has_expired(130.0)


def test_a_session_that_is_restored_can_be_attached_again_like_one_that_dropped() -> None:
    session = a_session(grace_s=30.0)
    session.restored(now=100.0)

    old = session.attach(a_connection(), now=110.0)

    assert old is None
    assert session.status == "connected"
    assert not session.has_expired(10**9)


def test_the_status_words_are_the_documented_ones() -> None:
    session = a_session()
    seen = [session.status]

    session.attach(a_connection(), now=1.0)
    seen.append(session.status)
    session.detach(now=2.0)
    seen.append(session.status)
    session.finish(SessionStep.EXPIRED, Reason.GRACE_ENDED)
    seen.append(session.status)

    assert seen == ["preconnect", "connected", "disconnected", "ended"]


def test_the_documented_properties_are_there() -> None:
    session = a_session(roles=frozenset({"gm"}), grace_s=5.0)

    assert session.id == "s-1"
    assert session.player_id == "ada"
    assert session.roles == {"gm"}
    assert session.grace_s == 5.0
    assert session.latency_ms == 0.0
    assert (session.codec, session.data, session.room_id, session.on_disconnect) == (None, None, "", None)


# Connections


def test_the_epoch_rises_with_every_attach() -> None:
    session = a_session()
    epochs = []

    for number in range(5):
        session.attach(a_connection(f"c-{number}"), now=float(number))
        epochs.append(session.epoch)
        if number % 2:
            session.detach(now=number + 0.5)

    assert epochs == [1, 2, 3, 4, 5]


def test_a_takeover_returns_the_connection_it_replaced() -> None:
    session = a_session()
    old, new = a_connection("old"), a_connection("new")

    assert session.attach(old, now=1.0) is None
    assert session.attach(new, now=2.0) is old
    assert session.connection is new
    assert session.status == "connected"


def test_a_return_after_a_drop_replaces_nothing() -> None:
    session = a_connected_session()
    session.detach(now=1.0)

    assert session.attach(a_connection("c-2"), now=2.0) is None


def test_attaching_is_activity() -> None:
    session = a_session(now=0.0)

    session.attach(a_connection(), now=9.0)

    assert session.last_active_at == 9.0


def test_every_drop_is_counted() -> None:
    session = a_session()

    for number in range(3):
        session.attach(a_connection(f"c-{number}"), now=0.0)
        session.detach(now=0.0)

    assert session.drops == 3


# The grace


def test_a_connected_session_never_expires() -> None:
    session = a_connected_session(grace_s=1.0)

    assert not session.has_expired(10**9)


def test_a_dropped_session_expires_when_the_grace_has_passed_and_not_before() -> None:
    session = a_connected_session(grace_s=30.0)
    session.detach(now=100.0)

    assert not session.has_expired(100.0)
    assert not session.has_expired(129.999)
    assert session.has_expired(130.0)
    assert session.has_expired(10**9)


def test_a_return_ends_the_grace() -> None:
    session = a_connected_session(grace_s=30.0)
    session.detach(now=100.0)

    session.attach(a_connection("c-2"), now=129.0)

    assert session.expires_at is None
    assert not session.has_expired(130.0)


def test_a_drop_after_a_return_starts_a_fresh_grace() -> None:
    session = a_connected_session(grace_s=30.0)
    session.detach(now=100.0)
    session.attach(a_connection("c-2"), now=129.0)

    session.detach(now=129.5)

    assert not session.has_expired(130.0), "the first drop's deadline must be forgotten"
    assert not session.has_expired(159.0)
    assert session.has_expired(159.5)


def test_no_grace_means_an_end_at_the_drop() -> None:
    session = a_connected_session(grace_s=0.0)

    session.detach(now=100.0)

    assert session.has_expired(100.0)


@given(
    grace_s=st.floats(0.0, 1e6),
    steps=st.lists(st.tuples(st.floats(0.0, 1e4), st.booleans()), max_size=20),
)
def test_no_session_expires_before_it_was_away_for_its_grace(grace_s: float, steps: list[tuple[float, bool]]) -> None:
    session = a_connected_session(grace_s=grace_s)
    now, away_since = 0.0, None

    for seconds, wants_connection in steps:
        now += seconds
        if wants_connection:
            session.attach(a_connection("c-2"), now)
            away_since = None
        elif away_since is None:
            session.detach(now)
            away_since = now
        assert session.has_expired(now) == (away_since is not None and now >= away_since + grace_s)


# The end


@pytest.mark.parametrize("event", [SessionStep.ENDED, SessionStep.EXPIRED])
def test_an_ended_session_is_ended_for_good(event: SessionStep) -> None:
    session = a_connected_session()
    session.detach(now=1.0)

    session.finish(event, Reason.KICKED)

    assert session.status == "ended"
    assert session.end_reason is Reason.KICKED
    assert session.connection is None
    assert not session.has_expired(10**9)
    with pytest.raises(IllegalTransition):
        session.attach(a_connection("c-2"), now=2.0)
    with pytest.raises(IllegalTransition):
        session.finish(SessionStep.ENDED, Reason.BYE)
    assert session.end_reason is Reason.KICKED
    assert session.epoch == 1


def test_a_connected_session_lets_go_of_its_connection_when_it_ends() -> None:
    session = a_connected_session()

    session.finish(SessionStep.ENDED, Reason.KICKED)

    assert session.connection is None


def test_a_connected_session_cannot_run_out_of_grace() -> None:
    session = a_connected_session()

    with pytest.raises(IllegalTransition):
        session.finish(SessionStep.EXPIRED, Reason.GRACE_ENDED)

    assert session.status == "connected"


# Commands


def test_a_session_closes_its_connection_and_stays_connected_until_that_is_gone() -> None:
    session = a_connected_session()
    closed: list[tuple[Reason, str]] = []

    class Closing(Connection):
        def close(self, reason: Reason, message: str = "", *, retry_after_s: float = 0.0, problem: str = "") -> None:
            closed.append((reason, message))

    session.attach(Closing(ConnectionId("c-2"), 0.0), now=0.0)
    session.disconnect("maintenance")

    assert closed == [(Reason.DISCONNECTED, "maintenance")]
    assert session.status == "connected"


def test_a_session_is_ended_by_the_server() -> None:
    session = a_connected_session()
    ended: list[tuple[Session, Reason, str]] = []
    session.ends = lambda *told: ended.append(told)

    session.end("cheating")

    assert ended == [(session, Reason.KICKED, "cheating")]


def test_a_session_without_a_server_stays_as_it_is() -> None:
    session = a_connected_session()

    session.disconnect()
    session.end()

    assert session.status == "connected"


# Flags and roles


def test_flags_are_off_until_they_are_switched_on_and_do_not_touch_each_other() -> None:
    session = a_session()
    off = session.flags

    session.flags |= SessionFlags.ENCRYPTION
    session.flags |= SessionFlags.AWAITING_RESPONSE
    session.flags &= ~SessionFlags.ENCRYPTION

    assert off is SessionFlags.NONE
    assert session.flags is SessionFlags.AWAITING_RESPONSE


def test_each_connection_brings_its_own_encryption_and_compression_and_leaves_the_other_flags_alone() -> None:
    session = a_session()
    session.flags |= SessionFlags.PACKET_LOGGING
    seen = []
    for is_encrypted, is_compressed in ((True, False), (True, True), (False, True), (False, False)):
        connection = a_connection()
        connection.is_encrypted, connection.is_compressed = is_encrypted, is_compressed
        session.attach(connection, now=0.0)
        seen.append(session.flags & ~SessionFlags.PACKET_LOGGING)

    both = SessionFlags.ENCRYPTION | SessionFlags.COMPRESSION
    assert seen == [SessionFlags.ENCRYPTION, both, SessionFlags.COMPRESSION, SessionFlags.NONE]
    assert session.flags is SessionFlags.PACKET_LOGGING


def test_there_are_four_flags_and_any_of_them_combine() -> None:
    flags = list(SessionFlags)

    assert [flag.name for flag in flags] == ["ENCRYPTION", "COMPRESSION", "PACKET_LOGGING", "AWAITING_RESPONSE"]
    assert len({flag.value for flag in flags}) == 4
    for flag in flags:
        assert flag in ~SessionFlags.NONE
        assert flag not in SessionFlags.NONE


def test_roles_survive_a_drop_and_two_sessions_do_not_share_them() -> None:
    admin, guest = a_session("s-1", roles=frozenset({"admin"})), a_session("s-2")
    admin.attach(a_connection(), now=0.0)
    admin.detach(now=1.0)

    assert admin.roles == {"admin"}
    assert guest.roles == frozenset()


# Channels


def test_a_session_has_no_channel_until_it_has_a_seat() -> None:
    session = a_session()

    assert session.channel is None
    assert list(session.channels()) == []
    assert session.channel_numbered(0) is None


def test_channel_numbers_are_never_used_again() -> None:
    session = a_session()
    numbers = []

    for _ in range(20):
        numbers.append(session.open_channel().number)
        session.close_channel()

    assert numbers == list(range(1, 21))


def test_a_closed_channel_is_still_found_and_comes_before_the_one_that_is_open() -> None:
    session = a_session()
    first = session.open_channel()
    session.close_channel()
    second = session.open_channel()

    assert session.channel is second
    assert list(session.channels()) == [first, second]
    assert session.channel_numbered(1) is first
    assert session.channel_numbered(2) is second
    assert session.channel_numbered(3) is None


def test_a_session_has_one_open_channel_for_each_purpose_and_all_share_one_count() -> None:
    session = a_session()
    seat, place, own = (session.open_channel(purpose) for purpose in get_args(Purpose))

    session.close_channel("spectator")
    again = session.open_channel("spectator")

    assert [channel.number for channel in (seat, place, own, again)] == [1, 2, 3, 4]
    assert [session.channel_for(purpose) for purpose in get_args(Purpose)] == [seat, again, own]
    assert session.channel is seat
    assert session.closing == (place,)
    assert list(session.channels()) == [place, own, again, seat]


def test_a_channel_whose_room_was_restored_from_a_checkpoint_keeps_nothing_when_it_closes() -> None:
    session = a_session()
    seat, place = session.open_channel(), session.open_channel("spectator")
    for channel in (seat, place):
        channel.push("said", b"1")

    session.rewound = {place.number: 2.5}
    session.close_channel("spectator")
    session.close_channel()

    assert session.rewound_s == 2.5
    assert (place.kept, place.overflowed) == (0, True)
    assert (seat.kept, seat.overflowed) == (1, False)


def test_closing_a_channel_that_is_not_there_does_nothing() -> None:
    session = a_session()

    session.close_channel()

    assert list(session.channels()) == []


@pytest.mark.parametrize("closing_channels_max", [0, 1, 4])
def test_closing_channels_are_bounded_and_the_oldest_gives_way(closing_channels_max: int) -> None:
    session = a_session(limits=replace(Limits(), closing_channels_max=closing_channels_max))

    for _ in range(10):
        session.open_channel()
        session.close_channel()

    kept = [channel.number for channel in session.channels()]
    assert kept == list(range(11 - closing_channels_max, 11))


# Secrets


def test_no_token_shows_when_a_session_is_printed() -> None:
    session = a_connected_session()
    secrets = [
        session.tokens.issue(bytes(range(TOKEN_BYTES))),
        session.tokens.rotate(bytes(range(1, TOKEN_BYTES + 1))),
    ]

    for secret in secrets:
        assert secret not in repr(session)
        assert secret not in str(session)
        assert secret not in repr(session.tokens)


def test_a_session_shows_who_and_where_it_is() -> None:
    assert repr(a_connected_session()) == "<Session s-1 of ada connected epoch 1>"
