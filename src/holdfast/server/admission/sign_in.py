"""Signing in: a credential is proven, a session begins, and its client is welcomed."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from holdfast.core.errors import Failed, NameNotAllowed, Refused, Throttled
from holdfast.core.limits import Limits
from holdfast.core.reasons import Reason
from holdfast.core.session import SESSION_ID_BYTES, PlayerId, Session, SessionId
from holdfast.core.tokens import TOKEN_BYTES, new_id
from holdfast.identity.port import Approach, Authenticator, Busy, Identity, NotAuthentic, checked_identity
from holdfast.schemas.events import Authenticated, SignInFailed
from holdfast.schemas.frames import Auth, ChannelInfo, Outcome, Welcome
from holdfast.server.admission.access import Access
from holdfast.server.admission.bans import ban_message
from holdfast.server.admission.connection_limiter import ConnectionLimiter
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.context import Context
from holdfast.server.display_names import DisplayNames
from holdfast.server.session_events import opened
from holdfast.server.sessions import SessionLifecycle, StoredSessions
from holdfast.stores.port import Full, StoreError

# A failing store recovers soon or stays down; a full one stays full for a while.
_RETRY_AFTER_S = 2.0
_FULL_RETRY_AFTER_S = 60.0


def store_busy(error: StoreError) -> Busy:
    """The refusal for a credential that could not be looked up. (A broken store ends the process.)"""
    if isinstance(error, Full):
        return Busy(str(error), _FULL_RETRY_AFTER_S)
    return Busy("the server cannot check credentials at the moment", _RETRY_AFTER_S)


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
        terms = self._limits.terms(session.grace_s)
        channels = []
        for channel in sorted(session.channels(), key=lambda each: each.number):
            seat = session.seat_on(channel)
            room_id, kind = (seat.room.id, seat.room.kind) if seat is not None else ("", "")
            accepted = channel.accepted if channel.accepted > channel.applied else 0
            position = (channel.number, channel.generation, channel.applied)
            channels.append(ChannelInfo(*position, room_id, kind, accepted, channel.purpose))
        self._limiter.known(connection, is_resumed=outcome.kind in {"resumed", "resynced"})
        connection.welcomed(session)
        requests = self._last_request(session)
        lineage = session.lineage.name
        connection.send(
            Welcome(
                session.id,
                session.player_id,
                token,
                outcome,
                terms,
                channels,
                requests,
                credential,
                lineage,
                session.name,
                connection.offer_datagrams(),
            )
        )


class SessionMaker:
    """Creates sessions for proven players."""

    def __init__(
        self,
        context: Context,
        *,
        grace_s: float,
        lifecycle: SessionLifecycle,
        access: Access,
    ) -> None:
        self._clock = context.clock
        self._random = context.random
        self._limits = context.limits
        self._counters = context.counters
        self._grace_s = grace_s
        self._lifecycle = lifecycle
        self._access = access

    def make(self, identity: Identity, name: str = "") -> Session:
        """A session for a proven player, not attached to a connection yet."""
        session = Session(
            SessionId(new_id(self._random.randbytes(SESSION_ID_BYTES))),
            PlayerId(identity.player_id),
            limits=self._limits,
            now=self._clock.now(),
            grace_s=self._grace_s,
            roles=identity.roles,
            name=name,
        )
        session.data = identity.data
        session.account = identity.account
        session.signed_in_at = self._clock.wall_clock()
        session.sign_outs = self._access.sign_outs
        self._lifecycle.add(session)
        self._counters.sessions += 1
        return session


SpaceElsewhere = Callable[[str, int], AbstractAsyncContextManager[tuple[bool, str]]]
"""Whether a player may have one more session, of so many, and the name that they have on another node."""


class _Attempt(NamedTuple):
    """A sign-in in progress."""

    connection: LiveConnection
    auth: Auth
    name: str
    """The display name that the player asks for."""
    reset: Reason | None
    """Why the session could not be resumed, if the client tried to."""
    sign_outs: int
    """The number of the last sign-out when the attempt began."""


class SignIn:
    """Handles hellos with a credential. `in` says whether an authenticator is checking one for a connection."""

    def __init__(
        self,
        context: Context,
        authenticators: Mapping[str, Authenticator],
        *,
        maker: SessionMaker,
        welcomer: Welcomer,
        lifecycle: SessionLifecycle,
        stored: StoredSessions,
        access: Access,
        limiter: ConnectionLimiter,
        names: DisplayNames,
        sessions_max: Callable[[Identity], int],
        is_draining: Callable[[], bool],
    ) -> None:
        """`sessions_max` says how many sessions a player may have."""
        self._clock = context.clock
        self._limits = context.limits
        self._random = context.random
        self._alarms = context.alarms
        self._publish = context.publish
        self._counters = context.counters
        self._faults = context.faults
        self._authenticators = authenticators
        self._maker = maker
        self._welcomer = welcomer
        self._lifecycle = lifecycle
        self._stored = stored
        self._access = access
        self._limiter = limiter
        self._names = names
        self._sessions_max = sessions_max
        self._is_draining = is_draining
        self._in_progress: dict[LiveConnection, asyncio.Task[None]] = {}
        self.space_elsewhere: SpaceElsewhere | None = None
        """In a cluster: the sessions of a player are counted on all nodes."""

    def __contains__(self, connection: LiveConnection) -> bool:
        return connection in self._in_progress

    async def stop(self) -> None:
        """Cancel the sign-ins in progress."""
        tasks = list(self._in_progress.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def begin(self, connection: LiveConnection, auth: Auth, *, name: str = "", reset: Reason | None = None) -> None:
        """Ask the authenticator, which may answer at once or later."""
        if self._is_too_late(connection):
            return
        authenticator = self._authenticators.get(auth.scheme)
        if authenticator is None:
            known = ", ".join(sorted(self._authenticators))
            # Count it without the name: a client may have invented it.
            self._publish(SignInFailed(scheme="", reason=Reason.AUTH_FAILED, address=connection.address))
            connection.close(Reason.AUTH_FAILED, f"unknown way to sign in {auth.scheme!r}; this server has: {known}")
            return
        attempt = _Attempt(connection, auth, name, reset, self._access.sign_outs)
        approach = Approach(connection.address, connection.transport_kind, connection.is_encrypted)
        try:
            identity = authenticator.authenticate(auth.credential, approach)
        except (NotAuthentic, Refused, Busy, StoreError) as error:
            self._sign_in_failed(attempt, error)
            return
        except Exception as error:  # noqa: BLE001 - logged, counted, contained
            self._authenticator_failed(attempt, error)
            return
        if inspect.isawaitable(identity):
            self._in_progress[connection] = self._clock.loop.create_task(self._wait_for(identity, attempt))
        else:
            self._proven(attempt, identity)

    async def _wait_for(self, answer: Awaitable[Identity], attempt: _Attempt) -> None:
        try:
            async with asyncio.timeout(self._limits.auth_s):
                identity = await answer
            if attempt.connection.is_open:
                self._proven(attempt, identity)
        except (NotAuthentic, Refused, Busy, StoreError) as error:
            self._sign_in_failed(attempt, error)
        except TimeoutError:
            attempt.connection.close(Reason.BUSY, "signing in took too long", retry_after_s=self._limits.hello_s)
        except Exception as error:  # noqa: BLE001 - logged, counted, contained
            self._authenticator_failed(attempt, error)
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            # The authenticator's own wait was cancelled, not this task.
            failure = RuntimeError("the authenticator cancelled its own work")
            failure.__cause__ = error
            self._authenticator_failed(attempt, failure)
        finally:
            self._ended(attempt)

    def _ended(self, attempt: _Attempt) -> None:
        # Unless another task goes on with it.
        if self._in_progress.get(attempt.connection) is asyncio.current_task():
            del self._in_progress[attempt.connection]

    # Refusals

    def _is_too_late(self, connection: LiveConnection) -> bool:
        is_draining = self._is_draining()
        if is_draining:
            connection.close(Reason.STOPPING, "the server is stopping", retry_after_s=self._limits.drain_s)
        return is_draining

    def _authenticator_failed(self, attempt: _Attempt, error: Exception) -> None:
        # Its message may contain the credential.
        hide = (attempt.auth.credential,)
        self._faults.report("an authenticator", error, hide=hide, connection=attempt.connection.id)
        attempt.connection.close(Reason.INTERNAL)

    def _sign_in_failed(self, attempt: _Attempt, error: NotAuthentic | Refused | Busy | StoreError) -> None:
        if isinstance(error, StoreError):
            error = store_busy(error)
        if isinstance(error, Busy):
            attempt.connection.close(Reason.BUSY, str(error), retry_after_s=error.retry_after_s)
            return
        self._limiter.failed(attempt.connection)
        reason = Reason.AUTH_FAILED if isinstance(error, NotAuthentic) else Reason.REFUSED
        self._refuse(attempt, reason, str(error), problem=error.code if isinstance(error, Refused) else "")

    def _refuse(self, attempt: _Attempt, reason: Reason, message: str, *, problem: str = "") -> None:
        address = attempt.connection.address
        self._publish(SignInFailed(scheme=attempt.auth.scheme, reason=reason, address=address))
        attempt.connection.close(reason, message, problem=problem)

    # Success

    def _proven(self, attempt: _Attempt, identity: Identity) -> None:
        """The identity is proven: begin a session, unless a ban or a limit refuses it."""
        try:
            checked_identity(identity, attempt.auth.scheme)
        except (TypeError, ValueError) as error:
            self._authenticator_failed(attempt, error)
            return
        if not self._may_enter(attempt, identity):
            return
        if self.space_elsewhere is not None:
            self._in_progress[attempt.connection] = self._clock.loop.create_task(
                self._count_elsewhere(self.space_elsewhere, attempt, identity)
            )
        elif (name := self._checked_name(attempt, identity)) is not None:
            # Last: other sessions may end for this one, which must not be refused afterwards.
            most = self._sessions_max(identity)
            if self._make_space(identity.player_id, attempt.connection.address, most):
                self._open(attempt, identity, name)
            else:
                self._too_many(attempt, most)

    def _may_enter(self, attempt: _Attempt, identity: Identity) -> bool:
        """Whether this node takes the player; if not, the client is told why."""
        connection, limits = attempt.connection, self._limits
        if self._is_too_late(connection):
            return False
        ban = self._access.bans.of(identity.player_id, connection.address)
        if ban is not None:
            self._refuse(attempt, Reason.BANNED, ban_message(ban))
            return False
        try:
            self._access.check(identity, attempt.sign_outs)
        except NotAuthentic as error:
            self._sign_in_failed(attempt, error)
            return False
        if len(self._lifecycle.registry) >= limits.sessions_max:
            connection.close(Reason.BUSY, "this node is full", retry_after_s=limits.hello_s)
            return False
        if self._lifecycle.quota.is_full(connection.address, limits.sessions_max):
            self._alarms.report("address_share", "refused", address=connection.address)
            message = "too many players are connected from your address; come back later"
            connection.close(Reason.THROTTLED, message, retry_after_s=limits.hello_s)
            return False
        return True

    async def _count_elsewhere(self, space: SpaceElsewhere, attempt: _Attempt, identity: Identity) -> None:
        most = self._sessions_max(identity)
        try:
            name = self._checked_name(attempt, identity)
            if name is None:
                return
            async with space(identity.player_id, most) as (has_space, known_as):
                # Much may have happened meanwhile.
                if not attempt.connection.is_open or not self._may_enter(attempt, identity):
                    return
                if not has_space:
                    self._alarm_sessions(identity.player_id, attempt.connection.address)
                    self._too_many(attempt, most)
                    return
                if known_as and not attempt.name and not self._has_name_here(identity.player_id):
                    name = self._checked_name(attempt._replace(name=known_as), identity)
                if name is not None:
                    self._open(attempt, identity, name)
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained
            self._faults.report("counting the sessions of a player", error, player=identity.player_id)
            attempt.connection.close(Reason.INTERNAL)
        finally:
            self._ended(attempt)

    def _too_many(self, attempt: _Attempt, most: int) -> None:
        message = f"this player already has {most} sessions; end one first"
        self._refuse(attempt, Reason.REFUSED, message, problem=Throttled.code)

    def _checked_name(self, attempt: _Attempt, identity: Identity) -> str | None:
        """The display name; None if it is refused, which the client is told."""
        try:
            return self._name(attempt, identity)
        except NameNotAllowed as error:
            self._refuse(attempt, Reason.REFUSED, str(error), problem=error.code)
        except Failed:
            attempt.connection.close(Reason.INTERNAL)
        return None

    def _has_name_here(self, player_id: str) -> bool:
        return bool(self._lifecycle.registry.of_player(player_id))

    def _name(self, attempt: _Attempt, identity: Identity) -> str:
        """The display name for the new session: as asked for, or else that of the player's newest session."""
        name = attempt.name
        if not name:
            self._stored.restore_of_player(identity.player_id)
            sessions = self._lifecycle.registry.of_player(identity.player_id)
            name = sessions[-1].name if sessions else ""
        return self._names.checked(name, identity)

    def _open(self, attempt: _Attempt, identity: Identity, name: str) -> None:
        connection = attempt.connection
        session = self._maker.make(identity, name)
        session.codec = connection.codec
        session.speaks_with(connection.features)
        token = session.tokens.issue(self._random.randbytes(TOKEN_BYTES))
        self._lifecycle.registry.attach(session, connection, self._clock.now())
        self._lifecycle.quota.take(session, connection.address)
        is_reset = attempt.reset is not None
        outcome = Outcome("reset", reason=attempt.reset) if attempt.reset is not None else Outcome("new")
        self._counters.reset += is_reset
        self._publish(opened(session, connection, is_reset=is_reset))
        self._publish(
            Authenticated(
                session=session.id,
                player=session.player_id,
                player_name=session.name,
                scheme=attempt.auth.scheme,
                roles=sorted(session.roles),
            )
        )
        self._welcomer.welcome(connection, session, token, outcome, credential=identity.credential)

    def _make_space(self, player_id: str, address: str, most: int) -> bool:
        """Whether a player may have one more session; other sessions end for it if that is the policy."""
        # Sessions that are only in the store count too.
        self._stored.restore_of_player(player_id)
        # Agents are the server's own; a seat whose session was lost in a crash is held for this very player.
        sessions = [each for each in self._lifecycle.registry.of_player(player_id) if each.codec is not None]
        if len(sessions) < most:
            return True
        if self._limits.sessions_policy == "refuse":
            self._alarm_sessions(player_id, address)
            return False
        # Oldest first. More than one if the limit was lowered before a restart.
        for session in sorted(sessions, key=_disconnected_since)[: len(sessions) - most + 1]:
            self._lifecycle.end_session(session, Reason.SUPERSEDED, "this player signed in elsewhere")
        return True

    def _alarm_sessions(self, player_id: str, address: str) -> None:
        name = self._lifecycle.registry.name_of(player_id)
        self._alarms.report("sessions_per_player_max", "refused", address=address, player=player_id, player_name=name)


def _disconnected_since(session: Session) -> tuple[bool, float]:
    return session.dropped_at is None, session.dropped_at or 0.0
