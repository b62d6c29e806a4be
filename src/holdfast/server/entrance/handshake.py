"""Hello and welcome: sign in, or come back to a session; every resume gets exactly one honest answer (P3)."""

import asyncio
import inspect
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.channel import Channel
from holdfast.core.connection import ConnectionState
from holdfast.core.errors import ProtocolError, Refused, Throttled
from holdfast.core.events import Authenticated, Resumed, SessionOpened, SignInFailed, TokenReused
from holdfast.core.frames import Auth, ChannelInfo, Hello, Outcome, Position, Resume, Terms, Welcome
from holdfast.core.reasons import Reason
from holdfast.core.session import SESSION_ID_BYTES, PlayerId, Session, SessionId
from holdfast.core.tokens import TOKEN_BYTES, Verdict, printable
from holdfast.identity.port import Approach, Authenticator, Busy, Identity, NotAuthentic
from holdfast.server.entrance.bans import ban_message
from holdfast.server.entrance.parallel import make_space
from holdfast.server.wire.connection import LiveConnection

if TYPE_CHECKING:
    from holdfast.server.node import Node

_RETRY_ELSEWHERE_S = 1.0


class Handshake:
    """What happens between the first payload of a connection and its welcome."""

    def __init__(
        self, node: "Node", loop: asyncio.AbstractEventLoop, authenticators: Mapping[str, Authenticator]
    ) -> None:
        self._node = node
        self._loop = loop
        self._authenticators = authenticators
        self._in_progress: dict[LiveConnection, asyncio.Task[None]] = {}

    def check_time(self, connection: LiveConnection) -> None:
        """A stranger's time is up, unless an authenticator is at work for it (that has its own limit)."""
        if connection.state is ConnectionState.CONNECTING and connection not in self._in_progress:
            connection.close(Reason.HELLO_TIMEOUT, f"no hello within {self._node.limits.hello_s:g} s")

    async def stop(self) -> None:
        """Give up what is in progress."""
        tasks = list(self._in_progress.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def hello(self, connection: LiveConnection, hello: Hello) -> None:
        """The first frame: resume if it can be done, else sign in if that was asked for too."""
        if connection in self._in_progress:
            raise ProtocolError("one hello is enough")
        if self._must_wait(connection, is_resume=hello.resume is not None):
            return
        ban = self._node.standing.ban_of("", connection.address)
        if ban is not None:
            # Before anything is looked at: to check a password costs time.
            connection.close(Reason.BANNED, ban_message(ban))
            return
        if hello.resume is not None:
            session = self._proven(connection, hello.resume)
            if session is not None:
                if self._may_resume(connection, session):
                    self._resume(connection, session, hello.resume.positions)
                return
            self._node.doorman.not_resumed()
        if not connection.is_open:
            return
        if hello.auth is None:
            if hello.resume is None:
                raise ProtocolError("a hello needs auth, resume or both")
            connection.close(Reason.EXPIRED, "there is no such session any more; sign in again")
            return
        if hello.resume is None or not self._must_wait(connection, is_resume=False):
            self._sign_in(connection, hello.auth, is_reset=hello.resume is not None)

    def _must_wait(self, connection: LiveConnection, *, is_resume: bool) -> bool:
        wait_s = self._node.doorman.wait_s(connection, is_resume=is_resume)
        if wait_s:
            connection.close(Reason.THROTTLED, "too many at once; come back in a while", retry_after_s=wait_s)
        return bool(wait_s)

    # Coming back

    def _proven(self, connection: LiveConnection, resume: Resume) -> Session | None:
        if self._node.recovery is not None:
            self._node.recovery.restore_session(resume.session)
        session = self._node.sessions.get(resume.session)
        if session is None and self._node.is_elsewhere(resume.session):
            connection.close(Reason.MOVED, "this session is on another server now", retry_after_s=_RETRY_ELSEWHERE_S)
        if session is None or session.codec is None:
            return None
        ledger = self._node.ledger
        if ledger is not None and ledger.is_failing and session in ledger:
            self._node.turn_away(connection)
            return None
        verdict = session.tokens.present(resume.token)
        if verdict is Verdict.REUSED:
            self._node.counters.tokens_reused += 1
            self._node.publish(TokenReused(session=session.id, player=session.player_id, peer=connection.peer))
            self._node.end_session(session, Reason.TOKEN_REUSED, "a used token was presented; sign in again")
            connection.close(Reason.TOKEN_REUSED, "this token was used before; sign in again")
            return None
        if verdict is Verdict.UNKNOWN:
            return None
        ban = self._node.standing.ban_of(session.player_id, connection.address)
        if ban is not None:
            # Also if it is the address: who has the token and calls from there is not to have the session either.
            connection.close(Reason.BANNED, ban_message(ban))
            return None
        if session.codec is not connection.codec:
            raise ProtocolError(f"this session speaks {session.codec.name}; resume with the same dialect")
        return session

    def _may_resume(self, connection: LiveConnection, session: Session) -> bool:
        """Not before a flood is forgiven, and not again and again: a resume counts as a request."""
        flood, now = session.flood, self._node.now()
        if flood is None:
            return True
        if flood.barred_until > now:
            wait_s = flood.barred_until - now
            connection.close(Reason.FLOODING, "this session has said too much", retry_after_s=wait_s)
        elif not flood.requests.take(now):
            wait_s = flood.requests.wait_s(now)
            connection.close(Reason.THROTTLED, "this session comes back too often", retry_after_s=wait_s)
        return connection.is_open

    def _resume(self, connection: LiveConnection, session: Session, positions: list[Position]) -> None:
        node = self._node
        away_s = node.now() - session.expires_at + session.grace_s if session.expires_at is not None else 0.0
        old = node.sessions.attach(session, connection, node.now())
        if old is not None:
            node.supersede(old, session)
            if not connection.is_open:
                # The game heard of the drop and ended the session.
                return
        node.graces.over(session)
        session.resumes += 1
        replayed, lost = self._continue_channels(session, positions)
        session.replayed += replayed
        node.counters.messages_replayed += replayed
        if lost:
            node.counters.resynced += 1
        else:
            node.counters.resumed += 1
        kind = "resynced" if lost else "resumed"
        node.publish(
            Resumed(
                session=session.id,
                player=session.player_id,
                connection=connection.id,
                transport=connection.transport_kind,
                outcome=kind,
                replayed=replayed,
                away_s=round(away_s, 3),
                peer=connection.peer,
            )
        )
        # Remembered until the client is heard: the welcome that tells it may be lost.
        age_s = session.rewound_s
        outcome = Outcome(kind, replayed, drop_reason=session.drop_reason or "")
        if age_s is not None:
            outcome = replace(outcome, age_s=round(age_s, 3))
        self._welcome(connection, session, session.tokens.rotate(node.random.randbytes(TOKEN_BYTES)), outcome)
        if node.ledger is not None:
            # The client will come back with this token only: it must not have it before the store does.
            node.ledger.hold(session)
        if session.player is not None:
            node.rooms.host_of(session.player).returned(session.player, is_resynced=session.channel in lost)

    @staticmethod
    def _continue_channels(session: Session, positions: list[Position]) -> tuple[int, list[Channel]]:
        """How many messages will be sent again, and the channels whose messages could not be kept."""
        known = {position.channel: position for position in positions}
        replayed = 0
        lost: list[Channel] = []
        for channel in list(session.channels()):
            position = known.get(channel.number, Position(channel.number, channel.generation, 0))
            # Also if its seat was freed since: the client may have seen other messages under the same numbers.
            if session.rewound_s is not None and channel.number == session.channels_opened:
                channel.forget_to(position.acked, position.generation)
                kept = None
            else:
                kept = channel.resume(position.generation, position.received)
            if kept is not None:
                replayed += kept
                if channel.is_over:
                    session.closing.remove(channel)
                continue
            lost.append(channel)
            if channel is session.channel:
                channel.resync()
            else:
                # Its seat is gone, so there is no state to send: the client learns from the welcome that it is over.
                session.closing.remove(channel)
        return replayed, lost

    # Signing in

    def _sign_in(self, connection: LiveConnection, auth: Auth, *, is_reset: bool) -> None:
        if self._node.drain.is_on:
            connection.close(Reason.STOPPING, "the server is stopping", retry_after_s=self._node.limits.drain_s)
            return
        authenticator = self._authenticators.get(auth.scheme)
        if authenticator is None:
            known = ", ".join(sorted(self._authenticators))
            # Not with a name that anybody may have made up.
            self._node.publish(SignInFailed(scheme="", reason=Reason.AUTH_FAILED, address=connection.address))
            connection.close(Reason.AUTH_FAILED, f"no way to sign in is called {auth.scheme!r}; there is {known}")
            return
        approach = Approach(connection.address, connection.transport_kind, connection.is_encrypted)
        try:
            identity = authenticator.authenticate(auth.credential, approach)
        except (NotAuthentic, Refused, Busy) as error:
            self._not_let_in(connection, auth.scheme, error)
            return
        except Exception as error:  # noqa: BLE001 - logged, counted, contained
            self._authenticator_failed(connection, auth, error)
            return
        if inspect.isawaitable(identity):
            began = self._node.standing.sign_outs
            task = self._loop.create_task(
                self._sign_in_later(connection, auth, identity, is_reset=is_reset, began=began)
            )
            self._in_progress[connection] = task
        else:
            self._signed_in(connection, auth.scheme, identity, is_reset=is_reset)

    async def _sign_in_later(
        self, connection: LiveConnection, auth: Auth, answer: Awaitable[Identity], *, is_reset: bool, began: int
    ) -> None:
        try:
            async with asyncio.timeout(self._node.limits.auth_s):
                identity = await answer
        except (NotAuthentic, Refused, Busy) as error:
            self._not_let_in(connection, auth.scheme, error)
        except TimeoutError:
            connection.close(Reason.BUSY, "signing in took too long", retry_after_s=self._node.limits.hello_s)
        except Exception as error:  # noqa: BLE001 - logged, counted, contained
            self._authenticator_failed(connection, auth, error)
        else:
            if connection.is_open:
                self._signed_in(connection, auth.scheme, identity, is_reset=is_reset, began=began)
        finally:
            del self._in_progress[connection]

    def _authenticator_failed(self, connection: LiveConnection, auth: Auth, error: Exception) -> None:
        # What it says may repeat the credential.
        self._node.internal_error("an authenticator", error, hide=(auth.credential,), connection=connection.id)
        connection.close(Reason.INTERNAL)

    def _not_let_in(self, connection: LiveConnection, scheme: str, error: NotAuthentic | Refused | Busy) -> None:
        if isinstance(error, Busy):
            connection.close(Reason.BUSY, str(error), retry_after_s=error.retry_after_s)
            return
        self._node.doorman.failed(connection)
        reason = Reason.AUTH_FAILED if isinstance(error, NotAuthentic) else Reason.REFUSED
        self._node.publish(SignInFailed(scheme=scheme, reason=reason, address=connection.address))
        problem = error.code if isinstance(error, Refused) else ""
        connection.close(reason, str(error), problem=problem)

    def _signed_in(
        self,
        connection: LiveConnection,
        scheme: str,
        identity: Identity,
        *,
        is_reset: bool,
        began: int | None = None,
    ) -> None:
        node = self._node
        ban = node.standing.ban_of(identity.player_id, connection.address)
        if ban is not None:
            node.publish(SignInFailed(scheme=scheme, reason=Reason.BANNED, address=connection.address))
            connection.close(Reason.BANNED, ban_message(ban))
            return
        try:
            node.standing.check(identity, began)
        except NotAuthentic as error:
            self._not_let_in(connection, scheme, error)
            return
        if not make_space(node, identity.player_id, connection.address):
            node.publish(SignInFailed(scheme=scheme, reason=Reason.REFUSED, address=connection.address))
            message = f"this player has {node.limits.sessions_per_player_max} sessions already; end one first"
            connection.close(Reason.REFUSED, message, problem=Throttled.code)
            return
        if len(node.sessions) >= node.limits.sessions_max:
            connection.close(Reason.BUSY, "this node is full", retry_after_s=node.limits.hello_s)
            return
        session = self.new_session(identity)
        session.codec = connection.codec
        token = session.tokens.issue(node.random.randbytes(TOKEN_BYTES))
        node.sessions.attach(session, connection, node.now())
        outcome = Outcome("reset", reason=Reason.EXPIRED) if is_reset else Outcome("new")
        node.counters.reset += is_reset
        node.publish(
            SessionOpened(
                session=session.id,
                player=session.player_id,
                connection=connection.id,
                transport=connection.transport_kind,
                peer=connection.peer,
                is_reset=is_reset,
            )
        )
        node.publish(
            Authenticated(session=session.id, player=session.player_id, scheme=scheme, roles=sorted(identity.roles))
        )
        self._welcome(connection, session, token, outcome, credential=identity.credential)

    def new_session(self, identity: Identity) -> Session:
        """A session for a proven player, not attached to anything yet."""
        node = self._node
        session = Session(
            SessionId(printable(node.random.randbytes(SESSION_ID_BYTES))),
            PlayerId(identity.player_id),
            limits=node.limits,
            now=node.now(),
            grace_s=node.grace_s,
            roles=identity.roles,
        )
        session.data = identity.data
        session.signed_in_at = node.wall()
        session.sign_outs = node.standing.sign_outs
        session.obeyed_by(node)
        node.sessions.add(session)
        node.counters.sessions += 1
        return session

    def _welcome(
        self, connection: LiveConnection, session: Session, token: str, outcome: Outcome, *, credential: str = ""
    ) -> None:
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
        self._node.doorman.known(connection, is_resumed=outcome.kind in {"resumed", "resynced"})
        connection.welcomed(session)
        requests = self._node.desk.last_known(session)
        connection.send(Welcome(session.id, session.player_id, token, outcome, terms, channels, requests, credential))
