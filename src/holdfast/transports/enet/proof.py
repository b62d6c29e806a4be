"""Datagrams from addresses that nobody has proven: answered with no more bytes than they had, and nothing is kept.

    client   connect                     to no peer id
    server   verify connect              its sequence number and its clock are a cookie: a MAC of the address
    client   acknowledge                 repeats both, as ENet prescribes: only now is there a peer

ENet's own server keeps a peer from the connect on, and repeats its answer. This one cannot, so it asks again for an
acknowledgement that was lost: with a ping that has a cookie, when the client sends its first packet. The server's peer
id for a client is the client's own: it comes with every datagram, and need not be remembered. Peers are told apart by
address and id, so that one socket has more of them than ENet has ids.
"""

from dataclasses import dataclass
from hashlib import blake2b

from holdfast.transports.enet import wire
from holdfast.transports.enet.peer import CHANNELS
from holdfast.transports.port import BROKEN, GOING_AWAY, TransportLimits

SECRET_BYTES = 32
# An acknowledgement comes within one to two of these.
_COOKIE_S = 8.0
STRANGERS_COMMANDS_MAX = 4
"""Commands that are looked at: ENet sends an acknowledgement first. Each may be a guess at a cookie."""
# The sizes of packets that a cookie can tell; a client with another gets the next smaller one.
_MTUS = (wire.MTU_MIN, 1024, 1200, 1392)
_MTU_SHIFT = 14
_SESSIONS = 4


@dataclass(frozen=True, slots=True)
class Proven:
    """The address has proven itself: it may have a peer."""

    peer_id: int
    session: int
    mtu: int


class AddressProof:
    """What a server answers to strangers."""

    def __init__(self, secret: bytes, limits: TransportLimits) -> None:
        self._secret = secret
        self._mtus = tuple(mtu for mtu in _MTUS if mtu <= limits.udp_bytes_max)
        self._window_bytes = min(max(limits.unacked_bytes_max, wire.WINDOW_MIN), wire.WINDOW_MAX)
        self.is_closed = False
        """Nobody new is let in."""

    def answer(
        self, datagram: wire.Datagram, address: str, now: float, *, size: int, taken_session: int | None
    ) -> bytes | Proven | None:
        """The answer to a datagram of this size, if there is one; or that its sender has proven the address.

        `taken_session` is that of the peer which has this address and id.
        """
        answer = self._answer(datagram, address, now, taken_session)
        # Never more than came: nobody can use this server to flood somebody else's address.
        return None if isinstance(answer, bytes) and len(answer) > size else answer

    def _answer(
        self, datagram: wire.Datagram, address: str, now: float, taken_session: int | None
    ) -> bytes | Proven | None:
        peer_id, session = datagram.peer_id, datagram.session
        if peer_id == wire.PEER_ID_NONE:
            first = datagram.commands[0] if datagram.commands else None
            return self._connect(first, address, now, taken_session) if isinstance(first, wire.Connect) else None
        if session == taken_session:
            return None
        for command in datagram.commands[:STRANGERS_COMMANDS_MAX]:
            match command:
                case wire.Acknowledge(channel=wire.CONTROL):
                    mtu = self._read(command, f"{address} {peer_id} {session}", now)
                    if mtu is not None and not self.is_closed:
                        return Proven(peer_id, session, mtu)
                case wire.Reliable() | wire.Fragment() if not self.is_closed:
                    seq, time_ms = self._cookie(f"{address} {peer_id} {session}", 0, now)
                    return wire.encode(peer_id, session, time_ms, [wire.PeerPing(wire.CONTROL, seq, True)])
                case wire.Disconnect(wants_ack=True) if datagram.time_ms is not None:
                    # The end of a connection that is forgotten here.
                    ack = wire.acknowledge(command.channel, command.seq, datagram.time_ms)
                    return wire.encode_head(peer_id, session, None) + ack
        return None

    def _connect(self, connect: wire.Connect, address: str, now: float, taken_session: int | None) -> bytes | None:
        peer_id = connect.outgoing_peer_id
        if peer_id >= wire.PEER_ID_NONE or not wire.MTU_MIN <= connect.mtu <= wire.MTU_MAX:
            return None
        if self.is_closed or connect.channels < CHANNELS:
            code = GOING_AWAY if self.is_closed else BROKEN
            return wire.encode(peer_id, 0, None, [wire.DisconnectNow(wire.CONTROL, 1, False, code)])
        # Not that of the connection before: its late datagrams must not be taken for those of this one.
        used = {connect.incoming_session, connect.outgoing_session, taken_session}
        session = next(each for each in range(_SESSIONS) if each not in used)
        size = max(index for index, mtu in enumerate(self._mtus) if mtu <= connect.mtu)
        seq, time_ms = self._cookie(f"{address} {peer_id} {session}", size, now)
        verify = wire.VerifyConnect(
            *(wire.CONTROL, seq, True, peer_id, session, session, self._mtus[size], self._window_bytes, CHANNELS),
            *(0, 0),
            # A client refuses other terms than its own.
            *(connect.throttle_interval_ms, connect.throttle_acceleration, connect.throttle_deceleration),
            connect.connect_id,
        )
        return wire.encode(peer_id, session, time_ms, [verify])

    def _cookie(self, holder: str, size: int, now: float, *, age: int = 0) -> tuple[int, int]:
        """What only the holder of the address can repeat: a sequence number, with the MTU's index, and a clock."""
        text = f"{holder} {size} {int(now / _COOKIE_S) - age}"
        mac = int.from_bytes(blake2b(text.encode(), key=self._secret, digest_size=4).digest(), "big")
        return size << _MTU_SHIFT | mac >> 18, mac & 0xFFFF

    def _read(self, command: wire.Acknowledge, holder: str, now: float) -> int | None:
        """The MTU that the cookie names, if it is one."""
        size = command.received_seq >> _MTU_SHIFT
        if size >= len(self._mtus):
            return None
        repeated = (command.received_seq, command.received_time)
        good = repeated in (self._cookie(holder, size, now), self._cookie(holder, size, now, age=1))
        return self._mtus[size] if good else None
