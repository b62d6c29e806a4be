"""The handshake: each hello resumes a session, signs a player in, or is refused."""

from collections.abc import Callable
from functools import partial

from holdfast.core.channel import Channel
from holdfast.core.connection import ConnectionState
from holdfast.core.errors import ProtocolError
from holdfast.core.reasons import Reason
from holdfast.core.session import Session, known_features
from holdfast.core.tokens import LINEAGE_BYTES, TOKEN_BYTES, Verdict
from holdfast.schemas.events import TokenReused
from holdfast.schemas.frames import Hello, Outcome, Position, Resume
from holdfast.server.admission.access import Access
from holdfast.server.admission.bans import ban_message
from holdfast.server.admission.connection_limiter import ConnectionLimiter
from holdfast.server.admission.sign_in import SignIn, Welcomer
from holdfast.server.connection.connection import RELAY, LiveConnection
from holdfast.server.context import Context
from holdfast.server.durability.rollbacks import Rollbacks
from holdfast.server.session_events import resumed
from holdfast.server.sessions import SessionLifecycle, StoredSessions

_RETRY_ELSEWHERE_S = 1.0


class Resumer:
    """Handles hellos with a token."""

    def __init__(
        self,
        context: Context,
        *,
        lifecycle: SessionLifecycle,
        stored: StoredSessions,
        access: Access,
        welcomer: Welcomer,
        rollbacks: Rollbacks,
        seat_returned: Callable[[Session, list[Channel]], None],
    ) -> None:
        """`seat_returned` tells the session's rooms that their player is back, and for which channels the state must be
        sent again."""
        self._now = context.clock.now
        self._random = context.random
        self._publish = context.publish
        self._counters = context.counters
        self._lifecycle = lifecycle
        self._sessions = lifecycle.registry
        self._stored = stored
        self._access = access
        self._welcomer = welcomer
        self._rollbacks = rollbacks
        self._seat_returned = seat_returned

    def resume(self, connection: LiveConnection, resume: Resume) -> bool:
        """Whether there was a session to resume. If not, and the link is still open, the client may sign in."""
        session = self._proven(connection, resume)
        if session is not None and self._may_resume(connection, session):
            self._resume(connection, session, resume)
        return session is not None

    def is_too_early(self, resume: Resume) -> bool:
        """Whether the client knows more of its session than was read of it: its former server wrote once more, or the
        store is older. This server's first commit of the session will show which."""
        self._stored.restore(resume.session)
        session = self._sessions.get(resume.session)
        if session is None or not self._stored.is_unclaimed(session) or self._stored.is_stuck(session):
            return False
        # If it does not, it is resumed at once: its welcome waits for that commit as well.
        return not (session.tokens.is_known(resume.token) and session.lineage.includes(resume))

    def must_confirm(self, resume: Resume) -> bool:
        """Whether the client knows more of its session than this node, which may have lost it to another one while it
        was paused or cut off. Its next commit, which begins now, will show that."""
        session = self._sessions.get(resume.session)
        if session is None or self._stored.is_stuck(session):
            return False
        is_known = session.tokens.is_known(resume.token) and session.lineage.includes(resume)
        return not is_known and self._stored.confirm(session)

    def why_not(self, connection: LiveConnection, resume: Resume) -> Reason:
        """Why there is no session to resume, as far as it is known; the client has proven nothing yet."""
        session = self._sessions.get(resume.session)
        if session is None or not session.lineage.is_exceeded_by(resume, session.epoch):
            return Reason.EXPIRED
        # Its token was made after what the store remembers.
        self._rollbacks.noticed(session, resume, "reset", peer=connection.peer)
        return Reason.ROLLED_BACK

    def _proven(self, connection: LiveConnection, resume: Resume) -> Session | None:
        self._stored.restore(resume.session)
        session = self._sessions.get(resume.session)
        if session is None and self._stored.is_elsewhere(resume.session):
            connection.close(Reason.MOVED, "this session has moved to another server", retry_after_s=_RETRY_ELSEWHERE_S)
        if session is None or session.codec is None:
            return None
        if self._stored.is_stuck(session):
            self._lifecycle.turn_away(connection)
            return None
        if connection.opened_at < session.link_opened_at and session.tokens.is_known(resume.token):
            # Its client has come by a newer link, while this hello was held up on the way or waited here.
            connection.close(Reason.SUPERSEDED, "this session has been resumed by a newer connection")
            return None
        verdict = session.tokens.present(resume.token)
        if verdict is Verdict.REUSED:
            self._counters.tokens_reused += 1
            self._publish(
                TokenReused(
                    session=session.id, player=session.player_id, player_name=session.name, peer=connection.peer
                )
            )
            self._lifecycle.end_session(session, Reason.TOKEN_REUSED, "a used token was presented; sign in again")
            connection.close(Reason.TOKEN_REUSED, "this token was used before; sign in again")
            return None
        if verdict is Verdict.UNKNOWN:
            return None
        ban = self._access.bans.of(session.player_id, connection.address)
        if ban is not None:
            # Also for a banned address: a thief of the token at that address must not get the session.
            connection.close(Reason.BANNED, ban_message(ban))
            return None
        if session.codec is not connection.codec:
            raise ProtocolError(f"this session uses {session.codec.name}; resume with the same codec")
        return session

    def _may_resume(self, connection: LiveConnection, session: Session) -> bool:
        """Refuse while a flood is being forgiven, and resumes that come too often: each counts as a request."""
        flood, now = session.flood, self._now()
        if flood is None:
            return True
        if flood.barred_until > now:
            wait_s = flood.barred_until - now
            connection.close(Reason.FLOODING, "this session has sent too much", retry_after_s=wait_s)
        elif not flood.requests.take(now):
            wait_s = flood.requests.wait_s(now)
            connection.close(Reason.THROTTLED, "this session reconnects too often", retry_after_s=wait_s)
        return connection.is_open

    def _resume(self, connection: LiveConnection, session: Session, resume: Resume) -> None:
        # Not computed from the end of the grace: that moves with the room, and with outages of the store.
        away_s = self._now() - session.dropped_at if session.dropped_at is not None else 0.0
        old = self._sessions.attach(session, connection, self._now())
        if old is not None:
            # A relayed client has found the way to its own node.
            self._lifecycle.supersede(old, session, is_moving=old.transport_kind == RELAY != connection.transport_kind)
            if not connection.is_open:
                # The game's drop handler ended the session.
                return
        session.resumes += 1
        session.speaks_with(connection.features)
        knows_more = self._knows_more(connection, session, resume)
        replayed, lost = self._continue_channels(session, resume.positions, knows_more=knows_more)
        session.replayed += replayed
        self._counters.messages_replayed += replayed
        outcome = self._outcome(session, resume.lineage, replayed, is_lost=bool(lost), knows_more=knows_more)
        if outcome.kind == "resynced":
            self._counters.resynced += 1
        else:
            self._counters.resumed += 1
        self._publish(resumed(session, connection, outcome.kind, replayed=replayed, away_s=away_s))
        token = session.tokens.rotate(self._random.randbytes(TOKEN_BYTES))
        if session.lineage.is_forked:
            entropy = self._random.randbytes(LINEAGE_BYTES)
            session.lineage.begin(session.epoch, entropy, presented=resume.lineage)
        self._welcomer.welcome(connection, session, token, outcome)
        # The client will return with this token and this lineage: the store must have them first.
        self._stored.hold(session)
        for channel in lost:
            # The same applies to the positions of its streams, which belong to the room.
            if (seat := session.seat_on(channel)) is not None:
                self._stored.moved(session, seat.purpose)
        self._seat_returned(session, lost)

    def _knows_more(self, connection: LiveConnection, session: Session, resume: Resume) -> bool:
        """Whether the client knows something that is not part of our history: an older backup was restored."""
        if session.lineage.includes(resume):
            return False
        self._rollbacks.noticed(session, resume, "resynced", peer=connection.peer)
        # It continues its request ids from here.
        session.requests_announced = max(session.requests_announced, resume.requests)
        return True

    @staticmethod
    def _outcome(session: Session, lineage: str, replayed: int, *, is_lost: bool, knows_more: bool) -> Outcome:
        """The outcome for the client; repeated until the client is known to have it, because the welcome may be
        lost."""
        drop_reason = session.drop_reason or ""
        if not knows_more and session.rewound_s is None:
            return Outcome("resynced" if is_lost else "resumed", replayed, drop_reason=drop_reason)
        age_s = session.rewound_s if session.rewound_s is not None else session.lineage.age_s(lineage)
        age_s = round(age_s, 3) if age_s is not None else None
        return Outcome("resynced", replayed, Reason.ROLLED_BACK, age_s, drop_reason)

    @staticmethod
    def _continue_channels(
        session: Session, positions: list[Position], *, knows_more: bool
    ) -> tuple[int, list[Channel]]:
        """The number of messages to repeat, and the channels whose messages could not be kept."""
        known = {position.channel: position for position in positions}
        replayed = 0
        lost: list[Channel] = []
        for channel in list(session.channels()):
            position = known.get(channel.number, Position(channel.number, channel.generation, 0))
            # Also if its seat was freed since: the client may have received other messages under the same numbers.
            if knows_more or channel.number in session.rewound:
                channel.forget_to(position.acked, position.generation)
                kept = None
            else:
                kept = channel.resume(position.generation, position.received)
            if kept is not None:
                replayed += kept
                if channel.is_over:
                    session.channel_over(channel)
                continue
            lost.append(channel)
            if channel in session.closing:
                # Its seat is gone, so there is no state to send: the welcome tells the client.
                session.channel_over(channel)
            else:
                session.resync(channel)
        return replayed, lost


