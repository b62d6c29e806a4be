"""A ClientProtocol and the server's half of the conversation, written by hand: frames in, events and frames out."""

from dataclasses import replace
from typing import Any

from msgspec import Raw

from holdfast.client.channels import Arrived
from holdfast.client.protocol import ClientProtocol, Event
from holdfast.client.saved import SavedState
from holdfast.core.codec import Codec
from holdfast.core.limits import Limits
from holdfast.core.messages import SeatLeft
from holdfast.schemas.frames import (
    Auth,
    ChannelInfo,
    Data,
    Frame,
    FromClient,
    Hello,
    Latest,
    Outcome,
    Purpose,
    SeatFrame,
    Terms,
    Welcome,
)

TERMS = Terms(
    payload_bytes_max=65_536,
    window_messages_max=64,
    window_bytes_max=65_536,
    requests_in_flight_max=4,
    ping_s=5.0,
    silence_s=16.0,
    grace_s=30.0,
)


class Script:
    """Everything is said at once and nothing by itself."""

    def __init__(self, codec: Codec, auth: Auth | None = Auth(), limits: Limits | None = None) -> None:  # noqa: B008 - frozen
        self.codec = codec
        self.client = ClientProtocol(codec, auth, limits or Limits())

    # What the server says

    def hear(self, *frames: Frame) -> list[Event]:
        return list(self.client.receive(self.codec.payload(*frames)))

    def welcome(self, *channels: ChannelInfo, **fields: Any) -> list[Event]:
        fields = {"session": "s1", "token": "t1", "outcome": Outcome("new"), "terms": TERMS, **fields}
        return self.hear(Welcome(player="ada", channels=list(channels), **fields))

    def resume(self, *channels: ChannelInfo, **fields: Any) -> list[Event]:
        """The connection is lost, and the next one continues the session."""
        self.client.lost()
        return self.welcome(*channels, **{"outcome": Outcome("resumed"), **fields})

    def seat(self, channel: int = 1, purpose: Purpose = "seat") -> list[Event]:
        room, kind = ("", "") if purpose == "session" else (f"room-{channel}", "arena")
        return self.hear(SeatFrame("joined", channel, 1, room, kind, purpose))

    def data(self, seq: int, *, channel: int = 1, ack: int = 0, name: str = "hit", body: Any = None) -> Data:
        return Data(channel, seq, ack, name, self.raw(seq if body is None else body))

    def latest(self, body: Any, *, channel: int = 1) -> Latest:
        return Latest(channel, "hit", self.raw(body))

    def left(self, seq: int, *, channel: int = 1, reason: str = "kicked") -> Data:
        return Data(channel, seq, 0, SeatLeft.wire_name, self.raw(SeatLeft(reason)))

    def raw(self, content: Any) -> Raw:
        return Raw(self.codec.encode(content))

    # What the client does

    def arrive(self, *frames: Frame) -> list[Arrived]:
        return [event for event in self.hear(*frames) if isinstance(event, Arrived)]

    def process(self, *frames: Frame) -> None:
        for arrived in self.arrive(*frames):
            self.client.processed(arrived)

    def push(self, *contents: Any, channel: int = 1) -> None:
        for content in contents:
            self.client.push(channel, "move", self.codec.encode(content))

    def said(self, *, with_acks: bool = False, with_latest: bool = True) -> list[FromClient]:
        payloads = self.client.outgoing(with_acks=with_acks, with_latest=with_latest)
        return [frame for payload in payloads for frame in self.codec.from_client(payload)]

    def said_data(self) -> list[tuple[int, Any]]:
        """Sequence numbers and contents of the messages that are written now."""
        decoder = self.codec.body_decoder(Any)
        return [(frame.seq, decoder.decode(frame.body)) for frame in self.said() if isinstance(frame, Data)]

    def hello(self) -> Hello:
        (hello,) = self.codec.from_client(self.client.hello())
        assert isinstance(hello, Hello)
        return hello

    def in_another_process(self, state: bytes, auth: Auth | None = None) -> "Script":
        other = Script(self.codec, auth)
        other.client.load(SavedState.read(state))
        return other


def info(
    applied: int, *, channel: int = 1, generation: int = 1, purpose: Purpose = "seat", accepted: int = 0
) -> ChannelInfo:
    """A channel as the server has it."""
    room, kind = ("", "") if purpose == "session" else (f"room-{channel}", "arena")
    return ChannelInfo(channel, generation, applied, room, kind, accepted, purpose)


def terms(**changes: Any) -> Terms:
    return Terms(**{field: getattr(TERMS, field) for field in TERMS.__struct_fields__} | changes)


def limits(**changes: Any) -> Limits:
    return replace(Limits(), **changes)


def frames_of(kind: type[Any], frames: list[Any]) -> list[Any]:
    return [frame for frame in frames if isinstance(frame, kind)]
