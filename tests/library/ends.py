"""The two ends of a connection without a socket: a client's protocol and a `StreamConnection`, and the wire between."""

from dataclasses import dataclass, field
from random import Random

from holdfast import Message
from holdfast.client.channels import Arrived, ChannelOpened, Restarted
from holdfast.client.protocol import ClientProtocol, Event, Welcomed
from holdfast.core.codec import MSGPACK, Codec
from holdfast.core.limits import Limits
from holdfast.core.reasons import Reason
from holdfast.library.connection import (
    Accepted,
    Left,
    Place,
    Returned,
    SignInAsked,
    StreamConnection,
    TakenOver,
    Unnumbered,
)
from holdfast.library.connection import Event as ServerEvent
from holdfast.library.session import CHANNEL, StreamSession
from holdfast.schemas.frames import Auth, Outcome


class Number(Message):
    number: int


@dataclass
class Ends:
    """One client and the server's half. Time stands still unless `now` is moved."""

    limits: Limits = field(default_factory=Limits)
    codec: Codec = MSGPACK
    now: float = 0.0
    random: Random = field(default_factory=lambda: Random(1))

    def __post_init__(self) -> None:
        self.sessions: dict[str, StreamSession] = {}
        self.ended: list[tuple[str, Reason]] = []
        self.place = Place("mine", self.limits, 30.0, self.random.randbytes, self.sessions.get, lambda: 1)
        self.client = ClientProtocol(self.codec, Auth(), self.limits)
        self.heard_up: list[int] = []
        self.heard_down: list[int] = []
        self.outcomes: list[Outcome] = []
        self.happened: list[str] = []
        self.up: list[bytes] = []
        self.down: list[bytes] = []
        self.connection: StreamConnection | None = None

    @property
    def session(self) -> StreamSession:
        (session,) = self.sessions.values()
        return session

    # Connections

    def open(self, player_id: str = "") -> StreamConnection:
        """A new connection; the client says hello."""
        self.connection = StreamConnection(self.place, self.codec, self.now, wake=lambda: None, player_id=player_id)
        self.up, self.down = [self.client.hello()], []
        return self.connection

    def cut(self) -> None:
        """The connection is gone with all that was on its way."""
        assert self.connection is not None
        session = self.connection.session
        if session is not None and session.connection is self.connection:
            session.connection = None
        self.connection = None
        self.client.lost()

    # Payloads

    def write(self) -> None:
        """Both ends write what they have."""
        assert self.connection is not None
        self.up += self.client.outgoing(with_acks=True)
        self.down += self.connection.outgoing(self.now)

    def carry_up(self) -> None:
        assert self.connection is not None
        payload = self.up.pop(0)
        for event in self.connection.receive(payload.decode() if self.codec.text else payload, self.now):
            self._at_server(event)

    def carry_down(self) -> None:
        for event in self.client.receive(self.down.pop(0)):
            self._at_client(event)

    def settle(self) -> None:
        """Carry everything, until there is nothing more."""
        self.write()
        while self.up or self.down:
            while self.up:
                self.carry_up()
            while self.down:
                self.carry_down()
            self.write()

    def _at_server(self, event: ServerEvent) -> None:
        self.happened.append(type(event).__name__)
        match event:
            case SignInAsked(_, reset):
                assert self.connection is not None
                session_id = f"s{len(self.happened)}"
                session = StreamSession(session_id, "ada", codec=self.codec, limits=self.limits, ends=self._ends)
                self.sessions = {session_id: session}
                self.place = Place("mine", self.limits, 30.0, self.random.randbytes, self.sessions.get, lambda: 1)
                self.connection.welcome(session, reset)
            case Accepted():
                self.handle()
            case TakenOver() | Returned() | Unnumbered() | Left():
                pass

    def handle(self) -> None:
        """The server's handlers take what waits, unless one of them is at work."""
        while self.session.may_handle:
            self.heard_up.append(self.codec.body_decoder(Number).decode(self.session.handled().body).number)

    def _ends(self, session: StreamSession, reason: Reason, _message: str) -> None:
        session.is_over = True
        self.ended.append((session.player_id, reason))
        self.sessions.pop(session.id, None)

    def _at_client(self, event: Event) -> None:
        match event:
            case Welcomed(outcome):
                self.outcomes.append(outcome)
            case Arrived():
                if event.name == "number":
                    self.heard_down.append(self.codec.body_decoder(Number).decode(event.body).number)
                self.client.processed(event)
            case Restarted():
                self.client.processed(self.client.restart_of(event))
            case ChannelOpened(channel, room, kind):
                assert (channel, room, kind) == (CHANNEL, "mine", "mine")
            case _:
                pass

    # Messages

    def say_up(self, number: int) -> None:
        self.client.push(CHANNEL, "number", self.client.body(Number(number)))

    def say_down(self, number: int) -> None:
        self.session.stream.send(Number(number))
