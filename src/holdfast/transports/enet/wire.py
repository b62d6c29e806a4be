"""ENet 1.3 on the wire: a datagram is a header and commands, everything in network byte order.

    header    flags and session (4 bits), peer id (12 bits) · with reliable commands: the sender's clock in ms (16 bits)
    command   number and flags (8 bits), channel (8 bits), reliable sequence number (16 bits), then its own fields

The peer id is the number that the receiver gave to this connection; the session (2 bits) tells a connection from the
one that had the number before. Datagrams with a checksum or compressed ones are refused: both are optional in ENet, and
off unless a program sets them.
"""

import struct
from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

PEER_ID_NONE = 0xFFF
"""The receiver's id, while it has not told one: of a connect."""
SESSION_NONE = 0xFF
"""In a connect: there was no connection before."""
CONTROL = 0xFF
"""The channel of commands that belong to none."""

MTU_MIN = 576
MTU_MAX = 4096
WINDOW_MIN = 4096
WINDOW_MAX = 65_536
CHANNELS_MAX = 255
COMMANDS_MAX = 64
"""Commands in one datagram; ENet itself sends at most 32."""

_HEAD = struct.Struct(">H")
_HEAD_WITH_TIME = struct.Struct(">HH")
_COMMAND = struct.Struct(">BBH")
HEAD_BYTES = _HEAD_WITH_TIME.size
_PEER_ID_MASK = 0x0FFF
_SESSION_SHIFT, _SESSION_MASK = 12, 0x3
_COMPRESSED = 1 << 14
_HAS_TIME = 1 << 15
_WANTS_ACK = 1 << 7
_UNSEQUENCED = 1 << 6
_NUMBER_MASK = 0x0F


class Malformed(ValueError):
    """The bytes are not a datagram of ENet, or one with an option that is not supported."""


class Command(Struct):
    """One command; `seq` is its reliable sequence number on its channel."""

    number: ClassVar[int]
    layout: ClassVar[struct.Struct]
    has_data: ClassVar[bool] = False
    flags: ClassVar[int] = _WANTS_ACK
    """Those with which the command is sent."""

    channel: int
    seq: int
    wants_ack: bool
    """Whether the sender repeats it until it is acknowledged. Only read: each kind is sent with its own `flags`."""


class Acknowledge(Command):
    """A reliable command has arrived: its sequence number, and the clock that came with it."""

    number = 1
    layout = struct.Struct(">HH")
    flags = 0

    received_seq: int
    received_time: int


class Connect(Command):
    """The first command of a connection."""

    number = 2
    layout = struct.Struct(">HBBIIIIIIIIII")

    outgoing_peer_id: int
    incoming_session: int
    outgoing_session: int
    mtu: int
    window_bytes: int
    channels: int
    incoming_bandwidth: int
    outgoing_bandwidth: int
    throttle_interval_ms: int
    throttle_acceleration: int
    throttle_deceleration: int
    connect_id: int
    data: int


class VerifyConnect(Command):
    """The answer to it."""

    number = 3
    layout = struct.Struct(">HBBIIIIIIIII")

    outgoing_peer_id: int
    incoming_session: int
    outgoing_session: int
    mtu: int
    window_bytes: int
    channels: int
    incoming_bandwidth: int
    outgoing_bandwidth: int
    throttle_interval_ms: int
    throttle_acceleration: int
    throttle_deceleration: int
    connect_id: int


class Disconnect(Command):
    """The end, with a number of the application's."""

    number = 4
    layout = struct.Struct(">I")

    data: int


class DisconnectNow(Disconnect):
    """The same without an answer: the sender has already forgotten the connection."""

    flags = _UNSEQUENCED


class PeerPing(Command):
    """Anything there? Its acknowledgement is the answer."""

    number = 5
    layout = struct.Struct("")


class Reliable(Command):
    """A packet that arrives, in the order of its channel."""

    number = 6
    layout = struct.Struct(">H")
    has_data = True

    data: bytes


class Unreliable(Command):
    """A packet that may be lost, and is dropped if it is older than one that has arrived.

    `seq` is that of the last reliable packet before it.
    """

    number = 7
    layout = struct.Struct(">HH")
    has_data = True
    flags = 0

    unreliable_seq: int
    data: bytes


class Fragment(Command):
    """A part of a reliable packet that is larger than a datagram."""

    number = 8
    layout = struct.Struct(">HHIIII")
    has_data = True

    start_seq: int
    count: int
    index: int
    total: int
    offset: int
    data: bytes


class Unsequenced(Command):
    """A packet that may be lost and may overtake others."""

    number = 9
    layout = struct.Struct(">HH")
    has_data = True
    flags = _UNSEQUENCED

    group: int
    data: bytes


class BandwidthLimit(Command):
    """What the sender can take and give, in bytes per second."""

    number = 10
    layout = struct.Struct(">II")

    incoming: int
    outgoing: int


class ThrottleConfigure(Command):
    """How fast the other end shall throttle its unreliable packets."""

    number = 11
    layout = struct.Struct(">III")

    interval_ms: int
    acceleration: int
    deceleration: int


class UnreliableFragment(Fragment):
    """A part of an unreliable packet that is larger than a datagram."""

    number = 12
    flags = 0


