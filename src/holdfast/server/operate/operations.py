"""The operations of a running node for operators and backends, and the interface of the API that exposes them."""

from dataclasses import dataclass
from typing import Protocol

from holdfast.observability.bus import EventLog
from holdfast.observability.exposition import Exposition
from holdfast.observability.packet_log import PacketLog
from holdfast.server.admission.access import Access
from holdfast.server.health import HealthMonitor
from holdfast.server.operate.accounts import AccountOperations
from holdfast.server.operate.node import NodeOverview
from holdfast.server.operate.players import PlayerOperations
from holdfast.server.operate.rooms import RoomOperations
from holdfast.server.operate.sessions import SessionOperations
from holdfast.server.placement.placements import Placements


@dataclass(frozen=True, slots=True)
class Operations:
    """One node, for its operators: private rooms and codes are shown too. Every refusal is a `holdfast.Refused`."""

    rooms: RoomOperations
    sessions: SessionOperations
    players: PlayerOperations
    access: Access
    accounts: AccountOperations
    placements: Placements
    node: NodeOverview
    health: HealthMonitor
    events: EventLog
    packets: PacketLog
    metrics: Exposition


class OperatorApi(Protocol):
    """An API through which a node is operated: `holdfast.http.api.HttpApi`."""

    @property
    def scheme(self) -> str:
        """The scheme of its URL: "http" or "https"."""

    async def open(self, operations: Operations) -> tuple[str, int]:
        """Start serving; returns the address."""

    async def close(self) -> None:
        """Stop serving."""
