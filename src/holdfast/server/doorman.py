"""The doorman: who may come in and knock, before anybody knows who they are."""

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.reasons import Reason
from holdfast.server.connection import LiveConnection

if TYPE_CHECKING:
    from holdfast.server.node import Node


class Doorman:
    """Counts strangers, hellos and wrong credentials, by address and in all; spreads a storm over time."""

    def __init__(self, node: "Node", loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop

    def came(self, connection: LiveConnection) -> bool:
        """A link is up: whether it may stay; if not, it was told why."""
        limits = self._node.limits
        if len(self._node.connections) >= limits.connections_max:
            self._node.counters.connections_refused += 1
            connection.close(Reason.BUSY, "this node is full", retry_after_s=limits.hello_s)
            return False
        return True

    def wait_s(self, connection: LiveConnection, *, is_resume: bool) -> float:
        """How long the sender of a hello has to wait before it is looked at; 0 if it is at once."""
        return 0.0

    def failed(self, connection: LiveConnection) -> None:
        """A credential proved nothing."""

    def known(self, connection: LiveConnection) -> None:
        """A stranger has said who it is."""

    def gone(self, connection: LiveConnection) -> None:
        """A link has ended."""
