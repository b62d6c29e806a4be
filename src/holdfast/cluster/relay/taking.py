"""A node takes over the connection of a client that another node of this machine has relayed; see `passing.py`.

state     what comes                                  what is done                                    next
relayed   LinkPassing, with a socket                  LinkTaking; keep what is sent from now on       holding
relayed   LinkPassing, and no socket, or an end       LinkKept                                        relayed
holding   LinkPassed                                  the link goes on over the socket                passed
holding   LinkKept                                    close the socket; relay what was kept           relayed
holding   the link is lost, or cut here               close the socket; the client resumes            over
passed    the socket cannot be used                   the client is lost                              over
"""

import socket
from collections.abc import Callable

from holdfast.schemas.relay import LinkPassing
from holdfast.transports.passed import take_over
from holdfast.transports.port import PassedLink, Receiver, Subprotocol, Transport, TransportLimits


class Taking:
    """The half of the node that takes it, while it holds what is sent to the client."""

    def __init__(self, frame: LinkPassing, sock: socket.socket) -> None:
        self.key = frame.key
        self.held: list[bytes] = []
        self._frame = frame
        self.is_passed = False
        """Whether the connection is this node's alone."""
        self._sock: socket.socket | None = sock

    def drop(self) -> None:
        """The socket is not used, or not any more."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    async def take_over(
        self,
        receiver: Receiver,
        switch: Callable[[Transport], None],
        *,
        peer: str,
        is_encrypted: bool,
        subprotocol: Subprotocol,
        limits: TransportLimits,
    ) -> None:
        """Go on over the socket; `OSError` if that cannot be."""
        sock, self._sock = self._sock, None
        assert sock is not None
        passed = PassedLink(
            subprotocol=subprotocol,
            peer=peer,
            is_encrypted=is_encrypted,
            is_text=self._frame.is_text,
            window_bits=self._frame.window_bits,
        )
        await take_over(sock, passed, receiver, switch, limits=limits)
