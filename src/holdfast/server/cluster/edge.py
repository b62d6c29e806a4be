"""A client may come to any node: if its session is on another one, its link is relayed there, hello and all.

This node then only carries bytes: it keeps no channel, confirms nothing and uses no token. If the relay ends, that is a
drop like any other, and the client resumes.
"""

import asyncio
from collections.abc import Callable

from holdfast.cluster.membership import MemberChange
from holdfast.cluster.port import BusError
from holdfast.cluster.relay import splice
from holdfast.core.reasons import Reason
from holdfast.logs import get_logger
from holdfast.schemas.frames import Hello
from holdfast.server.cluster.departures import Departures
from holdfast.server.cluster.finder import Unsure
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.cluster.takeover import Takeover
from holdfast.server.connection.connection import RELAY, LiveConnection
from holdfast.server.context import Faults
from holdfast.stores.port import StoreError
from holdfast.transports.port import DialError, TransportLimits

log = get_logger("holdfast.cluster")

_RETRY_S = 0.5


class Edge:
    """Looks for the session of a hello, and relays the client to it."""

    def __init__(
        self,
        node: ClusterNode,
        takeover: Takeover,
        departures: Departures,
        limits: TransportLimits,
        faults: Faults,
        *,
        patience_s: float,
        is_waiting: Callable[[LiveConnection], bool],
        relayed: Callable[[LiveConnection], None],
    ) -> None:
        """A client waits `patience_s` for a node that is silent. `is_waiting` says whether a hello is not answered yet;
        `relayed` is called with each client whose session is elsewhere, before its connection is forwarded.
        """
        self._node = node
        self._takeover = takeover
        self._departures = departures
        self._limits = limits
        self._faults = faults
        self._is_waiting = is_waiting
        self._relayed = relayed
        self._patience_s = patience_s
        self._loop = asyncio.get_running_loop()
        self._changed: asyncio.Future[None] = self._loop.create_future()
        """Done when a node is something else than before."""
        node.watch.on_change.append(self._members_changed)
        self._looking: set[asyncio.Task[None]] = set()
        self.relayed_count = 0

    def stop(self) -> None:
        for task in self._looking:
            task.cancel()

    def look(self, connection: LiveConnection, hello: Hello, session_id: str, is_here: Callable[[], None]) -> None:
        """Relay the client of this hello; if its session is here, or nowhere, call `is_here`."""
        task = self._loop.create_task(self._look(connection, hello, session_id, is_here))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look(
        self, connection: LiveConnection, hello: Hello, session_id: str, is_here: Callable[[], None]
    ) -> None:
        is_relayed = connection.transport_kind == RELAY
        try:
            await self._departures.decided(session_id)
            life = await self._life_of(session_id, must_take=is_relayed)
        except (Unsure, StoreError):
            connection.close(Reason.BUSY, "a node of the cluster does not answer", retry_after_s=_RETRY_S)
            return
        except Exception as error:  # noqa: BLE001 - our bug: logged, counted, contained
            self._faults.report("looking for a session", error, session=session_id)
            connection.close(Reason.INTERNAL)
            return
        if not (connection.is_open and self._is_waiting(connection)):
            return
        if life is None or life == self._node.life:
            is_here()
        elif is_relayed:
            # It has moved on while its client was on the way.
            connection.close(Reason.MOVED, "this session has moved; resume", retry_after_s=0.0)
        else:
            await self._relay(connection, hello, life)

    async def _life_of(self, session_id: str, *, must_take: bool) -> str | None:
        """Where the session is. While a node does not answer that may have it, wait until it does, or is dead: all its
        clients are here by then, and would come again and again.
        """
        deadline = self._loop.time() + self._patience_s
        while True:
            changed = self._changed
            try:
                return await self._takeover.session(session_id, must_take=must_take)
            except Unsure:
                if (left_s := deadline - self._loop.time()) <= 0:
                    raise
                await asyncio.wait([changed], timeout=min(left_s, _RETRY_S))

    def _members_changed(self, _: MemberChange) -> None:
        self._changed.set_result(None)
        self._changed = self._loop.create_future()

    async def _relay(self, connection: LiveConnection, hello: Hello, life: str) -> None:
        heard = connection.stand_still()
        first = connection.codec.payload(hello)
        try:
            receiver = await splice(
                lambda: connection.transport,
                self._node.relay,
                life,
                heard=lambda: [first, *heard.payloads],
                limits=self._limits,
                age_s=self._loop.time() - connection.opened_at,
            )
        except (DialError, BusError) as error:
            log.info("a client could not be relayed", node=life, error=str(error))
            connection.close(Reason.BUSY, "the node of this session does not answer", retry_after_s=_RETRY_S)
            return
        self.relayed_count += 1
        self._relayed(connection)
        connection.forward(receiver)
