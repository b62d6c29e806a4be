"""Clients that another node relays are told where their session's node is, so that they come to it themselves.

They try that address beside the connection that they have, and lose nothing if it cannot be reached.
"""

import asyncio

from holdfast.cluster.relay import RelayedLink
from holdfast.core.session import Session
from holdfast.schemas.frames import MOVES_NEARER, Notice
from holdfast.schemas.session import NodeAddress
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.connection.connection import LiveConnection


class Advertising:
    """Says this node's own address, if it has one."""

    def __init__(self, node: ClusterNode, address: str) -> None:
        self._node = node
        self._address = address
        self._loop = asyncio.get_running_loop()

    def welcomed(self, connection: LiveConnection, session: Session) -> None:
        """A connection belongs to a session, and is about to be welcomed."""
        if self._address and isinstance(connection.transport, RelayedLink):
            self._loop.call_soon(self._tell, connection, session)

    def _tell(self, connection: LiveConnection, session: Session) -> None:
        link = connection.transport
        if not connection.is_open or connection.session is not session or MOVES_NEARER not in session.features:
            return
        # The workers of one machine have one address.
        if isinstance(link, RelayedLink) and self._node.address_of(link.life) != self._address:
            connection.send(Notice("address", "", NodeAddress(self._address)))
