"""The welcome: the answer to a successful hello."""

from collections.abc import Callable

from holdfast.core.limits import Limits
from holdfast.core.session import Session
from holdfast.schemas.frames import ChannelInfo, Outcome, Terms, Welcome
from holdfast.server.admission.connection_limiter import ConnectionLimiter
from holdfast.server.connection.connection import LiveConnection


class Welcomer:
    """Attaches a connection to its session."""

    def __init__(self, limits: Limits, limiter: ConnectionLimiter, last_request: Callable[[Session], int]) -> None:
        """`last_request` returns the highest id of a request that was answered or is being carried out."""
        self._limits = limits
        self._limiter = limiter
        self._last_request = last_request

    def welcome(
        self, connection: LiveConnection, session: Session, token: str, outcome: Outcome, *, credential: str = ""
    ) -> None:
        """Attach the connection to the session, and send the client the positions of its streams."""
        limits = self._limits
        terms = Terms(
            payload_bytes_max=limits.payload_bytes_max,
            window_messages_max=limits.window_messages_max,
            window_bytes_max=limits.window_bytes_max,
            requests_in_flight_max=limits.requests_in_flight_max,
            ping_s=limits.ping_s,
            silence_s=limits.silence_s,
            grace_s=session.grace_s,
        )
        channels = []
        for channel in session.channels():
            seat = session.seat if channel is session.channel else None
            room_id, kind = (seat.room.id, seat.room.kind) if seat is not None else ("", "")
            accepted = channel.accepted if channel.accepted > channel.applied else 0
            channels.append(ChannelInfo(channel.number, channel.generation, channel.applied, room_id, kind, accepted))
        self._limiter.known(connection, is_resumed=outcome.kind in {"resumed", "resynced"})
        connection.welcomed(session)
        requests = self._last_request(session)
        lineage = session.lineage.name
        connection.send(
            Welcome(session.id, session.player_id, token, outcome, terms, channels, requests, credential, lineage)
        )