LookElsewhere = Callable[[LiveConnection, Hello, str, Callable[[], None]], None]
"""Relays the client of this hello to the node that has the session with this id, or calls the function."""


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
        lifecycle: SessionLifecycle,
    ) -> None:
        self._clock = context.clock
        self._limits = context.limits
        self._limiter = limiter
        self._access = access
        self._resumer = resumer
        self._sign_in = sign_in
        self._lifecycle = lifecycle
        self._waiting: dict[LiveConnection, Hello] = {}
        """Hellos that came too early, for at most `hello_s`."""
        self._looked_for: set[LiveConnection] = set()
        """Connections whose session was looked for on other nodes."""
        self._claims_ended: set[str] = set()
        self._confirmed: set[LiveConnection] = set()
        """Connections for which this node has made sure that their session is still here."""
        self.look_elsewhere: LookElsewhere | None = None
        """In a cluster: the session of a hello that is not here may be on another node."""
        self.is_leaving: Callable[[str], bool] = lambda _: False
        """In a cluster: whether a session is being handed over to another node."""

    def opened(self, connection: LiveConnection) -> None:
        """The client has `hello_s` to send a hello."""
        self._clock.loop.call_later(self._limits.hello_s, self._check_time, connection)

    def _check_time(self, connection: LiveConnection) -> None:
        # A running authenticator has its own time limit.
        self._confirmed.discard(connection)
        if self._waiting.pop(connection, None) is not None:
            self._lifecycle.turn_away(connection)
        elif connection.state is ConnectionState.CONNECTING and connection not in self._sign_in:
            connection.close(Reason.HELLO_TIMEOUT, f"no hello within {self._limits.hello_s:g} s")

    def hello(self, connection: LiveConnection, hello: Hello) -> None:
        """The first frame: resume if possible, otherwise sign in if the hello has a credential."""
        if connection in self._sign_in or connection in self._waiting:
            raise ProtocolError("a hello was sent already: send one per connection")
        if connection in self._looked_for:
            self._looked_for.discard(connection)
            self._answer(connection, hello)
            return
        if self._must_wait(connection, is_resume=hello.resume is not None):
            return
        ban = self._access.bans.of("", connection.address)
        if ban is not None:
            # Before any check: verifying a password takes time.
            connection.close(Reason.BANNED, ban_message(ban))
            return
        connection.features = known_features(hello.features)
        resume = hello.resume
        if resume is None or self.look_elsewhere is None or self._has(resume.session):
            self._answer(connection, hello)
        else:
            self._waiting[connection] = hello
            self.look_elsewhere(connection, hello, resume.session, partial(self._is_here, connection))

    def _has(self, session_id: str) -> bool:
        return self._lifecycle.registry.get(session_id) is not None and not self.is_leaving(session_id)

    def is_waiting(self, connection: LiveConnection) -> bool:
        """Whether its hello is not answered yet."""
        return connection in self._waiting

    def _is_here(self, connection: LiveConnection) -> None:
        """The session of a waiting hello is here, or nowhere."""
        hello = self._waiting.pop(connection, None)
        if hello is not None and connection.is_open:
            self._looked_for.add(connection)
            connection.process(b"", [hello])
            self._looked_for.discard(connection)

    def relayed(self, connection: LiveConnection) -> None:
        """The session of a waiting hello is on another node, and so is its client from now on."""
        self._waiting.pop(connection, None)
        self._clock.loop.call_later(self._limits.hello_s, self._limiter.relayed(connection))

    def _answer(self, connection: LiveConnection, hello: Hello) -> None:
        if hello.resume is not None:
            if self._resumer.is_too_early(hello.resume):
                self._waiting[connection] = hello
                self._limiter.not_resumed()
                return
            if connection not in self._confirmed and self._resumer.must_confirm(hello.resume):
                self._confirmed.add(connection)
                self._waiting[connection] = hello
                self._limiter.not_resumed()
                return
            self._confirmed.discard(connection)
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
            self._sign_in.begin(connection, hello.auth, name=hello.player_name)
        elif not self._must_wait(connection, is_resume=False):
            reset = self._resumer.why_not(connection, hello.resume)
            self._sign_in.begin(connection, hello.auth, name=hello.player_name, reset=reset)

    def claim_ended(self, session: Session) -> None:
        """It is known whether what was read of a session is the latest: answer the hellos that wait for it."""
        if self._waiting:
            if not self._claims_ended:
                # Once for all sessions of a commit, and not from within it.
                self._clock.loop.call_soon(self._answer_waiting)
            self._claims_ended.add(session.id)

    def _answer_waiting(self) -> None:
        ended, self._claims_ended = self._claims_ended, set()
        for connection, hello in list(self._waiting.items()):
            # One that stands still is on its way to another node, which had the session when it was asked.
            is_here = hello.resume is not None and hello.resume.session in ended
            if is_here and not connection.is_standing:
                del self._waiting[connection]
                connection.process(b"", [hello])

    def _must_wait(self, connection: LiveConnection, *, is_resume: bool) -> bool:
        wait_s = self._limiter.wait_s(connection, is_resume=is_resume)
        if wait_s:
            connection.close(Reason.THROTTLED, "too many sign-ins at once; come back later", retry_after_s=wait_s)
        return bool(wait_s)
