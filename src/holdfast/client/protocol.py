"""The client's half of the protocol, without sockets: payloads in, events and payloads out.

It mirrors the server: the same frames, the same `Channel`. Everything that must outlive a connection is in here, so a
lost connection changes nothing but `is_welcome`, and `save` is enough to go on in another process.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from msgspec import Raw, structs

from holdfast.client.channels import Arrived, Channels, Restarted, SeatEvent
from holdfast.client.saved import SavedState
from holdfast.core.block import MESSAGE_OVERHEAD_BYTES
from holdfast.core.channel import Channel
from holdfast.core.codec import Codec
from holdfast.core.errors import Invalid, ProtocolError
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, SeatLeft, check_message
from holdfast.core.reasons import Reason
from holdfast.schemas.frames import (
    FOLLOWS_STATE,
    FRAME_HEAD_BYTES,
    HEARS_SESSION,
    MOVES_NEARER,
    READS_BLOCKS,
    SENDS_DATAGRAMS,
    Ack,
    Auth,
    BlockFrame,
    Close,
    Data,
    Datagrams,
    Frame,
    FromServer,
    Hello,
    Latest,
    Notice,
    Outcome,
    Ping,
    Pong,
    Reply,
    Request,
    RequestProblem,
    Resume,
    SeatFrame,
    Terms,
    Welcome,
)

# What this client can do beyond the first version of the protocol.
_FEATURES = (HEARS_SESSION, FOLLOWS_STATE, READS_BLOCKS)

RESET = "reset"
"""What became of a session that was gone; also the code of requests that were lost with it."""


@dataclass(frozen=True, slots=True)
class Welcomed:
    """The session is attached to this connection; its channels and requests have been brought up to date before."""

    outcome: Outcome
    datagrams: Datagrams | None = None
    """How unreliable messages may travel over UDP while this connection lasts."""
    is_moved: bool = False
    """Whether the connection before it was left for this one: there was no drop."""


Event = Welcomed | Reply | Notice | SeatEvent | Close
"""What `receive` tells: frames as they came, once they are checked, and what became of the session and its seats."""


class ClientProtocol:
    """One session, as its client sees it. Every payload from the server goes to `receive`, in order."""

    def __init__(self, codec: Codec, auth: Auth | None, limits: Limits, name: str = "") -> None:
        self.codec = codec
        self.session_id = ""
        self.player_id = ""
        self.name = ""
        """The player's display name, as the server has accepted it."""
        # To ask for. Not saved before it is accepted.
        self._wanted_name = name
        self.credential = ""
        self.latency_ms = 0.0
        self.quiet_s = 0.0
        """How much longer than usual nothing may be heard: the server said that its next payload is large."""
        self.is_welcome = False
        self.sends_datagrams = False
        """Whether we can use UDP beside a stream."""
        self.moves_nearer = False
        """Whether we can connect to the address of the session's node."""
        self.limits = limits
        self.channels = Channels(limits)
        self._auth = auth
        self._scheme = auth.scheme if auth is not None else ""
        self._token = ""
        self._lineage = ""
        self._terms: Terms | None = None
        self._last_request = 0
        self._last_answered = 0
        self._requests: dict[int, Request] = {}
        self._unsent: list[Frame] = []
        self._latest: dict[tuple[int, str, str], Latest] = {}
        self._reset_reason = ""
        # Of payloads since the last acknowledgement.
        self._unacked_bytes = 0
        # A saved state may be older than what its process did afterwards: until the server has told us how far that
        # was, a message or request would get a number that stands for something else.
        self._is_outdated = False
        self.is_changed = False
        """Whether something beside messages and positions is new since the last `save`, whose caller clears it."""

    # The session

    def hello(self) -> bytes:
        """The first payload of a new connection: come back to the session if there is one, else sign in."""
        resume = None
        if self.session_id:
            positions = self.channels.positions()
            resume = Resume(self.session_id, self._token, positions, self._lineage, self._last_answered)
        name = self._wanted_name or self.name
        features = [
            *_FEATURES,
            *([SENDS_DATAGRAMS] if self.sends_datagrams else []),
            *([MOVES_NEARER] if self.moves_nearer else []),
        ]
        return self.codec.payload(Hello(self._auth, resume, "holdfast-python", name, features))

    def lost(self) -> None:
        """The connection is gone: what must arrive is written to the next one."""
        self.is_welcome = False
        self.quiet_s = 0.0
        self._unsent.clear()
        self._latest.clear()

    def sign_in_again(self, reason: str) -> bool:
        """Let the next hello sign in, not come back; False if that was tried, or there is nothing to do it with."""
        if not self.session_id or self._auth is None:
            return False
        self.session_id = self._token = ""
        self._reset_reason = reason
        return True

    def linked(self, auth: Auth, token: str) -> None:
        """The player has an account: sign in with that from now on, and come back with this token, if there is one."""
        self._auth, self._scheme, self.credential = auth, auth.scheme, ""
        self._token = token or self._token
        self.is_changed = True

    def renamed(self, name: str) -> str:
        """The player is called so from now on."""
        self.name = name
        self.is_changed = True
        return name

    def save(self) -> bytes:
        """Everything that is needed to go on elsewhere, secrets included."""
        return SavedState(
            codec=self.codec.name,
            session=self.session_id,
            token=self._token,
            player=self.player_id,
            scheme=self._scheme,
            credential=self.credential,
            channels=self.channels.save(),
            finished=list(self.channels.finished.values()),
            lineage=self._lineage,
            requests=self._last_answered,
            newest=self.channels.newest,
            name=self.name,
        ).write()

    def load(self, state: SavedState) -> None:
        """Go on from a saved state. If the session is gone, sign in with what we were given, else what it remembers."""
        self.session_id, self.player_id = state.session, state.player
        self._token, self.credential = state.token, state.credential
        self._lineage, self._last_answered = state.lineage, state.requests
        self.name = state.name
        if self._auth is None:
            self._scheme = state.scheme
            self._auth = Auth(state.scheme, state.credential) if state.credential else None
        self.channels.load(state)
        self._is_outdated = True

    # To the server

    def request(self, operation: str, arguments: Any) -> int:
        """Ask for something; the answer comes as a `Reply` with this id, also after a resume."""
        # Encoded before the id is given out: one that cannot be encoded must not leave a gap.
        request = Request(
            self._last_request + 1,
            operation,
            Raw(self._sized(operation, lambda: self.codec.encode_request(operation, arguments))),
        )
        self._last_request = request.id
        self._requests[request.id] = request
        if self.is_welcome:
            self._unsent.append(request)
        return request.id

    @property
    def may_request(self) -> bool:
        """Whether the server would take another request now."""
        return not self._is_outdated and len(self._requests) < self.limits.requests_in_flight_max

    def body(self, message: Message) -> bytes:
        """A message's body, for `push`; `Invalid` if no payload can carry it."""
        check_message(message)
        return self._fitting(message.wire_name, message)

    def ask(self, message: Message) -> bytes:
        """The body of a message that asks for an answer: its type is `ASK`."""
        check_message(message)
        return self._fitting(message.wire_name, (message.wire_name, message))

    def push(self, channel: int, name: str, body: bytes) -> int:
        """Send a reliable message: kept until the server has applied it; its number. Wait first while `is_full`."""
        seat = self.channels.seat(channel)
        kept = seat.push(name, body)
        assert kept, "what may be kept is more than the window that `is_full` tells of"
        return seat.last_seq

    def push_latest(self, channel: int, name: str, body: bytes, key: str = "") -> None:
        """Send an unreliable message, if there is a connection; a newer one with the same key takes its place."""
        self.channels.seat(channel)
        if self.is_welcome:
            if (channel, name, key) not in self._latest and len(self._latest) >= self.limits.latest_kept_max:
                del self._latest[next(iter(self._latest))]
            self._latest[channel, name, key] = Latest(channel, name, Raw(body))

    def is_full(self, channel: int) -> bool:
        """Whether the sender must wait: for acknowledgements, or for the first welcome of a saved session."""
        return self._is_outdated or self.channels.seat(channel).is_full

    def unacked(self, channel: int) -> int:
        """Messages that the server has not acknowledged."""
        return known.kept if (known := self.channels.get(channel)) is not None else 0

    def processed(self, arrived: Arrived) -> None:
        """The application has dealt with this message and all before it: they may be acknowledged."""
        channel = self.channels.get(arrived.channel)
        if channel is None or (arrived.session, arrived.generation) != (self.session_id, channel.generation):
            return
        channel.applied = max(channel.applied, arrived.seq)
        if not arrived.seq:
            self.is_changed |= self.channels.read(channel)
        if arrived.name == SeatLeft.wire_name:
            # The last of its stream: acknowledge it now, or with the next hello.
            if self.is_welcome:
                self._unsent.append(Ack(channel.number, channel.applied))
            self.channels.finish(channel)
            self.is_changed = True

    def restart_of(self, event: Restarted) -> Arrived:
        """A stream's restart, to be `processed` like a message once the application knows of it."""
        return Arrived(self.session_id, event.channel, event.generation, 0, "", Raw(b""))

    def outgoing(self, *, with_acks: bool = False, with_latest: bool = True) -> list[bytes]:
        """The payloads to write now; nothing while there is no welcome."""
        if not self.is_welcome:
            return []
        # A request takes the acknowledgements with it; and they must not wait until large messages fill the window.
        with_acks = with_acks or bool(self._unsent) or self._unacked_bytes * 4 >= self.limits.window_bytes_max
        frames: list[Frame] = [*self.channels.outgoing(with_acks=with_acks)]
        if frames:
            self._unacked_bytes = 0
        # After the messages: a request to leave must not overtake what was said before.
        frames += self._unsent
        self._unsent.clear()
        if with_latest:
            frames += self._latest.values()
            self._latest.clear()
        # In small payloads, if much waits: a link that is slow or often cut gets some of them through.
        bytes_max = min(self.limits.batch_bytes_max, self.limits.payload_bytes_max)
        return self.codec.payloads(frames, bytes_max) if frames else []

    def datagrams(self, bytes_max: int) -> list[bytes]:
        """The unreliable messages that fit into datagrams of this size; the others are left to `outgoing`."""
        small = [name for name, latest in self._latest.items() if latest.size_max <= bytes_max]
        frames: list[Frame] = [self._latest.pop(name) for name in small]
        return self.codec.payloads(frames, bytes_max) if frames and self.is_welcome else []

    def _fitting(self, name: str, content: Any) -> bytes:
        return self._sized(name, lambda: self.codec.encode(content))

    def _sized(self, name: str, encode: Callable[[], bytes]) -> bytes:
        try:
            encoded = encode()
        except (TypeError, RecursionError) as error:
            raise TypeError(f"{name!r} cannot be sent: {error}") from None
        except (ValueError, OverflowError) as error:
            # Such as text with half of a character in it, or a number of more than 64 bits.
            raise Invalid(f"{name!r} cannot be sent: {error}") from None
        bytes_max = self.limits.payload_bytes_max - FRAME_HEAD_BYTES
        if len(encoded) > bytes_max:
            said = f"{name!r} has {len(encoded)} bytes, more than the {bytes_max} that fit in a payload"
            raise Invalid(f"{said}: send it in parts")
        return encoded

    # From the server

    def receive(self, payload: bytes) -> Iterator[Event]:
        """What a payload means, one frame after the other; `ProtocolError` at the first that means nothing."""
        self.quiet_s = 0.0
        self._unacked_bytes += len(payload)
        for frame in self.codec.from_server(payload):
            if not self.is_welcome and not isinstance(frame, Welcome | Close):
                raise ProtocolError(f"a {frame.name} came before the welcome")
            yield from self._on(frame)

    def receive_datagram(self, payload: bytes) -> Iterator[Event]:
        """The same for a datagram, which may have overtaken other payloads; it has unreliable messages only."""
        for frame in self.codec.from_server(payload):
            if not isinstance(frame, Latest):
                raise ProtocolError(f"a {frame.name} came in a datagram")
            yield frame

    def _on(self, frame: FromServer) -> Iterable[Event]:
        match frame:
            case Data():
                return self._on_data(frame)
            case BlockFrame():
                return [event for data in frame.data() for event in self._on_data(data)]
            case Latest() | Notice():
                return [frame]
            case Ack():
                self._acknowledged(frame.channel, frame.ack)
                return []
            case Ping():
                return self._on_ping(frame)
            case Reply():
                is_new = self._requests.pop(frame.id, None) is not None
                self._last_answered = max(self._last_answered, frame.id)
                return [frame] if is_new else []
            case SeatFrame():
                self.is_changed = True
                return self.channels.on_seat(frame)
            case Welcome():
                return self._on_welcome(frame)
            case Close():
                # Not `< 0`: a NaN becomes a 0 too.
                return [frame if frame.retry_after_s >= 0.0 else structs.replace(frame, retry_after_s=0.0)]

    def _on_data(self, frame: Data) -> list[Event]:
        channel = self._acknowledged(frame.channel, frame.ack)
        if channel is None and not self.channels.was_opened(frame.channel):
            raise ProtocolError(f"a message came for channel {frame.channel}, which was never opened")
        if channel is None or not channel.accept(frame.seq):
            return []
        return [Arrived(self.session_id, channel.number, channel.generation, frame.seq, frame.type, frame.body)]

    def _on_ping(self, frame: Ping) -> list[Event]:
        self.latency_ms = frame.latency_ms
        # In this order `max` also turns a NaN into a 0.
        self.quiet_s = max(0.0, frame.quiet_s)
        channel = self._acknowledged(frame.channel, frame.ack)
        ack = 0
        if channel is not None:
            ack = channel.ack_sent = channel.applied
        self._unsent.append(Pong(frame.id, frame.channel, ack))
        return []

    def _acknowledged(self, number: int, ack: int) -> Channel | None:
        """The channel that a frame speaks of, with what the frame acknowledges."""
        channel = self.channels.get(number)
        if channel is not None and ack > channel.acked:
            channel.acknowledge(ack)
        return channel

    def _on_welcome(self, frame: Welcome) -> list[Event]:
        if self.is_welcome:
            raise ProtocolError("a second welcome came")
        self.is_changed = True
        events: list[Event] = []
        is_first = not self.session_id and not self._reset_reason
        is_same = frame.session == self.session_id
        outcome = Outcome(RESET, reason=self._reset_reason) if self._reset_reason else frame.outcome
        self.session_id, self.player_id, self._token = frame.session, frame.player, frame.token
        self._lineage = frame.lineage
        self.name, self._wanted_name = frame.player_name, ""
        self._reset_reason = ""
        self._is_outdated = False
        if frame.credential:
            self.credential = frame.credential
            self._auth = Auth(self._scheme, frame.credential)
        self._agree(frame.terms)
        if not is_same:
            events += self.channels.clear(outcome.reason)
            # Those were of another session, also if a state that was saved in between does not know which.
            self._last_answered = 0
        elif outcome.reason == Reason.ROLLED_BACK:
            events += self.channels.roll_back(frame.channels, outcome.reason)
        events += self.channels.resume(frame.channels, outcome.reason)
        self._unsent += [Ack(p.channel, p.received or 0) for p in self.channels.finished.values()]
        is_lost = not is_same and not is_first
        events += self._lost_requests(outcome.reason) if is_lost else []
        self._continue_requests(frame.requests)
        self.is_welcome = True
        return [*events, Welcomed(outcome, frame.datagrams)]

    def _agree(self, terms: Terms) -> None:
        """Adopt the server's terms, with room to keep every message that `is_full` allows."""
        if terms == self._terms:
            return  # as nearly always when a session is resumed, and all that is below takes its time
        try:
            self.limits = replace(
                self.limits,
                payload_bytes_max=terms.payload_bytes_max,
                requests_in_flight_max=terms.requests_in_flight_max,
                window_messages_max=terms.window_messages_max,
                window_bytes_max=terms.window_bytes_max,
                kept_messages_max=terms.window_messages_max,
                kept_bytes_max=terms.window_bytes_max + terms.payload_bytes_max + MESSAGE_OVERHEAD_BYTES,
                silence_s=terms.silence_s,
            )
        except ValueError as error:
            raise ProtocolError(f"these terms cannot be kept: {error}") from None
        self._terms = terms
        self.channels.agree(self.limits)

    def _lost_requests(self, reason: str) -> list[Event]:
        """The session is a new one, which knows nothing of these."""
        lost, self._requests = self._requests, {}
        self._last_request = 0
        return [Reply(request_id, None, RequestProblem(RESET, reason)) for request_id in lost]

    def _continue_requests(self, last_known: int) -> None:
        self._last_request = max(self._last_request, last_known)
        self._last_answered = max(self._last_answered, last_known)
        self._unsent += self._requests.values()
