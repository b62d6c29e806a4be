"""When connections are written to: what one turn of the event loop produced for a client leaves in one write.

While a payload is dealt with, woken connections wait for its end. If it only moved the client it came from, that one
is answered at once: no second turn of the loop, nothing to gather. Else all are written when the loop's turn ends.
"""

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.connection import Connection

if TYPE_CHECKING:
    from holdfast.server.connection import LiveConnection


class Writes:
    """The connections of one node that wait to be written to, or owe an acknowledgement."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, ack_s: float) -> None:
        self._loop = loop
        self._ack_s = ack_s
        self._waiting: list[LiveConnection] = []
        self._owing: list[Connection] = []
        self._is_due = False
        self.is_receiving = False

    def add(self, connection: "LiveConnection") -> None:
        """A connection has something to write."""
        self._waiting.append(connection)
        if not self._is_due and not self.is_receiving:
            self._is_due = True
            self._loop.call_soon(self._write_all)

    def received(self, connection: "LiveConnection") -> None:
        """A payload of this connection has been dealt with."""
        self.is_receiving = False
        waiting = self._waiting
        if not waiting or self._is_due:
            return
        if len(waiting) == 1 and waiting[0] is connection:
            waiting.clear()
            connection.flush()
        else:
            self._is_due = True
            self._loop.call_soon(self._write_all)

    def _write_all(self) -> None:
        self._is_due = False
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.flush()

    def owe_ack(self, connection: Connection) -> None:
        """Acknowledge within `ack_s`, unless something else is written before."""
        if not connection.owes_ack:
            connection.owes_ack = True
            if not self._owing:
                self._loop.call_later(self._ack_s, self._pay_acks)
            self._owing.append(connection)

    def _pay_acks(self) -> None:
        owing, self._owing = self._owing, []
        for connection in owing:
            connection.owes_ack = False
            connection.wake()
