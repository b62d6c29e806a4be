"""Signing in: a credential is proven, and a session begins."""

import asyncio
import inspect
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.errors import Refused, Throttled
from holdfast.core.ids import new_id
from holdfast.core.reasons import Reason
from holdfast.core.session import SESSION_ID_BYTES, PlayerId, Session, SessionId
from holdfast.core.tokens import TOKEN_BYTES
from holdfast.identity.players import checked_identity
from holdfast.identity.port import Approach, Authenticator, Busy, Identity, NotAuthentic
from holdfast.schemas.events import Authenticated, SessionOpened, SignInFailed
from holdfast.schemas.frames import Auth, Outcome
from holdfast.server.admission.authenticators import store_busy
from holdfast.server.admission.bans import ban_message
from holdfast.server.admission.session_limit import make_space
from holdfast.server.connection.connection import LiveConnection
from holdfast.stores.port import StoreError

if TYPE_CHECKING:
    from holdfast.server.node import Node


class _Attempt(NamedTuple):
    """Somebody wants to sign in."""

    connection: LiveConnection
    auth: Auth
    reset: Reason | None
    """Why there was nothing to come back to, if they wanted to."""
    sign_outs: int
    """The number of the last sign-out when it began."""


class SigningIn:
    """What a hello with a credential leads to. `in` says whether an authenticator is at work for a connection."""

    def __init__(
        self, node: "Node", loop: asyncio.AbstractEventLoop, authenticators: Mapping[str, Authenticator]
    ) -> None:
        self._node = node
        self._loop = loop
        self._authenticators = authenticators
        self._in_progress: dict[LiveConnection, asyncio.Task[None]] = {}

    def __contains__(self, connection: LiveConnection) -> bool:
        return connection in self._in_progress

    async def stop(self) -> None:
        """Give up what is in progress."""
        tasks = list(self._in_progress.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def begin(self, connection: LiveConnection, auth: Auth, *, reset: Reason | None = None) -> None:
        """Ask the authenticator: it may answer at once or take its time."""
        if self._is_too_late(connection):
            return
        authenticator = self._authenticators.get(auth.scheme)
        if authenticator is None:
            known = ", ".join(sorted(self._authenticators))
            # Not with a name that anybody may have made up.
            self._node.publish(SignInFailed(scheme="", reason=Reason.AUTH_FAILED, address=connection.address))
            connection.close(Reason.AUTH_FAILED, f"no way to sign in is called {auth.scheme!r}; there is {known}")
            return
        attempt = _Attempt(connection, auth, reset, self._node.access.sign_outs)
        approach = Approach(connection.address, connection.transport_kind, connection.is_encrypted)
        try:
            identity = authenticator.authenticate(auth.credential, approach)
        except (NotAuthentic, Refused, Busy, StoreError) as error:
            self._not_let_in(attempt, error)
            return
        except Exception as error:  # noqa: BLE001 - logged, counted, contained
            self._authenticator_failed(attempt, error)
            return
        if inspect.isawaitable(identity):
            self._in_progress[connection] = self._loop.create_task(self._wait_for(identity, attempt))
        else:
            self._proven(attempt, identity)

    async def _wait_for(self, answer: Awaitable[Identity], attempt: _Attempt) -> None:
        try:
            async with asyncio.timeout(self._node.limits.auth_s):
                identity = await answer
            if attempt.connection.is_open:
                self._proven(attempt, identity)
        except (NotAuthentic, Refused, Busy, StoreError) as error:
            self._not_let_in(attempt, error)
        except TimeoutError:
            attempt.connection.close(Reason.BUSY, "signing in took too long", retry_after_s=self._node.limits.hello_s)
        except Exception as error:  # noqa: BLE001 - logged, counted, contained
            self._authenticator_failed(attempt, error)
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            # The authenticator's own wait was cancelled, not this task.
            failure = RuntimeError("an authenticator gave up")
            failure.__cause__ = error
            self._authenticator_failed(attempt, failure)
        finally:
            del self._in_progress[attempt.connection]

    # Not let in

    def _is_too_late(self, connection: LiveConnection) -> bool:
        if self._node.drain.is_on:
            connection.close(Reason.STOPPING, "the server is stopping", retry_after_s=self._node.limits.drain_s)
        return self._node.drain.is_on

    def _authenticator_failed(self, attempt: _Attempt, error: Exception) -> None:
        # What it says may repeat the credential.
        hide = (attempt.auth.credential,)
        self._node.internal_error("an authenticator", error, hide=hide, connection=attempt.connection.id)
        attempt.connection.close(Reason.INTERNAL)

    def _not_let_in(self, attempt: _Attempt, error: NotAuthentic | Refused | Busy | StoreError) -> None:
        if isinstance(error, StoreError):
            error = store_busy(error)
        if isinstance(error, Busy):
            attempt.connection.close(Reason.BUSY, str(error), retry_after_s=error.retry_after_s)
            return
        self._node.connection_limiter.failed(attempt.connection)
        reason = Reason.AUTH_FAILED if isinstance(error, NotAuthentic) else Reason.REFUSED
        self._refuse(attempt, reason, str(error), problem=error.code if isinstance(error, Refused) else "")

    def _refuse(self, attempt: _Attempt, reason: Reason, message: str, *, problem: str = "") -> None:
        address = attempt.connection.address
        self._node.publish(SignInFailed(scheme=attempt.auth.scheme, reason=reason, address=address))
        attempt.connection.close(reason, message, problem=problem)

    # Let in

    def _proven(self, attempt: _Attempt, identity: Identity) -> None:
        """It is known who this is: let them in, if they are welcome and there is space."""
        node, connection = self._node, attempt.connection
        try:
            checked_identity(identity, attempt.auth.scheme)
        except (TypeError, ValueError) as error:
            self._authenticator_failed(attempt, error)
            return
        if self._is_too_late(connection):
            return
        ban = node.access.ban_of(identity.player_id, connection.address)
        if ban is not None:
            self._refuse(attempt, Reason.BANNED, ban_message(ban))
            return
        try:
            node.access.check(identity, attempt.sign_outs)
        except NotAuthentic as error:
            self._not_let_in(attempt, error)
            return
        if len(node.sessions) >= node.limits.sessions_max:
            connection.close(Reason.BUSY, "this node is full", retry_after_s=node.limits.hello_s)
            return
        if node.session_quota.is_full(connection.address, node.limits.sessions_max):
            node.alarms.tell("address_share", "refused", address=connection.address)
            message = "too many players are here from your address; come back in a while"
            connection.close(Reason.THROTTLED, message, retry_after_s=node.limits.hello_s)
            return
        # Last: sessions may end for it, and that must not be in vain.
        if not make_space(node, identity.player_id, connection.address):
            message = f"this player has {node.limits.sessions_per_player_max} sessions already; end one first"
            self._refuse(attempt, Reason.REFUSED, message, problem=Throttled.code)
            return
        self._open(attempt, identity)

    def _open(self, attempt: _Attempt, identity: Identity) -> None:
        node, connection = self._node, attempt.connection
        session = new_session(node, identity)
        session.codec = connection.codec
        token = session.tokens.issue(node.random.randbytes(TOKEN_BYTES))
        node.sessions.attach(session, connection, node.now())
        node.session_quota.take(session, connection.address)
        is_reset = attempt.reset is not None
        outcome = Outcome("reset", reason=attempt.reset) if attempt.reset is not None else Outcome("new")
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
        scheme, roles = attempt.auth.scheme, sorted(identity.roles)
        node.publish(Authenticated(session=session.id, player=session.player_id, scheme=scheme, roles=roles))
        node.handshake.welcome(connection, session, token, outcome, credential=identity.credential)


def new_session(node: "Node", identity: Identity) -> Session:
    """A session for a proven player, not attached to anything yet."""
    session = Session(
        SessionId(new_id(node.random.randbytes(SESSION_ID_BYTES))),
        PlayerId(identity.player_id),
        limits=node.limits,
        now=node.now(),
        grace_s=node.grace_s,
        roles=identity.roles,
    )
    session.data = identity.data
    session.signed_in_at = node.wall_clock()
    session.sign_outs = node.access.sign_outs
    session.obeyed_by(node.lifecycle)
    node.sessions.add(session)
    node.counters.sessions += 1
    return session
