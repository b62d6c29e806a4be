"""The frames of the protocol, as data, by sender (docs/protocol.md describes them).

A frame is an array that starts with its name; a payload is an array of frames. Fields are only ever appended, so that
an older peer ignores what it does not know. Numbers stay below 2**53: every language can represent them.
"""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Raw, Struct, field

NUMBER_MAX = 2**53 - 1
# A session has up to three open channels, and a few (`Limits.closing_channels_max`) with undelivered last messages.
POSITIONS_MAX = 8

Number = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
# Messages and requests are numbered from 1; 0 means "none yet".
Ordinal = Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
NAME_CHARS_MAX = 64
Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
# Texts for people: longer ones are cut.
TEXT_CHARS_MAX = 1024
Text = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]

# The longest JSON Web Token that is accepted; a hello must fit in `Limits.hello_bytes_max` as well.
CREDENTIAL_CHARS_MAX = 8 * 1024

OWN_BODY = "protobuf_body"
Body = Annotated[Any, Meta(extra={OWN_BODY: True})]
"""A value of a type that the receiver knows from elsewhere: in protobuf it is the bytes of that type's message."""

LINEAGE_CHARS_MAX = 16

Purpose = Literal["seat", "spectator", "session"]
"""Whose streams a channel has: a player's seat, a spectator's place, or the session itself. At most one of each."""

HEARS_SESSION = "session"
"""The feature of a client that hears messages to its session, beside those of rooms."""
FOLLOWS_STATE = "state"
"""The feature of a client that follows the state that rooms share."""
READS_BLOCKS = "blocks"
"""The feature of a client that reads `block` frames."""
SENDS_DATAGRAMS = "datagrams"
"""The feature of a client that can send unreliable messages over UDP, beside its stream."""
MOVES_NEARER = "moves"
"""The feature of a client that goes to the address of its session's node when it is told (`Nearer`)."""
FEATURES_MAX = 16

FRAME_HEAD_BYTES = 512
"""Space for everything of a frame besides its body: 64 letters of four bytes, and some numbers."""


def sentence(text: str) -> str:
    """A game's text for people, made fit to be sent: not too long, and valid Unicode."""
    return text[:TEXT_CHARS_MAX].encode("utf-8", "replace").decode()


class HidesSecrets:
    """For structs with a secret: only the fields in `shown` are shown, in logs and by rich too."""

    __slots__ = ()
    shown: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        fields = "".join(f"{name}={getattr(self, name)!r}, " for name in self.shown)
        return f"{type(self).__name__}({fields}***)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # Instead of msgspec's, which has every field.
        return [("secret", "***")]


def _wire_name(class_name: str) -> str:
    return class_name.removesuffix("Frame").lower()


class Frame(Struct, array_like=True, frozen=True, gc=False, tag_field="frame", tag=_wire_name):
    """The base of all frames: an array on the wire, its first element the class's name in lower case, without "frame".

    Frames hold values only, never each other, so the garbage collector need not track them.
    """

    name: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = _wire_name(cls.__name__)


class Auth(HidesSecrets, Struct, frozen=True, omit_defaults=True):
    """A credential, to be checked by the authenticator of its scheme. The credential is a secret."""

    shown = ("scheme",)
    scheme: Name = "guest"
    credential: Annotated[str, Meta(max_length=CREDENTIAL_CHARS_MAX)] = ""

    @staticmethod
    def password(name: str, password: str) -> "Auth":
        """For an account: its name and its password."""
        if ":" in name:
            raise ValueError("the name of an account must not contain a colon")
        return Auth("password", f"{name}:{password}")


class Position(Struct, frozen=True, omit_defaults=True):
    """The client's position on one channel; without `received` it lost its memory and asks for the state.

    `acked` is the last of its own messages that the server acknowledged, and `accepted` the last that it received, if
    they were not all processed: a server may recover an older state and remember less.
    """

    channel: Number
    generation: Number
    received: Number | None = None
    acked: Number = 0
    accepted: Number = 0


class Resume(HidesSecrets, Struct, frozen=True, omit_defaults=True):
    """The session that a client resumes. The token is a secret: this struct is never logged."""

    shown = ("session",)
    session: Name
    token: Annotated[str, Meta(max_length=64)]
    positions: Annotated[list[Position], Meta(max_length=POSITIONS_MAX)] = []
    lineage: Annotated[str, Meta(max_length=LINEAGE_CHARS_MAX)] = ""
    """From the last welcome: which history the positions belong to."""
    requests: Number = 0
    """The highest request that was answered, or that a welcome reported."""


class Outcome(Struct, frozen=True, omit_defaults=True):
    """The outcome of a hello: "new", or exactly one of "resumed", "resynced", "reset"."""

    kind: str
    replayed: int = 0
    reason: str = ""
    """Why the session was reset; "rolled_back" also if a resynced client knows more than the server."""
    age_s: float | None = None
    """The age of the recovered state of a room. Later changes are lost."""
    drop_reason: str = ""
    """Why the server closed the previous connection, if it did: the client may not have received it."""


class ChannelInfo(Struct, frozen=True, omit_defaults=True):
    """One channel on the server: its room, if it is open, and the last message it applied.

    `accepted` is present if it has received more than it applied: a client that remembers less must not reuse the
    numbers. `purpose` is a `Purpose`; newer servers may know others.
    """

    channel: Number
    generation: Number
    applied: Number
    room: str
    kind: str
    accepted: Number = 0
    purpose: str = "seat"


