"""Linking: a guest gets an account, and remains the same player with the same id, data, seat and session.

The identity has been proven anew, so the session gets a new token, the old one is valid only until the client confirms
the new one, and other sessions of the guest end: somebody else may have begun them. The new token is only in the answer
that is sent. Answers are stored to be repeated after a resume; this one is stored without its token, since the welcome
of the resume brings a newer one.
"""

import asyncio
from collections.abc import Mapping

from holdfast.core.errors import Conflict, Invalid, NotAllowed, NotFound, Throttled
from holdfast.core.reasons import Reason
from holdfast.core.session import Session, SessionState
from holdfast.core.tokens import TOKEN_BYTES
from holdfast.identity.port import (
    Approach,
    Authenticator,
    Busy,
    Identity,
    Linkable,
    NotAuthentic,
    checked_identity,
    is_guest,
)
from holdfast.schemas.account import LinkInfo
from holdfast.schemas.events import Authenticated, SignInFailed
from holdfast.schemas.requests import Confirm, LinkAccount
from holdfast.server.admission.connection_limiter import ConnectionLimiter
from holdfast.server.admission.sign_in import store_busy
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.context import Context
from holdfast.server.sessions import SessionLifecycle, StoredSessions
from holdfast.stores.port import StoreError


class Linking:
    """Carries out requests to link an account to a guest."""

    def __init__(
        self,
        context: Context,
        authenticators: Mapping[str, Authenticator],
        *,
        lifecycle: SessionLifecycle,
        stored: StoredSessions,
        limiter: ConnectionLimiter,
    ) -> None:
        self._limits = context.limits
        self._random = context.random
        self._publish = context.publish
        self._authenticators = authenticators
        self._lifecycle = lifecycle
        self._stored = stored
        self._limiter = limiter

    async def link(self, session: Session, request: LinkAccount) -> LinkInfo:
        """Let a credential prove the session's player from now on."""
        authenticator = self._authenticators.get(request.scheme)
        if authenticator is None:
            known = ", ".join(sorted(self._authenticators))
            raise NotFound(f"unknown way to sign in {request.scheme!r}; this server has: {known}")
        if not isinstance(authenticator, Linkable):
            raise Invalid(f"a guest cannot be linked with the scheme {request.scheme!r}")
        if not is_guest(session.player_id):
            raise Conflict("this player already has an account: only a guest can be linked to one")
        identity = checked_identity(await self._proven(session, request, authenticator), request.scheme)
        if session.state is SessionState.ENDED:
            # The player was signed out or has linked another session meanwhile: this request must not end that one.
            raise Conflict("this session has ended")
        if identity.player_id != session.player_id:
            raise RuntimeError(f"the authenticator of {request.scheme!r} linked another player than it was asked to")
        session.account = identity.account
        self._lifecycle.prove(session, identity.roles)
        roles = sorted(session.roles)
        self._publish(
            Authenticated(
                session=session.id,
                player=session.player_id,
                player_name=session.name,
                scheme=request.scheme,
                roles=roles,
            )
        )
        # Sessions that are only in the store end too.
        self._stored.restore_of_player(session.player_id)
        for other in self._lifecycle.registry.of_player(session.player_id):
            if other is not session:
                self._lifecycle.end_session(
                    other, Reason.SIGNED_OUT, "this guest has an account now; sign in with that"
                )
        return LinkInfo(session.player_id, roles, self._new_token(session))

    async def confirm(self, session: Session, request: Confirm) -> None:
        """The client has the token of an answer: the previous one becomes invalid."""
        if self._is_heard(session):
            session.tokens.confirm()

    async def _proven(self, session: Session, request: LinkAccount, authenticator: Linkable) -> Identity:
        if session.wrong_guesses >= self._limits.wrong_guesses_max or not self._limiter.may_guess(session):
            raise Throttled("too many wrong credentials: try again later")
        connection = session.connection
        approach = Approach(session.address)
        if connection is not None:
            approach = Approach(session.address, connection.transport_kind, connection.is_encrypted)
        try:
            async with asyncio.timeout(self._limits.auth_s):
                return await authenticator.link(request.credential, approach, session.player_id)
        except NotAuthentic as error:
            session.wrong_guesses += 1
            self._limiter.guessed_wrong(session)
            if connection is not None:
                self._limiter.failed(connection)
            failed = SignInFailed(scheme=request.scheme, reason=Reason.AUTH_FAILED, address=session.address)
            self._publish(failed)
            raise NotAllowed(str(error)) from None
        except Busy as error:
            raise Throttled(str(error)) from None
        except StoreError as error:
            raise Throttled(str(store_busy(error))) from None
        except TimeoutError:
            raise Throttled("checking the credential took too long; try again") from None

    def _new_token(self, session: Session) -> str:
        """The token for the client's next resume; empty if a welcome on the way brings one anyway."""
        return session.tokens.rotate(self._random.randbytes(TOKEN_BYTES)) if self._is_heard(session) else ""

    def _is_heard(self, session: Session) -> bool:
        """Whether the client has sent something on its connection, and so has the token of its last welcome.

        Otherwise that token must be neither replaced nor treated as confirmed.
        """
        connection = session.connection
        return isinstance(connection, LiveConnection) and connection.is_confirmed