# The length of the data is the second field of a fragment's layout, and the last one of the others'.
_LENGTH_INDEX = {Reliable: 0, Unreliable: 1, Unsequenced: 1, Fragment: 1, UnreliableFragment: 1}

_COMMANDS: dict[int, type[Command]] = {
    kind.number: kind
    for kind in (
        Acknowledge,
        Connect,
        VerifyConnect,
        Disconnect,
        PeerPing,
        Reliable,
        Unreliable,
        Fragment,
        Unsequenced,
        BandwidthLimit,
        ThrottleConfigure,
        UnreliableFragment,
    )
}

_OWN_FIELDS = len(Command.__struct_fields__)
COMMAND_BYTES = _COMMAND.size
RELIABLE_BYTES = COMMAND_BYTES + Reliable.layout.size
UNRELIABLE_BYTES = COMMAND_BYTES + Unreliable.layout.size
FRAGMENT_BYTES = COMMAND_BYTES + Fragment.layout.size


class Datagram(Struct):
    """What was received: `time_ms` is the sender's clock, None if it did not say."""

    peer_id: int
    session: int
    time_ms: int | None
    commands: list[Command]


def receiver_of(data: bytes) -> int:
    """The peer id that a datagram is for; `Malformed` if it has no header."""
    if len(data) < _HEAD.size:
        raise Malformed("a datagram without a header")
    return ((data[0] << 8) | data[1]) & _PEER_ID_MASK


def decode(data: bytes, *, first: int = COMMANDS_MAX) -> Datagram:
    """Read a datagram; `Malformed` if it is not whole. With a lower number only its first commands are read."""
    try:
        (head,) = _HEAD.unpack_from(data)
        start, time_ms = _HEAD.size, None
        if head & _HAS_TIME:
            _, time_ms = _HEAD_WITH_TIME.unpack_from(data)
            start = _HEAD_WITH_TIME.size
        if head & _COMPRESSED:
            raise Malformed("compressed datagrams are not supported")
        commands: list[Command] = []
        while start < len(data):
            if len(commands) == first < COMMANDS_MAX:
                break
            if len(commands) == COMMANDS_MAX:
                raise Malformed("too many commands in a datagram")
            command, start = _decode_command(data, start)
            commands.append(command)
    except struct.error:
        raise Malformed("a datagram is truncated") from None
    return Datagram(head & _PEER_ID_MASK, head >> _SESSION_SHIFT & _SESSION_MASK, time_ms, commands)


def _decode_command(data: bytes, start: int) -> tuple[Command, int]:
    first, channel, seq = _COMMAND.unpack_from(data, start)
    kind = _COMMANDS.get(first & _NUMBER_MASK)
    if kind is None:
        raise Malformed("an unknown command")
    start += _COMMAND.size
    values: tuple[int | bytes, ...] = kind.layout.unpack_from(data, start)
    start += kind.layout.size
    if kind.has_data:
        index = _LENGTH_INDEX[kind]
        end = start + int(values[index])
        if end > len(data):
            raise Malformed("a datagram is truncated")
        values = (*values[:index], *values[index + 1 :], data[start:end])
        start = end
    elif kind is Disconnect and first & _UNSEQUENCED:
        kind = DisconnectNow
    return kind(channel, seq, bool(first & _WANTS_ACK), *values), start


def encode_head(peer_id: int, session: int, time_ms: int | None) -> bytes:
    """The header of a datagram; the time is needed if it has a command that wants an acknowledgement."""
    head = peer_id if peer_id == PEER_ID_NONE else peer_id | session << _SESSION_SHIFT
    if time_ms is None:
        return _HEAD.pack(head)
    return _HEAD_WITH_TIME.pack(head | _HAS_TIME, time_ms & 0xFFFF)


def encode_command(command: Command) -> bytes:
    """The bytes of one command."""
    kind = type(command)
    values = [getattr(command, name) for name in kind.__struct_fields__[_OWN_FIELDS:]]
    data = b""
    if kind.has_data:
        data = values.pop()
        values.insert(_LENGTH_INDEX[kind], len(data))
    head = _COMMAND.pack(kind.number | kind.flags, command.channel, command.seq)
    return head + kind.layout.pack(*values) + data


def encode(peer_id: int, session: int, time_ms: int | None, commands: Sequence[Command]) -> bytes:
    """A whole datagram."""
    return encode_head(peer_id, session, time_ms) + b"".join(map(encode_command, commands))


# The same for the commands that are sent all the time: a third of the cost.

_RELIABLE = struct.Struct(">BBHH")
_ACKNOWLEDGE = struct.Struct(">BBHHH")
_UNRELIABLE = struct.Struct(">BBHHH")


def reliable(channel: int, seq: int, data: bytes) -> bytes:
    """A `Reliable` command."""
    return _RELIABLE.pack(Reliable.number | _WANTS_ACK, channel, seq, len(data)) + data


def acknowledge(channel: int, seq: int, time_ms: int) -> bytes:
    """An `Acknowledge` command."""
    return _ACKNOWLEDGE.pack(Acknowledge.number, channel, seq, seq, time_ms)


def unreliable(channel: int, seq: int, unreliable_seq: int, data: bytes) -> bytes:
    """An `Unreliable` command."""
    return _UNRELIABLE.pack(Unreliable.number, channel, seq, unreliable_seq, len(data)) + data