class Terms(Struct, frozen=True):
    """The server's limits that a client must respect."""

    payload_bytes_max: int
    window_messages_max: int
    window_bytes_max: int
    requests_in_flight_max: int
    ping_s: float
    silence_s: float
    grace_s: float


class Datagrams(HidesSecrets, Struct, frozen=True, omit_defaults=True):
    """How the client of a stream may send and receive `latest` frames over UDP, for as long as this connection lasts.

    `secret` is the key of this connection, in letters like a token's.
    """

    shown = ("id", "host", "port")
    id: str
    secret: str
    port: int
    bytes_max: int
    """The largest payload in a datagram."""
    ping_s: float
    silence_s: float
    host: str = ""
    """Empty: the host of the stream."""


class RequestProblem(Struct, frozen=True):
    """Why a request was refused: a stable code and a sentence."""

    code: str
    message: str


class Hello(Frame, frozen=True):
    """The client's first frame: sign in, resume, or resume and otherwise sign in."""

    auth: Auth | None = None
    resume: Resume | None = None
    client: Text = ""
    # `name` is that of the frame.
    player_name: str = field(default="", name="name")
    """For a new session: the player's display name."""
    features: Annotated[list[Name], Meta(max_length=FEATURES_MAX)] = []
    """What the client can do beyond the first version of this protocol; unknown ones are ignored."""


class Welcome(HidesSecrets, Frame, frozen=True):
    """The server's first frame: the session is attached to this connection. The token is a secret."""

    shown = ("session", "player", "outcome")
    session: str
    player: str
    token: str
    outcome: Outcome
    terms: Terms
    channels: list[ChannelInfo] = []
    requests: Number = 0
    credential: str = ""
    lineage: Annotated[str, Meta(max_length=LINEAGE_CHARS_MAX)] = ""
    player_name: str = field(default="", name="name")
    """The player's display name, as the server has accepted it."""
    datagrams: Datagrams | None = None


class Request(Frame, frozen=True):
    """A request to the server; the same id is never carried out twice."""

    id: Ordinal
    operation: Name
    arguments: Raw


class Reply(Frame, frozen=True):
    """The answer to a request: a result or a problem."""

    id: Number
    result: Body = None
    problem: RequestProblem | None = None


class Data(Frame, frozen=True):
    """One reliable message of a channel; `ack` is the last one applied of the other direction."""

    channel: Number
    seq: Ordinal
    ack: Number
    type: Name
    body: Raw


class BlockMessage(Struct, array_like=True, frozen=True, gc=False):
    """One message of a block."""

    type: Name
    body: Raw


class BlockFrame(Frame, frozen=True):
    """Reliable messages of a channel that follow each other, numbered from `seq`. The messages are encoded once for all
    clients that get them."""

    channel: Number
    seq: Ordinal
    ack: Number
    messages: Annotated[list[BlockMessage], Meta(min_length=1)]

    def data(self) -> list[Data]:
        """The same messages, each in a frame of its own."""
        return [
            Data(self.channel, seq, self.ack, message.type, message.body)
            for seq, message in enumerate(self.messages, self.seq)
        ]


class Latest(Frame, frozen=True):
    """One unreliable message: replaced by a newer one, never repeated, without a sequence number."""

    channel: Number
    type: Name
    body: Raw

    @property
    def size_max(self) -> int:
        """The bytes of a payload that has only this frame, at most: JSON may write six for a letter of the name."""
        return len(self.body) + 6 * len(self.type) + 48


class Ack(Frame, frozen=True):
    """An acknowledgement, when no message carries it."""

    channel: Number
    ack: Number


class Ping(Frame, frozen=True):
    """A sign-of-life request, with the latest acknowledgement and the round-trip time as measured by the server.

    Before a large payload: how much longer than usual the link may be silent, if it is slow.
    """

    id: Number
    channel: Number = 0
    ack: Number = 0
    latency_ms: float = 0.0
    quiet_s: float = 0.0


class Pong(Frame, frozen=True):
    """The answer to a ping, with the client's latest acknowledgement."""

    id: Number
    channel: Number = 0
    ack: Number = 0


class SeatFrame(Frame, frozen=True):
    """A channel begins ("joined") or its stream to the client restarts ("resynced")."""

    event: str
    channel: Number
    generation: Number
    room: str
    kind: str
    purpose: str = "seat"


class Notice(Frame, frozen=True):
    """A notice outside of any room: about a watched search, a waitlist, a placement. After a drop, ask again."""

    topic: str
    key: str
    body: Body


class Bye(Frame, frozen=True):
    """The client leaves on purpose: its session ends now."""

    reason: Text = ""


class Close(Frame, frozen=True):
    """The server's last frame: why this connection ends and whether to reconnect."""

    code: Number
    reason: str
    message: str = ""
    retry_after_s: float = 0.0
    problem: str = ""


FromClient = Hello | Request | Data | Latest | Ack | Pong | Bye
FromServer = Welcome | Reply | Data | BlockFrame | Latest | Ack | Ping | SeatFrame | Notice | Close
