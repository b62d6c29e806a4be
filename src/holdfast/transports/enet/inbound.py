"""The reliable packets of one channel: put into order, and together again if they came in fragments."""

from holdfast.transports.enet.wire import Fragment, Reliable

# A number that is further ahead than this is an old one, as in ENet.
_AHEAD_MAX = 7 * 4096
_OLD = 0x8000
# An empty packet that came too early costs memory, too.
_COMMAND_OVERHEAD_BYTES = 128


class BrokenFragments(ValueError):
    """The peer broke the rules of fragments."""


class TooBig(ValueError):
    """A packet is larger than allowed."""


class Inbound:
    """Accepts commands in any order, and gives packets in that in which they were sent."""

    def __init__(self, packet_bytes_max: int) -> None:
        self.next_seq = 1
        self._packet_bytes_max = packet_bytes_max
        self._early: dict[int, Reliable | Fragment] = {}
        self._partial: bytearray | None = None
        self._first: Fragment | None = None
        self.accepted_count = 0
        """Of commands, each once."""
        self.early_bytes = 0
        """What the commands cost that wait for one before them."""

    def accept(self, command: Reliable | Fragment, packets: list[bytes], room_bytes: int) -> bool:
        """Take a command, and add the packets that are whole now; False if it must be sent again later.

        There is room for so many bytes that wait. The next command in order needs none, unless it is negative.
        """
        ahead = (command.seq - self.next_seq) & 0xFFFF
        if not ahead:
            if room_bytes < 0:
                return False
            self.accepted_count += 1
            self._put(command, packets)
            while self._early and (following := self._early.pop(self.next_seq, None)) is not None:
                self.early_bytes -= len(following.data) + _COMMAND_OVERHEAD_BYTES
                self._put(following, packets)
            return True
        if ahead >= _OLD or command.seq in self._early:
            return True  # it was accepted before; its acknowledgement was lost
        cost_bytes = len(command.data) + _COMMAND_OVERHEAD_BYTES
        if ahead >= _AHEAD_MAX or self.early_bytes + cost_bytes > room_bytes:
            return False
        self._early[command.seq] = command
        self.accepted_count += 1
        self.early_bytes += cost_bytes
        return True

    def _put(self, command: Reliable | Fragment, packets: list[bytes]) -> None:
        self.next_seq = (self.next_seq + 1) & 0xFFFF
        if isinstance(command, Fragment):
            self._put_fragment(command, packets)
            return
        if self._partial is not None:
            raise BrokenFragments("a packet came between two fragments of another")
        if len(command.data) > self._packet_bytes_max:
            raise TooBig
        packets.append(command.data)

    def _put_fragment(self, fragment: Fragment, packets: list[bytes]) -> None:
        if fragment.total > self._packet_bytes_max:
            raise TooBig
        if not fragment.data:
            raise BrokenFragments("a fragment is empty")
        if self._partial is None:
            self._partial, self._first = bytearray(), fragment
            if fragment.index or fragment.seq != fragment.start_seq or not fragment.count:
                raise BrokenFragments("a packet does not begin with its first fragment")
        first, partial = self._first, self._partial
        assert first is not None
        is_next = (
            fragment.offset == len(partial)
            and (fragment.seq - fragment.start_seq) & 0xFFFF == fragment.index & 0xFFFF
            and (fragment.start_seq, fragment.count, fragment.total) == (first.start_seq, first.count, first.total)
        )
        if not is_next or len(partial) + len(fragment.data) > fragment.total:
            raise BrokenFragments("fragments do not belong together")
        partial += fragment.data
        if fragment.index + 1 == fragment.count:
            if len(partial) != fragment.total:
                raise BrokenFragments("a packet lacks a part")
            packets.append(bytes(partial))
            self._partial = self._first = None
