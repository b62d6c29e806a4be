"""The handshake: from the first payload of a connection to its welcome."""

from holdfast.core.connection import ConnectionState
from holdfast.core.errors import ProtocolError
from holdfast.core.reasons import Reason
from holdfast.schemas.frames import Hello
from holdfast.server.admission.access import Access
from holdfast.server.admission.bans import ban_message
from holdfast.server.admission.connection_limiter import ConnectionLimiter
from holdfast.server.admission.resume import Resumer
from holdfast.server.admission.sign_in import SignIn
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.context import Context


class Handshake:
    """Answers each hello: resumes the session, signs the player in, or refuses."""

    def __init__(
        self,
        context: Context,
        *,
        limiter: ConnectionLimiter,
        access: Access,
        resumer: Resumer,
        sign_in: SignIn,
    ) -> None:
        self._clock = context.clock
        self._limits = context.limits
        self._limiter = limiter
        self._access = access
        self._resumer = resumer
        self._sign_in = sign_in

    def opened(self, connection: LiveConnection) -> None:
        """The client has `hello_s` to send a hello."""
        self._clock.loop.call_later(self._limits.hello_s, self._check_time, connection)

    def _check_time(self, connection: LiveConnection) -> None:
        # A running authenticator has its own time limit.
        if connection.state is ConnectionState.CONNECTING and connection not in self._sign_in:
            connection.close(Reason.HELLO_TIMEOUT, f"no hello within {self._limits.hello_s:g} s")

    def hello(self, connection: LiveConnection, hello: Hello) -> None:
        """The first frame: resume if possible, otherwise sign in if the hello has a credential."""
        if connection in self._sign_in:
            raise ProtocolError("a hello was sent already: send one per connection")
        if self._must_wait(connection, is_resume=hello.resume is not None):
            return
        ban = self._access.ban_of("", connection.address)
        if ban is not None:
            # Before any check: verifying a password takes time.
            connection.close(Reason.BANNED, ban_message(ban))
            return
        if hello.resume is not None:
            if self._resumer.resume(connection, hello.resume):
                return
            self._limiter.not_resumed()
            if not connection.is_open:
                return
        if hello.auth is None:
            if hello.resume is None:
                raise ProtocolError("a hello needs auth, resume or both")
            why_not = self._resumer.why_not(connection, hello.resume)
            connection.close(why_not, "this session has ended; sign in again")
            return
        if hello.resume is None:
            self._sign_in.begin(connection, hello.auth)
        elif not self._must_wait(connection, is_resume=False):
            reset = self._resumer.why_not(connection, hello.resume)
            self._sign_in.begin(connection, hello.auth, reset=reset)

    def _must_wait(self, connection: LiveConnection, *, is_resume: bool) -> bool:
        wait_s = self._limiter.wait_s(connection, is_resume=is_resume)
        if wait_s:
            connection.close(Reason.THROTTLED, "too many sign-ins at once; come back later", retry_after_s=wait_s)
        return bool(wait_s)
