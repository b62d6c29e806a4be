"""A fleet that does as it is told, and a desk for placements in front of it, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from itertools import count, groupby
from typing import Any

from holdfast.core.addresses import AddressQuota, AddressShares
from holdfast.core.placement import Queue
from holdfast.schemas.node import NodeInfo
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.requests import PlacedPlayer, StartPlacement
from holdfast.schemas.room import RoomInfo
from holdfast.server.placement import Placements
from holdfast.testing import run

DAY_ONE = 1_800_000_000.0
ANYWHERE = Queue("anywhere", ("*",))


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def story(**fixtures: Any) -> None:
        run(test(**fixtures))

    return story


def a_node(name: str, region: str = "eu", **facts: Any) -> NodeInfo:
    return NodeInfo(
        name, region, **{"is_ready": True, "is_healthy": True, "rooms": 0, "rooms_max": 100, "sessions": 0, **facts}
    )


def a_request(queue: str = "anywhere", *players: str, **rest: Any) -> StartPlacement:
    return StartPlacement(queue, "arena", [PlacedPlayer(player) for player in players], **rest)


class FakeFleet:
    """Nodes that make rooms, at once unless told otherwise."""

    def __init__(self, *nodes: NodeInfo) -> None:
        self.views = {node.name: node for node in nodes}
        self.refusals: dict[str, Exception] = {}
        """What a node says instead of making a room."""
        self.takes_s: dict[str, float] = {}
        """How long a node needs for a room, or for a refusal."""
        self.asked: list[tuple[float, str]] = []
        """When which node was asked for a room."""
        self.rooms: dict[str, str] = {}
        """The rooms there are, and where."""
        self.cannot_give_up: Exception | None = None
        self._numbers = count(1)

    def nodes(self) -> list[NodeInfo]:
        return list(self.views.values())

    async def place(self, node: str, wish: StartPlacement, owner: str, address: str) -> RoomInfo:
        self.asked.append((asyncio.get_running_loop().time(), node))
        await asyncio.sleep(self.takes_s.get(node, 0.0))
        if node in self.refusals:
            raise self.refusals[node]
        room_id = f"room-{next(self._numbers)}"
        self.rooms[room_id] = node
        return RoomInfo(room_id, wish.kind, len(wish.players), wish.max_players or 8, "lobby", wish.properties)

    async def give_up(self, node: str, room_id: str) -> None:
        # As an answer over a network would, it takes a while.
        await asyncio.sleep(0.01)
        if self.cannot_give_up is not None:
            raise self.cannot_give_up
        assert self.rooms.pop(room_id) == node

    @property
    def nodes_asked(self) -> list[str]:
        return [node for _, node in self.asked]


class Desk(Placements):
    """Placements whose every change is written down."""

    def __init__(self, fleet: FakeFleet, *queues: Queue, **limits: Any) -> None:
        loop = asyncio.get_running_loop()
        numbers = count(1)
        self.told: list[tuple[PlacementInfo, str]] = []
        self._news = asyncio.Event()
        super().__init__(
            loop,
            fleet,
            queues=queues or (ANYWHERE,),
            now=loop.time,
            wall_clock=lambda: DAY_ONE + loop.time(),
            make_id=lambda: f"made-{next(numbers)}",
            changed=self._write_down,
            quota=AddressQuota(AddressShares(0.25)),
            **limits,
        )

    def story_of(self, placement_id: str) -> list[str]:
        """The states that were told, in order; not how often, for what is in the way is told too."""
        return [status for status, _ in groupby(info.status for info, _ in self.told if info.id == placement_id)]

    async def end_of(self, placement_id: str) -> PlacementInfo:
        """Wait until a placement is no longer pending."""
        async with asyncio.timeout(3600.0):
            while self.get(placement_id).status == "pending":
                self._news.clear()
                await self._news.wait()
        return self.get(placement_id)

    def _write_down(self, info: PlacementInfo, owner: str) -> None:
        self.told.append((info, owner))
        self._news.set()
