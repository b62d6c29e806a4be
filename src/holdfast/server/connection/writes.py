"""When connections are written to: what one turn of the event loop produced for a client leaves in one write.

A connection whose own payload is being dealt with counts as dirty meanwhile, and is not added here before that is done
(see `LiveConnection.received`): if the payload moved nobody else, its client is answered at once, without another turn
of the loop.
"""

import asyncio

from holdfast.core.connection import Connection


class Writes:
    """The connections of one node that wait to be written to, or owe an acknowledgement."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, ack_s: float) -> None:
        self._loop = loop
        self._ack_s = ack_s
        self.waiting: list[Connection] = []
        """Who will be written to when this turn of the loop ends."""
        self._owing: list[Connection] = []

    def add(self, connection: Connection) -> None:
        """A connection has something to write."""
        if not self.waiting:
            self._loop.call_soon(self._write_all)
        self.waiting.append(connection)

    def _write_all(self) -> None:
        waiting, self.waiting = self.waiting, []
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
            connection.flush(with_ack=True)
