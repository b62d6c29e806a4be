"""Live sessions and channels to records, and back."""

from msgspec import Raw

from holdfast.core.channel import Channel
from holdfast.core.codec import CODECS
from holdfast.core.limits import Limits
from holdfast.core.records import Unreadable
from holdfast.core.session import PlayerId, Session, SessionId
from holdfast.schemas.frames import Reply, RequestProblem
from holdfast.schemas.session import ChannelRecord, SessionRecord


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


def session_record(session: Session, room_id: str, closing: list[ChannelRecord]) -> SessionRecord:
    """The saved form of a session with its seat in this room (empty: no seat)."""
    assert session.codec is not None
    current, next_, retired = session.tokens.hashes()
    return SessionRecord(
        player=session.player_id,
        codec=session.codec.name,
        roles=sorted(session.roles),
        epoch=session.epoch,
        room=room_id,
        channels_opened=session.channels_opened,
        closing=closing,
        token=current,
        next_token=next_,
        retired_tokens=retired,
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
        sign_outs=session.sign_outs,
        signed_in_at=session.signed_in_at,
        address=session.address,
        lineage=session.lineage.name,
        forks=list(session.lineage.forks),
    )


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
