"""One end of an ENet connection, without a socket: datagrams in and out; the time is an argument.

Three channels. Payloads are the reliable packets of channel 0. The newest values, which may be lost, are the unreliable
packets of channel 1: ENet drops those that a newer one has overtaken. A close is a reliable packet on channel 2, a
16-bit code and a reason, followed by ENet's disconnect with the code, once everything before it was acknowledged.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

from holdfast.core.tables import Table, TableEnum
from holdfast.transports.enet import wire
from holdfast.transports.enet.inbound import BrokenFragments, Inbound, TooBig
from holdfast.transports.enet.outbound import Outbound
from holdfast.transports.enet.pace import THROTTLE_MAX, RoundTrip, SendThrottle
from holdfast.transports.links import CLOSE_BYTES_MAX, close_code, pack_close, shorten, unpack_close
from holdfast.transports.port import BROKEN, NO_STATUS, TOO_BIG, VANISHED, TransportLimits
from holdfast.transports.repeat import Repeat

PAYLOADS, LATEST, CLOSES = range(3)
CHANNELS = 3

# Datagrams that wait for the end of a loop iteration; the oldest is dropped.
_DATAGRAMS_MAX = 256
# After this many unreliable packets ENet sends one reliably, which starts their numbers again.
_UNRELIABLE_SEQ_MAX = 0xFFFF
# An unreliable number that is further ahead is an old one.
_OLD = 0x8000
# An acknowledgement with an older clock is not one of a round trip.
_ROUND_TRIP_MS_MAX = 30_000


class PeerState(TableEnum):
    """The states of a peer."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    CLOSING = "closing"
    DISCONNECTING = "disconnecting"
    ENDED = "ended"


class PeerStep(TableEnum):
    """The events of a peer."""

    VERIFIED = "verified"
    CLOSED = "closed"
    DELIVERED = "delivered"
    ANSWERED = "answered"
    LEFT = "left"
    LOST = "lost"


_S, _E = PeerState, PeerStep

PEER_TABLE = Table(
    "peer",
    _S.CONNECTING,
    {
        _S.CONNECTING: {_E.VERIFIED: _S.CONNECTED, _E.CLOSED: _S.ENDED, _E.LEFT: _S.ENDED, _E.LOST: _S.ENDED},
        _S.CONNECTED: {_E.CLOSED: _S.CLOSING, _E.LEFT: _S.ENDED, _E.LOST: _S.ENDED},
        _S.CLOSING: {_E.DELIVERED: _S.DISCONNECTING, _E.LEFT: _S.ENDED, _E.LOST: _S.ENDED},
        _S.DISCONNECTING: {_E.ANSWERED: _S.ENDED, _E.LEFT: _S.ENDED, _E.LOST: _S.ENDED},
        _S.ENDED: {},
    },
)

_End: TypeAlias = tuple[int, str]
_Verdict: TypeAlias = tuple[bool, bool]
_IGNORED: _Verdict = (False, False)


_Handlers: TypeAlias = Mapping[type[wire.Command], Callable[[Any, Any, float], _Verdict]]


