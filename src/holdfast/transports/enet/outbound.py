"""Reliable commands on their way to the peer: they wait for the window, then for their acknowledgement."""

from collections import deque

from holdfast.transports.enet import wire
from holdfast.transports.enet.pace import after_loss

# Half of the distance at which ENet takes a sequence number for an old one, and a bound for tiny packets.
IN_FLIGHT_MAX = 4096
# A peer that acknowledges nothing must not make us look through thousands of commands every millisecond.
_TOGETHER_S = 0.01


class SentCommand:
    """A command that was written and is not acknowledged."""

    __slots__ = ("command", "data_bytes", "first_at", "resend_s", "sent_at")

    def __init__(self, command: bytes, data_bytes: int) -> None:
        self.command = command
        self.data_bytes = data_bytes
        self.first_at = self.sent_at = self.resend_s = 0.0


class Outbound:
    """Packets in order, the fragments that are made of them, and what was not acknowledged."""

    def __init__(self, mtu: int) -> None:
        self.fragment_bytes_max = mtu - wire.HEAD_BYTES - wire.FRAGMENT_BYTES
        # One that fits into a datagram whole; above this fragments are made.
        self._whole_bytes_max = mtu - wire.HEAD_BYTES - wire.RELIABLE_BYTES
        self._packets: deque[tuple[int, bytes]] = deque()
        # How much of the first packet was made fragments of, and which.
        self._offset = self._index = self._start_seq = 0
        self._urgent: deque[tuple[tuple[int, int], SentCommand]] = deque()
        self._in_flight: dict[tuple[int, int], SentCommand] = {}
        self._seqs: dict[int, int] = {}
        self.waiting_bytes = 0
        """Of packets that are not acknowledged, sent or not."""
        self.in_flight_bytes = 0
        self.resend_at: float | None = None
        """Not later than the next command is due again."""

    @property
    def is_empty(self) -> bool:
        """Whether everything was acknowledged."""
        return not (self._in_flight or self._packets or self._urgent)

    @property
    def oldest_at(self) -> float | None:
        """When the oldest command that was not acknowledged was sent for the first time."""
        return min((sent.first_at for sent in self._in_flight.values()), default=None)

    def push(self, channel: int, packet: bytes) -> None:
        """Send a packet, after those before it."""
        self._packets.append((channel, packet))
        self.waiting_bytes += len(packet)

    def push_control(self, command: wire.Command) -> None:
        """Send a command that belongs to no channel: at once, whatever the window is. It gets its number here."""
        command.seq = self._next_seq(command.channel)
        self._urgent.append(((command.channel, command.seq), SentCommand(wire.encode_command(command), 0)))

    def push_next(self, channel: int, packet: bytes) -> None:
        """Send a packet that fits into a datagram, before those that wait for the window."""
        seq = self._next_seq(channel)
        self._urgent.append(((channel, seq), SentCommand(wire.reliable(channel, seq, packet), len(packet))))
        self.waiting_bytes += len(packet)

    def last_seq(self, channel: int) -> int:
        """The number of the last command that was given one."""
        return self._seqs.get(channel, 0)

    def drop(self) -> None:
        """The peer is gone."""
        self._packets.clear()
        self._urgent.clear()
        self._in_flight.clear()
        self.waiting_bytes = self.in_flight_bytes = 0
        self.resend_at = None

    def acknowledged(self, channel: int, seq: int) -> SentCommand | None:
        """The command of this number has arrived; None if it was none, or known before."""
        sent = self._in_flight.pop((channel, seq), None)
        if sent is not None:
            self.in_flight_bytes -= sent.data_bytes
            self.waiting_bytes -= sent.data_bytes
        return sent

    def due(self, now: float, resend_s: float, window_bytes: int) -> list[bytes]:
        """The commands to write now: those that were lost, and new ones as far as the window goes."""
        commands: list[bytes] = []
        if self.resend_at is not None and now >= self.resend_at:
            self._lost(now, commands)
        while self._urgent:
            self._write(*self._urgent.popleft(), now, resend_s, commands)
        packets, in_flight = self._packets, self._in_flight
        while packets and len(in_flight) < IN_FLIGHT_MAX:
            channel, packet = packets[0]
            size = min(len(packet) - self._offset, self.fragment_bytes_max)
            if self.in_flight_bytes and self.in_flight_bytes + size > window_bytes:
                break
            if len(packet) <= self._whole_bytes_max:
                seq = self._next_seq(channel)
                command = SentCommand(wire.reliable(channel, seq, packet), len(packet))
                packets.popleft()
            else:
                seq = self._next_seq(channel)
                command = self._fragment(channel, packet, seq)
            self._write((channel, seq), command, now, resend_s, commands)
        return commands

    def _fragment(self, channel: int, packet: bytes, seq: int) -> SentCommand:
        if not self._offset:
            self._start_seq, self._index = seq, 0
        count = -(-len(packet) // self.fragment_bytes_max)
        data = packet[self._offset : self._offset + self.fragment_bytes_max]
        fragment = wire.Fragment(
            channel, seq, True, self._start_seq, count, self._index, len(packet), self._offset, data
        )
        self._offset += len(data)
        self._index += 1
        if self._index == count:
            self._offset = 0
            self._packets.popleft()
        return SentCommand(wire.encode_command(fragment), len(data))

    def _write(
        self, key: tuple[int, int], sent: SentCommand, now: float, resend_s: float, commands: list[bytes]
    ) -> None:
        sent.first_at = sent.sent_at = now
        sent.resend_s = resend_s
        self._in_flight[key] = sent
        self.in_flight_bytes += sent.data_bytes
        due_at = now + resend_s
        if self.resend_at is None or due_at < self.resend_at:
            self.resend_at = due_at
        commands.append(sent.command)

    def _lost(self, now: float, commands: list[bytes]) -> None:
        next_at: float | None = None
        # What is due soon goes along: one look at everything in flight serves for a while.
        until = now + _TOGETHER_S
        for sent in self._in_flight.values():
            if until >= sent.sent_at + sent.resend_s:
                sent.sent_at = now
                sent.resend_s = after_loss(sent.resend_s)
                commands.append(sent.command)
            due_at = sent.sent_at + sent.resend_s
            next_at = due_at if next_at is None else min(next_at, due_at)
        self.resend_at = next_at

    def _next_seq(self, channel: int) -> int:
        seq = self._seqs[channel] = (self._seqs.get(channel, 0) + 1) & 0xFFFF
        return seq
