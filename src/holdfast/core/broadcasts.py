"""What a room says to many: encoded once per codec, and to the same clients in one turn in one block.

A block stays open during a turn that is not `async def`: nothing else can happen meanwhile. It is closed, and gets its
place in the streams of its clients, when the turn ends, when somebody is spoken to alone, when a message is for others,
and when it is large. So each client hears everything in the order in which it was said.
"""

from collections.abc import Sequence
from typing import Protocol

from holdfast.core.block import Block
from holdfast.core.codec import Codec
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, check_message
from holdfast.core.outlet import Outlet
from holdfast.core.session import Seat
from holdfast.schemas.frames import FRAME_HEAD_BYTES

# At most what a letter of a name takes when it is encoded, and what else a message takes in a block.
_LETTER_BYTES = 6
_HEAD_BYTES = 16


class SpeakingTurns(Protocol):
    """The turns of a room."""

    @property
    def is_at_once(self) -> bool:
        """Whether a turn goes on in which nothing else can happen."""


class Broadcasts:
    """The messages of one room to several seats."""

    __slots__ = ("_agents", "_bytes", "_bytes_max", "_clients", "_seats", "is_open", "turns")

    def __init__(self, limits: Limits) -> None:
        self._bytes_max = min(limits.batch_bytes_max, limits.payload_bytes_max - FRAME_HEAD_BYTES)
        self.turns: SpeakingTurns | None = None
        """None in a room where every message is to leave as it is said."""
        self.is_open = False
        self._seats: Sequence[Seat] = ()
        self._clients: dict[Codec, tuple[Block, list[Outlet]]] = {}
        self._agents: list[Outlet] = []
        # Of the largest block.
        self._bytes = 0

    def say(self, seats: Sequence[Seat], message: Message) -> None:
        """Send reliably to all of them, or to nobody: what one codec cannot carry reaches nobody."""
        check_message(message)
        if not self.is_open or seats != self._seats:
            self.close()
            self._open(seats)
        bodies: dict[Codec, bytes] = {}
        for _, outlets in self._clients.values():
            outlets[0].prepare(message, bodies)
        name = message.wire_name
        size = max(map(len, bodies.values()), default=0) + len(name) * _LETTER_BYTES + _HEAD_BYTES
        if self._bytes and self._bytes + size > self._bytes_max:
            self.close()
            self._open(seats)
        self._bytes += size
        for codec, body in bodies.items():
            self._clients[codec][0].add(name, body)
        for agent in self._agents:
            agent.send(message)
        if self.turns is None or not self.turns.is_at_once:
            self.close()

    def _open(self, seats: Sequence[Seat]) -> None:
        self.is_open = True
        self._seats = seats
        for seat in seats:
            outlet = seat.outlet
            codec = outlet.codec
            if codec is None:
                self._agents.append(outlet)
            elif codec in self._clients:
                self._clients[codec][1].append(outlet)
            else:
                self._clients[codec] = (Block(codec), [outlet])

    def close(self) -> None:
        """What was said has its place in the streams now."""
        if not self.is_open:
            return
        clients = self._clients
        self.drop()
        for block, outlets in clients.values():
            if block.messages:
                for outlet in outlets:
                    outlet.push_block(block)

    def drop(self) -> None:
        """The turn is undone: what is not closed was never said."""
        self.is_open = False
        self._seats, self._clients, self._agents, self._bytes = (), {}, [], 0