class Peer:
    """One end; whoever owns it passes datagrams in, and asks what to write and when to look again."""

    def __init__(self, limits: TransportLimits, *, state: PeerState, peer_id: int, session: int, mtu: int) -> None:
        self.state = state
        self.payloads: list[bytes] = []
        """Received, for whoever owns it to take out."""
        self.datagrams: list[bytes] = []
        """The same for unreliable packets."""
        self.unread_bytes = 0
        """Of payloads that were taken out and wait somewhere else."""
        self.end: _End | None = None
        """How it ends, as soon as that is certain."""
        self.heard_at = 0.0
        self.session: int
        """The session that datagrams to this end name; theirs are only accepted with it."""
        self.received_bytes = self.taken_bytes = 0
        """Of payloads: that have arrived here, and there."""
        self._limits = limits
        self._peer_id = peer_id
        self._session = self.session = session
        self._mtu = mtu
        self._window_bytes = min(limits.unacked_bytes_max, wire.WINDOW_MAX)
        self._outbound = Outbound(mtu)
        self._inbound = [Inbound(limits.payload_bytes_max), Inbound(mtu), Inbound(CLOSE_BYTES_MAX)]
        self._round_trip = RoundTrip()
        self._throttle = SendThrottle()
        self._acks: list[bytes] = []
        self._unreliable: list[bytes] = []
        self._repeat = Repeat(limits)
        self._unreliable_sent = 0
        self._unreliable_seen = 0
        self._close_body = b""
        self._is_pinging = False
        # A dialed end pings: it notices first that its address has changed.
        self._ping_s: float | None = None
        self._connect_id = 0

    @classmethod
    def dialing(cls, limits: TransportLimits, connect_id: int, now: float) -> "Peer":
        """The end that dials; the number is random."""
        peer = cls(limits, state=PeerState.CONNECTING, peer_id=wire.PEER_ID_NONE, session=0, mtu=limits.udp_bytes_max)
        peer.heard_at = now
        peer._ping_s = limits.udp_ping_s
        peer._connect_id = connect_id
        none = wire.SESSION_NONE
        connect = wire.Connect(
            *(wire.CONTROL, 0, True, 0, none, none, limits.udp_bytes_max, peer._window_bytes, CHANNELS),
            *(0, 0, *THROTTLE_TERMS, connect_id, 0),
        )
        peer._outbound.push_control(connect)
        return peer

    # What its owner wants

    @property
    def waiting_bytes(self) -> int:
        """Of payloads that the peer has not acknowledged."""
        return self._outbound.waiting_bytes

    def send(self, payload: bytes) -> None:
        """Send a payload, which arrives."""
        if self.state is PeerState.CONNECTED:
            self._outbound.push(PAYLOADS, payload)

    def send_datagram(self, payload: bytes) -> bool:
        """Send one that may be lost; False if it cannot be sent that way."""
        if self.state is not PeerState.CONNECTED or len(payload) > self.datagram_bytes_max:
            return False
        if not self._throttle.lets_through():
            return True
        if self._unreliable_sent == _UNRELIABLE_SEQ_MAX:
            self._unreliable_sent = 0
            self._outbound.push_next(LATEST, payload)
            return True
        self._unreliable_sent += 1
        if len(self._unreliable) == _DATAGRAMS_MAX:
            del self._unreliable[0]
        self._unreliable.append(
            wire.unreliable(LATEST, self._outbound.last_seq(LATEST), self._unreliable_sent, payload)
        )
        return True

    @property
    def is_ahead(self) -> bool:
        """Whether the other end has sent payloads after one that has not arrived."""
        return self._inbound[PAYLOADS].early_bytes > 0

    @property
    def datagram_bytes_max(self) -> int:
        """The largest payload that can be sent as a datagram."""
        return min(self._limits.datagram_bytes_max, self._mtu - wire.HEAD_BYTES - wire.UNRELIABLE_BYTES)

    def close(self, code: int, reason: str) -> None:
        """Deliver what was sent, then the code and the reason."""
        self.end = (code, reason)
        self._step(PeerStep.CLOSED)
        if self.state is PeerState.CLOSING:
            self._outbound.push(CLOSES, pack_close(code, shorten(reason)))

    def abort(self) -> list[bytes]:
        """End at once; the datagrams tell the peer, if they arrive."""
        if self.state is PeerState.ENDED:
            return []
        is_known = self.state is not PeerState.CONNECTING
        # An acknowledgement behind the farewell could open a connection that nobody knows.
        self._acks.clear()
        self._lose((VANISHED, ""))
        farewell = wire.DisconnectNow(wire.CONTROL, self._outbound.last_seq(wire.CONTROL) + 1 & 0xFFFF, False, 0)
        return [wire.encode(self._peer_id, self._session, None, [farewell])] if is_known else []

    def lost(self) -> None:
        """The system says that the peer is gone."""
        if self.state is not PeerState.ENDED:
            self._lose((VANISHED, ""))

    # Receiving

    def receive(self, datagram: wire.Datagram, now: float) -> int:
        """Process a datagram; how many of its commands took work and brought nothing: no payload, no acknowledgement.

        A datagram without commands counts as one, and so does a fragment before the last.
        """
        if datagram.session != self.session and self.state is not PeerState.CONNECTING:
            return 1
        self.heard_at = now
        idle_count = 0 if datagram.commands else 1
        for command in datagram.commands:
            if self.state is PeerState.ENDED:
                break
            handle = self._HANDLERS[self.state].get(type(command))
            useful, is_accepted = handle(self, command, now) if handle is not None else _IGNORED
            idle_count += not useful
            if is_accepted and command.wants_ack and datagram.time_ms is not None:
                self._acks.append(wire.acknowledge(command.channel, command.seq, datagram.time_ms))
        return idle_count

    # Each says whether a command was of use, and whether it shall be acknowledged.

    def _on_acknowledge(self, command: wire.Acknowledge, now: float) -> _Verdict:
        if (sent := self._outbound.acknowledged(command.channel, command.received_seq)) is None:
            return _IGNORED
        self._is_pinging = False
        if command.channel == PAYLOADS:
            self.taken_bytes += sent.data_bytes
        elapsed_ms = (int(now * 1000) - command.received_time) & 0xFFFF
        if elapsed_ms <= _ROUND_TRIP_MS_MAX:
            self._timed(max(elapsed_ms, 1) / 1000, now)
        if self._outbound.is_empty:
            if self.state is PeerState.CLOSING:
                assert self.end is not None
                self._step(PeerStep.DELIVERED)
                self._outbound.push_control(wire.Disconnect(wire.CONTROL, 0, True, self.end[0]))
            elif self.state is PeerState.DISCONNECTING:
                self._step(PeerStep.ANSWERED)
        return True, False

    def _timed(self, sample_s: float, now: float) -> None:
        self._round_trip.add(sample_s)
        self._throttle.add(sample_s, self._round_trip, now)

    def _on_verify_again(self, _: wire.VerifyConnect, __: float) -> _Verdict:
        return False, True

    def _on_ping(self, _: wire.Command, __: float) -> _Verdict:
        """A ping, or what the other end says of its bandwidth."""
        return False, True

    def _on_verify(self, command: wire.VerifyConnect, now: float) -> _Verdict:
        if command.connect_id != self._connect_id or command.channels < CHANNELS:
            return _IGNORED
        sent = self._outbound.acknowledged(wire.CONTROL, 1)
        if sent is not None and sent.sent_at == sent.first_at:
            self._timed(now - sent.sent_at, now)
        self._peer_id = command.outgoing_peer_id & wire.PEER_ID_NONE
        self._session, self.session = command.outgoing_session & 0x3, command.incoming_session & 0x3
        mtu = min(max(command.mtu, wire.MTU_MIN), self._mtu)
        if mtu < self._mtu:
            self._mtu = mtu
            self._outbound = Outbound(mtu)
        self._window_bytes = min(max(command.window_bytes, wire.WINDOW_MIN), self._window_bytes)
        self._step(PeerStep.VERIFIED)
        return True, True

    def _on_disconnect(self, command: wire.Disconnect, _: float) -> _Verdict:
        if isinstance(command, wire.DisconnectNow):
            their_end = (VANISHED, "") if not command.data else (close_code(command.data), "")
        elif not command.data:
            their_end = (NO_STATUS, "")
        else:
            code, reason = unpack_close(self._close_body)
            their_end = (code, reason) if code == command.data else (close_code(command.data), "")
        self._step(PeerStep.LEFT)
        self.end = self.end or their_end
        self._outbound.drop()
        return True, True

    def _on_reliable(self, command: wire.Reliable | wire.Fragment, _: float) -> _Verdict:
        if command.channel >= CHANNELS:
            return _IGNORED
        inbound = self._inbound[command.channel]
        room_bytes = self._limits.unread_bytes_max - self.unread_bytes if command.channel == PAYLOADS else 0
        count = inbound.accepted_count
        packets: list[bytes] = []
        refusal: _End | None = None
        is_accepted = True
        try:
            is_accepted = inbound.accept(command, packets, room_bytes)
        except TooBig:
            refusal = TOO_BIG, f"a payload may have at most {self._limits.payload_bytes_max} bytes"
        except BrokenFragments as error:
            refusal = BROKEN, str(error)
        if self.state is PeerState.CONNECTED:
            self._deliver(command.channel, packets)
            if refusal is not None:
                self.close(*refusal)
        is_new = inbound.accepted_count != count
        if is_new:
            self.received_bytes += len(command.data)
        return is_new and not is_part(command), is_accepted

    def _deliver(self, channel: int, packets: list[bytes]) -> None:
        if channel == PAYLOADS:
            self.payloads += packets
        elif channel == LATEST:
            if packets:
                # The one that starts the numbers again.
                self._unreliable_seen = 0
                self.datagrams += packets
        elif packets:
            self._close_body = packets[0]

    def _on_unreliable(self, command: wire.Unreliable, _: float) -> _Verdict:
        if command.channel != LATEST:
            return _IGNORED
        applied = (self._inbound[LATEST].next_seq - 1) & 0xFFFF
        is_newer = 0 < (command.unreliable_seq - self._unreliable_seen) & 0xFFFF < _OLD
        if command.seq != applied or not is_newer:
            return _IGNORED
        self._unreliable_seen = command.unreliable_seq
        self.received_bytes += len(command.data)
        self.datagrams.append(command.data)
        return True, False

    # Sending

    def write(self, now: float) -> list[bytes]:
        """The datagrams to send now."""
        commands = self._acks
        self._acks = []
        if self.state is not PeerState.ENDED:
            window_bytes = max(self._window_bytes * self._throttle.value // THROTTLE_MAX, self._mtu)
            due = self._outbound.due(now, self._round_trip.resend_s, window_bytes)
            commands += due
            # In one packet with the frame that opens their channel they come after it.
            if self._unreliable:
                commands += self._unreliable
                self._repeat.newest(self._unreliable[-1], now)
                self._unreliable.clear()
            elif (repeated := self._repeat.take(now)) is not None:
                commands.append(repeated)
            # A path that is full is not filled further.
            if self._throttle.value < THROTTLE_MAX:
                self._repeat.forget()
        return self._pack(commands, int(now * 1000)) if commands else []

    def _pack(self, commands: list[bytes], time_ms: int) -> list[bytes]:
        head = wire.encode_head(self._peer_id, self._session, time_ms)
        if len(commands) == 1:
            return [head + commands[0]]
        datagrams: list[bytes] = []
        parts, size = [head], len(head)
        for command in commands:
            if size + len(command) > self._mtu or len(parts) > _COMMANDS_SENT_MAX:
                datagrams.append(b"".join(parts))
                parts, size = [head], len(head)
            parts.append(command)
            size += len(command)
        datagrams.append(b"".join(parts))
        return datagrams

    def advance(self, now: float) -> None:
        """Time has passed: give up, or ping."""
        if self.state is PeerState.ENDED:
            return
        oldest_at = self._outbound.oldest_at
        if oldest_at is not None and now >= max(oldest_at, self.heard_at) + self._limits.udp_timeout_s:
            self._lose((VANISHED, ""))
        elif self._ping_at is not None and now >= self._ping_at:
            self._is_pinging = True
            self._outbound.push_control(wire.PeerPing(wire.CONTROL, 0, True))

    @property
    def _ping_at(self) -> float | None:
        if self._ping_s is None or self._is_pinging or self.state is not PeerState.CONNECTED:
            return None
        return self.heard_at + self._ping_s

    @property
    def wake_at(self) -> float | None:
        """When to call `advance` and `write` again, if nothing happens before."""
        resend_at, ping_at = self._outbound.resend_at, self._ping_at
        earliest_at = resend_at if ping_at is None or (resend_at is not None and resend_at <= ping_at) else ping_at
        repeat_at = self._repeat.due_at
        if repeat_at is not None and self.state is not PeerState.ENDED:
            return repeat_at if earliest_at is None else min(earliest_at, repeat_at)
        return earliest_at

    def _lose(self, end: _End) -> None:
        self._step(PeerStep.LOST)
        self.end = self.end or end
        self._outbound.drop()

    def _step(self, event: PeerStep) -> None:
        self.state = PEER_TABLE.after(self.state, event)

    _OPEN: ClassVar[_Handlers] = {
        wire.Acknowledge: _on_acknowledge,
        wire.Reliable: _on_reliable,
        wire.Fragment: _on_reliable,
        wire.Unreliable: _on_unreliable,
        wire.PeerPing: _on_ping,
        wire.BandwidthLimit: _on_ping,
        wire.ThrottleConfigure: _on_ping,
        wire.VerifyConnect: _on_verify_again,
        wire.Disconnect: _on_disconnect,
        wire.DisconnectNow: _on_disconnect,
    }
    # What counts in each state; the rest is ignored.
    _HANDLERS: ClassVar[Mapping[PeerState, _Handlers]] = {
        PeerState.CONNECTING: {
            wire.VerifyConnect: _on_verify,
            wire.Disconnect: _on_disconnect,
            wire.DisconnectNow: _on_disconnect,
        },
        PeerState.CONNECTED: _OPEN,
        PeerState.CLOSING: _OPEN,
        PeerState.DISCONNECTING: _OPEN,
        PeerState.ENDED: {},
    }


def is_part(command: wire.Reliable | wire.Fragment) -> bool:
    """Whether more of its packet follows."""
    return isinstance(command, wire.Fragment) and command.index + 1 < command.count


# As in ENet.
_COMMANDS_SENT_MAX = 32
THROTTLE_TERMS = (5000, 2, 2)
