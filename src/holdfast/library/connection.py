"""One connection of `PlayerStreams`, without a socket: payloads in, events and payloads out. Time is an argument.

It is the server's half of the protocol for sessions that have one seat, in one place, from beginning to end: clients
need nothing that a Holdfast server does beyond that.

    hello with a token        TakenOver if the session still has a connection, then Returned
    hello with a credential   SignInAsked: answer it with `welcome` or `close`
    data                      Accepted, once for each message and in order
    bye                       Left
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import assert_never

from msgspec import Raw

from holdfast.core.codec import Codec
from holdfast.core.errors import NotAllowed, NotFound, ProtocolError
from holdfast.core.limits import Limits
from holdfast.core.reasons import CLOSE_CODES, Reason
from holdfast.core.tokens import TOKEN_BYTES, Verdict
from holdfast.library.session import CHANNEL, StreamSession
from holdfast.schemas.frames import (
    Ack,
    Auth,
    Bye,
    Close,
    Data,
    Frame,
    FromClient,
    Hello,
    Latest,
    Outcome,
    Ping,
    Pong,
    Position,
    Reply,
    Request,
    RequestProblem,
    Resume,
    Welcome,
    sentence,
)
from holdfast.schemas.room import RoomInfo


@dataclass(frozen=True, slots=True)
class SignInAsked:
    """A client wants a new session; `reset` says why an earlier one cannot be resumed, if it tried."""

    auth: Auth
    reset: Reason | None


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A session has lost its connection to a newer one."""

    session: StreamSession


@dataclass(frozen=True, slots=True)
class Returned:
    """A session has a connection again; its stream begins anew if messages could not be kept."""

    session: StreamSession
    is_resynced: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """A session's inbox has a message more."""

    session: StreamSession


@dataclass(frozen=True, slots=True)
class Left:
    """The player said goodbye."""

    session: StreamSession


@dataclass(frozen=True, slots=True)
class Unnumbered:
    """An unreliable message came: it is handled now or never."""

    session: StreamSession
    frame: Latest


Event = SignInAsked | TakenOver | Returned | Accepted | Unnumbered | Left


@dataclass(frozen=True, slots=True)
class Place:
    """What connections need to know of the streams that they belong to."""

    kind: str
    limits: Limits
    grace_s: float
    entropy: Callable[[int], bytes]
    session: Callable[[str], StreamSession | None]
    """The session with this id."""
    players: Callable[[], int]


