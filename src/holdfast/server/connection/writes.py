"""When connections are written to: everything that one iteration of the event loop produced for a client is one write.

A connection counts as dirty while its own payload is processed, and is added here only afterwards (see
`LiveConnection.received`): if the payload affected no other client, the answer is written at once, in the same
iteration.
"""

import asyncio

from holdfast.core.connection import Connection


class Writes:
    """The connections of one node with something to write, or with an acknowledgement due."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, ack_s: float) -> None:
        self._loop = loop
        self._ack_s = ack_s
        self.waiting: list[Connection] = []
        """The connections to write to at the end of this loop iteration."""
        self._owing: list[Connection] = []

    def add(self, connection: Connection) -> None:
        """The connection has something to write."""
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
