"""Hello and welcome: what happens between the first payload of a connection and its welcome."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.core.connection import ConnectionState
from holdfast.core.errors import ProtocolError
from holdfast.core.reasons import Reason
from holdfast.core.session import Session
from holdfast.identity.port import Authenticator
from holdfast.schemas.frames import ChannelInfo, Hello, Outcome, Terms, Welcome
from holdfast.server.admission.bans import ban_message
from holdfast.server.admission.resume import ComingBack
from holdfast.server.admission.sign_in import SigningIn
from holdfast.server.connection.connection import LiveConnection

if TYPE_CHECKING:
    from holdfast.server.node import Node


class Handshake:
    """Listens to hellos, and says welcome."""

    def __init__(
        self, node: "Node", loop: asyncio.AbstractEventLoop, authenticators: Mapping[str, Authenticator]
    ) -> None:
        self._node = node
        self._coming_back = ComingBack(node)
        self._signing_in = SigningIn(node, loop, authenticators)

    def check_time(self, connection: LiveConnection) -> None:
        """A stranger's time is up, unless an authenticator is at work for it (that has its own limit)."""
        if connection.state is ConnectionState.CONNECTING and connection not in self._signing_in:
            connection.close(Reason.HELLO_TIMEOUT, f"no hello within {self._node.limits.hello_s:g} s")

    async def stop(self) -> None:
        """Give up what is in progress."""
        await self._signing_in.stop()

    def hello(self, connection: LiveConnection, hello: Hello) -> None:
        """The first frame: resume if it can be done, else sign in if that was asked for too."""
        if connection in self._signing_in:
            raise ProtocolError("one hello is enough")
        if self._must_wait(connection, is_resume=hello.resume is not None):
            return
        ban = self._node.access.ban_of("", connection.address)
        if ban is not None:
            # Before anything is looked at: to check a password costs time.
            connection.close(Reason.BANNED, ban_message(ban))
            return
        if hello.resume is not None:
            if self._coming_back.resumed(connection, hello.resume):
                return
            self._node.connection_limiter.not_resumed()
            if not connection.is_open:
                return
        if hello.auth is None:
            if hello.resume is None:
                raise ProtocolError("a hello needs auth, resume or both")
            why_not = self._coming_back.why_not(connection, hello.resume)
            connection.close(why_not, "there is no such session any more; sign in again")
            return
        if hello.resume is None:
            self._signing_in.begin(connection, hello.auth)
        elif not self._must_wait(connection, is_resume=False):
            reset = self._coming_back.why_not(connection, hello.resume)
            self._signing_in.begin(connection, hello.auth, reset=reset)

    def _must_wait(self, connection: LiveConnection, *, is_resume: bool) -> bool:
        wait_s = self._node.connection_limiter.wait_s(connection, is_resume=is_resume)
        if wait_s:
            connection.close(Reason.THROTTLED, "too many at once; come back in a while", retry_after_s=wait_s)
        return bool(wait_s)

    def welcome(
        self, connection: LiveConnection, session: Session, token: str, outcome: Outcome, *, credential: str = ""
    ) -> None:
        """The connection speaks for the session from now on; its client is told how things stand."""
        limits = self._node.limits
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
            room = session.room if channel is session.channel else None
            room_id, kind = (room.id, room.kind) if room is not None else ("", "")
            accepted = channel.accepted if channel.accepted > channel.applied else 0
            channels.append(ChannelInfo(channel.number, channel.generation, channel.applied, room_id, kind, accepted))
        self._node.connection_limiter.known(connection, is_resumed=outcome.kind in {"resumed", "resynced"})
        connection.welcomed(session)
        requests = self._node.desk.last_known(session)
        lineage = session.lineage.name
        connection.send(
            Welcome(session.id, session.player_id, token, outcome, terms, channels, requests, credential, lineage)
        )
