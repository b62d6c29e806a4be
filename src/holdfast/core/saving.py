"""Live sessions, players and channels as data, and back."""

from msgspec import Raw

from holdfast.core.channel import Channel
from holdfast.core.codec import CODECS
from holdfast.core.limits import Limits
from holdfast.core.player import Seat
from holdfast.core.records import Unreadable
from holdfast.core.session import PlayerId, Session, SessionId
from holdfast.schemas.frames import Reply, RequestProblem
from holdfast.schemas.player import PlayerSchema
from holdfast.schemas.projection import project
from holdfast.schemas.session import ChannelRecord, SessionRecord, SessionSchema


def channel_record(channel: Channel) -> ChannelRecord:
    """The saved form of both streams."""
    return ChannelRecord(
        channel.number,
        channel.generation,
        channel.applied,
        channel.last_seq,
        channel.kept_messages(),
        channel.is_finished,
        channel.overflowed,
    )


def restored_channel(record: ChannelRecord, limits: Limits) -> Channel:
    """The restored streams."""
    channel = Channel(record.number, limits)
    channel.generation = record.generation
    channel.accepted = channel.applied = channel.ack_sent = record.applied
    channel.restore_outward(record.last_seq, record.kept)
    channel.is_finished = record.is_finished
    channel.overflowed = record.is_overflowed
    return channel


def describe_session(session: Session, now: float) -> SessionSchema:
    """The session as data."""
    token, next_token, retired_tokens = session.tokens.hashes()
    return SessionSchema(
        id=session.id,
        player=session.player_id,
        status=session.status,
        room=session.room.id if session.room is not None else "",
        roles=sorted(session.roles),
        address=session.address,
        transport=session.connection.transport_kind if session.connection is not None else "",
        codec=session.codec.name if session.codec is not None else "",
        flags=[str(flag.name).lower() for flag in session.flags],
        latency_ms=round(session.latency_ms, 3),
        age_s=round(now - session.created_at, 3),
        idle_s=round(now - session.last_active_at, 3),
        expires_in_s=seconds_until(session.expires_at, now),
        signed_in_at=session.signed_in_at,
        sign_outs=session.sign_outs,
        epoch=session.epoch,
        drops=session.drops,
        resumes=session.resumes,
        channels_opened=session.channels_opened,
        token=token,
        next_token=next_token,
        retired_tokens=retired_tokens,
        last_request=session.last_request,
        requests_announced=session.requests_announced,
        replies=[
            (
                reply.id,
                bytes(reply.result) if reply.result is not None else None,
                (reply.problem.code, reply.problem.message) if reply.problem is not None else None,
            )
            for reply in session.replies
        ],
        lineage=session.lineage.name,
        forks=list(session.lineage.forks),
    )


def session_record(session: Session, room_id: str, closing: list[ChannelRecord]) -> SessionRecord:
    """The saved form of a session with its seat in this room (empty: no seat)."""
    assert session.codec is not None
    return project(describe_session(session, session.last_active_at), SessionRecord, room=room_id, closing=closing)


def describe_player(seat: Seat, now: float, *, is_host: bool) -> PlayerSchema:
    """A player in a room as data; their data as the game has it."""
    session = seat.session
    return PlayerSchema(
        player=seat.player_id,
        state=seat.state.value,
        session=session.id,
        latency_ms=round(session.latency_ms, 3),
        expires_in_s=seconds_until(session.expires_at, now),
        is_host=is_host,
        number=seat.number,
        rewound_s=session.rewound_s,
        data=seat.player.data,
        owned=sorted(seat.owned),
    )


def seconds_until(when: float | None, now: float) -> float:
    """The time left, as it is shown; 0 if there is no such time, or it has passed."""
    return 0.0 if when is None else round(max(0.0, when - now), 3)


def restored_session(session_id: str, record: SessionRecord, *, limits: Limits, now: float, grace_s: float) -> Session:
    """The restored session, without its seat, disconnected."""
    codec = CODECS.get(record.codec)
    if codec is None:
        raise Unreadable(f"session {session_id} uses the codec {record.codec!r}, which this server does not have")
    session = Session(
        SessionId(session_id),
        PlayerId(record.player),
        limits=limits,
        now=now,
        grace_s=grace_s,
        codec=codec,
        roles=frozenset(record.roles),
    )
    session.epoch = record.epoch
    session.channels_opened = record.channels_opened
    session.closing = tuple(restored_channel(each, limits) for each in record.closing)
    session.tokens.restore(record.token, record.next_token, record.retired_tokens)
    session.last_request = record.last_request
    session.requests_announced = record.requests_announced
    session.sign_outs = record.sign_outs
    session.signed_in_at = record.signed_in_at
    session.address = record.address
    session.lineage.restore(record.lineage, record.forks)
    session.replies = tuple(
        Reply(
            request_id,
            Raw(result) if result is not None else None,
            RequestProblem(*problem) if problem is not None else None,
        )
        for request_id, result, problem in record.replies
    )
    return session
