"""A client process that is killed at any instruction, without a process.

All that others can ever know of a process is what it wrote: to its files, and to the server. So one that is killed at
some instruction is one whose first n - 1 writes had their effect, and the n-th had half of it or none.
"""

from collections.abc import Callable
from typing import Any

import holdfast
from holdfast.client.ways import Dial
from holdfast.testing import MemoryStorage
from holdfast.transports.port import DialError, Receiver, Subprotocol, Transport, TransportLimits


class Life:
    """A process that is killed in its n-th write; without a number, never."""

    def __init__(self, killed_in: int | None) -> None:
        self._left = killed_in
        self.is_over = False
        self._dies: list[Callable[[], None]] = []

    def writes(self) -> bool:
        """Whether a write has its effect."""
        if self._left is not None and not self.is_over:
            self._left -= 1
            if self._left == 0:
                self.is_over = True
                for die in self._dies:
                    die()
        return not self.is_over

    def at_its_end(self, die: Callable[[], None]) -> None:
        """What the kernel does then."""
        self._dies.append(die)


class Disk(MemoryStorage):
    """The storage of one process after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.life = Life(None)

    def append(self, record: bytes) -> None:
        was_over = self.life.is_over
        if self.life.writes():
            super().append(record)
        elif not was_over:
            super().append(record[: len(record) // 2])

    def replace(self, state: bytes) -> None:
        if self.life.writes():
            super().replace(state)

    def remove(self) -> None:
        if self.life.writes():
            super().remove()


class _Wire:
    """A transport whose payloads are lost when the process is dead."""

    def __init__(self, transport: Transport, life: Life) -> None:
        self._transport = transport
        self._life = life
        life.at_its_end(transport.abort)

    def send(self, payload: bytes) -> None:
        if self._life.writes():
            self._transport.send(payload)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Ear:
    """A receiver that is given the wire of a mortal."""

    def __init__(self, receiver: Receiver, life: Life) -> None:
        self._receiver = receiver
        self._life = life

    def opened(self, transport: Transport) -> None:
        self._receiver.opened(_Wire(transport, self._life))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._receiver, name)


def mortal(dial: Dial, life: Life) -> Dial:
    """The way to the server of a process that may die."""

    async def dialled(receiver: Receiver, url: str, subprotocol: Subprotocol, limits: TransportLimits) -> Transport:
        if life.is_over:
            raise DialError("dead", retry=False)
        return await dial(_Ear(receiver, life), url, subprotocol, limits)

    return dialled


class Count(holdfast.Message):
    number: int


class Tally(holdfast.Room[holdfast.PlayerData]):
    """Writes down what comes, and answers it."""

    max_players = 1000
    grace_s = 600.0

    def on_create(self, config: object) -> None:
        self.got: dict[str, list[int]] = {}

    @holdfast.on(Count)
    def counted(self, player: holdfast.Player[holdfast.PlayerData], count: Count) -> None:
        self.got.setdefault(player.id, []).append(count.number)
        player.send(count)


class Notebook:
    """What the program itself keeps: what it handled, and up to where it was told that its messages are sent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.life = Life(None)
        self.player = ""
        self.handled = 0
        self.heard: list[int] = []
        self.told = 0
        self.is_done = False
        self.forgotten: list[int] = []
        """Numbers that `send` had given, and a later life knew nothing of."""

    def begins(self, player: str, sent: int) -> None:
        """A life finds so many messages sent."""
        if not self.life.is_over:
            self.player = player
            self.forgotten += range(sent + 1, self.told + 1)

    def sent(self, number: int) -> None:
        """`send` has returned."""
        if self.life.writes():
            self.told = number

    def done(self) -> None:
        """The work is: a later life has nothing to do."""
        if self.life.writes():
            self.is_done = True

    def handles(self, number: int, message: holdfast.Message) -> None:
        """One message, unless it was handled before."""
        assert isinstance(message, Count)
        if number > self.handled and self.life.writes():
            self.handled = number
            self.heard.append(message.number)