class StreamConnection:
    """One connection. `outgoing` has the payloads to write; call it after `wake`, and at `next_at` at the latest."""

    def __init__(
        self, place: Place, codec: Codec, now: float, *, wake: Callable[[], None], player_id: str = ""
    ) -> None:
        self._place = place
        self._limits = place.limits
        self.codec = codec
        self._player_id = player_id
        self.wake = wake
        self.session: StreamSession | None = None
        self.closing: Close | None = None
        """Why it ends, once that is known: nothing more is read."""
        self.is_stuck = False
        """Whether the peer takes nothing more."""
        self._opened_at = self._heard_at = self._pinged_at = now
        self._ping_id = 0
        self._is_greeted = False
        self._is_confirmed = False
        self._control: list[Frame] = []
        self._latest: dict[tuple[str, str], Latest] = {}

    # In

    def receive(self, payload: bytes | str, now: float) -> Iterator[Event]:
        """What a payload means. A payload that breaks the protocol closes the connection."""
        self._heard_at = now
        try:
            for frame in self._frames(payload):
                if self.closing is not None:
                    return
                yield from self._on_frame(frame, now)
        except ProtocolError as error:
            self.close(error.reason, str(error))
        self.wake()

    def _frames(self, payload: bytes | str) -> list[FromClient]:
        if isinstance(payload, str) is not self.codec.text:
            raise ProtocolError(f"{self.codec.name} is carried by {'text' if self.codec.text else 'binary'} messages")
        content = payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else payload
        is_known = self.session is not None
        if len(content) > (self._limits.payload_bytes_max if is_known else self._limits.hello_bytes_max):
            raise ProtocolError("the payload is too large", Reason.TOO_BIG)
        if self.session is not None and not self._is_confirmed:
            # A client sends again only once it has the welcome, and with it the token for its next resume.
            self._is_confirmed = True
            self.session.tokens.confirm()
        return self.codec.from_client(content)

    def _on_frame(self, frame: FromClient, now: float) -> Iterator[Event]:
        session = self.session
        if isinstance(frame, Hello):
            if self._is_greeted:
                raise ProtocolError("a second hello came")
            self._is_greeted = True
            yield from self._on_hello(frame)
            return
        if session is None:
            raise ProtocolError(f"a {frame.name} is not allowed before the welcome")
        match frame:
            case Data():
                yield from self._on_data(session, frame)
            case Ack():
                self._acknowledged(session, frame)
            case Pong():
                self._acknowledged(session, frame)
                if frame.id == self._ping_id:
                    session.latency.add((now - self._pinged_at) * 1000.0)
            case Request():
                self._control.append(self._answer(frame))
            case Bye():
                yield Left(session)
            case Latest():
                if frame.channel != CHANNEL:
                    raise ProtocolError(f"channel {frame.channel} was never opened")
                yield Unnumbered(session, frame)
            case _:
                assert_never(frame)

    def _on_data(self, session: StreamSession, frame: Data) -> Iterator[Event]:
        channel = session.channel
        self._acknowledged(session, frame)
        if session.waiting_bytes >= self._limits.window_bytes_max and frame.seq > channel.accepted:
            raise ProtocolError("more bytes in flight than the window allows", Reason.SEQUENCE)
        if channel.accept(frame.seq) and not session.is_over:
            session.accepted(frame)
            yield Accepted(session)

    @staticmethod
    def _acknowledged(session: StreamSession, frame: Data | Ack | Pong) -> None:
        if isinstance(frame, Pong) and frame.channel == 0:
            return
        if frame.channel != CHANNEL:
            raise ProtocolError(f"channel {frame.channel} was never opened")
        if frame.ack > session.channel.acked:
            session.channel.acknowledge(frame.ack)

    def _answer(self, request: Request) -> Reply:
        """A client that joins is in its place already; there is nothing else to ask for."""
        place = self._place
        info = RoomInfo(
            id=place.kind,
            kind=place.kind,
            players=place.players(),
            max_players=place.limits.sessions_max,
            phase="playing",
            properties={},
        )
        match request.operation:
            case "join" | "join_or_create":
                return Reply(request.id, info)
            case "mine":
                return Reply(request.id, [info])
            case "leave":
                problem = RequestProblem(NotAllowed.code, "to leave, close the session: this server has one room")
            case name:
                said = f"there is no request {name!r} here: this server has one room, {place.kind!r}, and no directory"
                problem = RequestProblem(NotFound.code, said)
        return Reply(request.id, None, problem)

    # Sessions

    def _on_hello(self, hello: Hello) -> Iterator[Event]:
        reset = None
        if hello.resume is not None:
            session = self._proven(hello.resume)
            if session is not None:
                yield from self._resume(session, hello.resume)
                return
            reset = Reason.EXPIRED
        if self.closing is None:
            if hello.auth is None:
                self.close(Reason.EXPIRED, "this session is over; sign in again")
            else:
                yield SignInAsked(hello.auth, reset)

    def _proven(self, resume: Resume) -> StreamSession | None:
        session = self._place.session(resume.session)
        if session is None or self._player_id not in {"", session.player_id}:
            return None
        match session.tokens.present(resume.token):
            case Verdict.UNKNOWN:
                return None
            case Verdict.REUSED:
                session.ends(session, Reason.TOKEN_REUSED, "a used token was presented; sign in again")
                self.close(Reason.TOKEN_REUSED, "this token was used before; sign in again")
                return None
            case Verdict.GOOD:
                pass
        if session.codec is not self.codec:
            raise ProtocolError(f"this session uses {session.codec.name}; resume with the same codec")
        return session

    def _resume(self, session: StreamSession, resume: Resume) -> Iterator[Event]:
        if session.connection is not None:
            session.connection.close(Reason.SUPERSEDED, "this session continues on a newer connection")
            session.connection = None
            yield TakenOver(session)
        channel = session.channel
        reached = {position.channel: position for position in resume.positions}
        position = reached.get(CHANNEL, Position(CHANNEL, channel.generation, 0))
        replayed = channel.resume(position.generation, position.received)
        if replayed is None:
            channel.resync()
        token = session.tokens.rotate(self._place.entropy(TOKEN_BYTES))
        self._attach(session, token, Outcome("resynced" if replayed is None else "resumed", replayed or 0))
        yield Returned(session, is_resynced=replayed is None)

    def welcome(self, session: StreamSession, reset: Reason | None) -> None:
        """The answer to `SignInAsked`: this is the client's session."""
        token = session.tokens.issue(self._place.entropy(TOKEN_BYTES))
        self._attach(session, token, Outcome("new") if reset is None else Outcome("reset", reason=reset))

    def _attach(self, session: StreamSession, token: str, outcome: Outcome) -> None:
        terms = self._limits.terms(self._place.grace_s)
        self.session = session
        session.connection = self
        channels = [session.info(self._place.kind)]
        self._control.append(Welcome(session.id, session.player_id, token, outcome, terms, channels))
        self.wake()

    # Out

    def send_latest(self, name: str, body: bytes, key: str) -> None:
        """Write an unreliable message soon, or never if a newer one comes first."""
        latest = self._latest
        if (name, key) not in latest and len(latest) >= self._limits.latest_kept_max:
            del latest[next(iter(latest))]
        latest[name, key] = Latest(CHANNEL, name, Raw(body))
        self.wake()

    @property
    def next_at(self) -> float | None:
        """When `outgoing` must be called again, though nothing has happened; None if that alone never needs it."""
        if self.session is None:
            # A hello that came is being answered, which has a time limit of its own.
            return None if self._is_greeted else self._opened_at + self._limits.hello_s
        return min(self._pinged_at + self._limits.ping_s, self._heard_at + self._limits.silence_s)

    def outgoing(self, now: float) -> list[bytes]:
        """The payloads to write now."""
        if self.closing is None:
            self._check_time(now)
        frames, self._control = self._control, []
        if self.closing is not None:
            frames.append(self.closing)
        elif self.session is not None:
            channel = self.session.channel
            frames += channel.take()
            frames += self._latest.values()
            self._latest.clear()
            if channel.owes_ack:
                channel.ack_sent = channel.applied
                frames.append(Ack(CHANNEL, channel.applied))
            if now >= self._pinged_at + self._limits.ping_s:
                self._ping_id += 1
                self._pinged_at = now
                latency_ms = round(self.session.latency.smoothed_ms, 3)
                frames.append(Ping(self._ping_id, CHANNEL, channel.applied, latency_ms))
        bytes_max = min(self._limits.batch_bytes_max, self._limits.payload_bytes_max)
        return self.codec.payloads(frames, bytes_max) if frames else []

    def _check_time(self, now: float) -> None:
        if self.session is None and now >= self._opened_at + self._limits.hello_s and not self._is_greeted:
            self.close(Reason.HELLO_TIMEOUT, "no hello came in time")
        elif self.session is not None and now >= self._heard_at + self._limits.silence_s:
            self.close(Reason.SILENT, "nothing was received for too long")

    def close(self, reason: Reason, message: str = "", *, retry_after_s: float = 0.0, problem: str = "") -> None:
        """Say why, and end; what waits stays with the session."""
        if self.closing is None:
            self.closing = Close(CLOSE_CODES[reason], reason, sentence(message), retry_after_s, problem)
            self.wake()
