"""Placements of all nodes: each belongs to the node on which it was started, and is found from every other one.

One with an id of its own is started on the node that a hash of the id names, so that two nodes do not start it twice.
"""

from collections.abc import Callable

from holdfast.cluster.rendezvous import next_owner
from holdfast.core.errors import Refused, Throttled, refusal
from holdfast.core.limits import Limits
from holdfast.schemas.placement import PlacementInfo
from holdfast.schemas.requests import StartPlacement
from holdfast.schemas.shared import KnownPlacement, PlacementAsked, PlacementStarted
from holdfast.server.cluster.asking import Asking, Gone
from holdfast.server.cluster.node import ClusterNode
from holdfast.server.placement import Placements

_GET, _STOP, _START, _STARTED = "get_placement", "stop_placement", "start_placement", "started_placement"
_LIST = "list_placements"
_TRIES_MAX = 3


class SharedPlacements:
    """What this node tells the others of its placements, and asks of theirs; `OtherPlacements`."""

    def __init__(self, node: ClusterNode, asking: Asking, placements: Placements, limits: Limits) -> None:
        self._node = node
        self._asking = asking
        self._placements = placements
        self._limits = limits
        asking.answer(_GET, PlacementAsked, lambda asked: self._known(asked.id, placements.get, asked.id, asked.owner))
        asking.answer(
            _STOP, PlacementAsked, lambda asked: self._known(asked.id, placements.stop, asked.id, asked.owner)
        )
        asking.answer(_STARTED, PlacementStarted, self._started_here)
        asking.answer(_START, PlacementStarted, self._start_here)
        asking.answer(_LIST, bool, lambda _: placements.list())

    # On the node that was asked by a client

    async def get(self, placement_id: str, owner: str | None) -> PlacementInfo | None:
        return await self._find(_GET, PlacementAsked(placement_id, owner))

    async def stop(self, placement_id: str, owner: str | None) -> PlacementInfo | None:
        return await self._find(_STOP, PlacementAsked(placement_id, owner))

    async def start(self, request: StartPlacement, owner: str, address: str) -> PlacementInfo:
        started = PlacementStarted(request, owner, address)
        for _ in range(_TRIES_MAX):
            life = next_owner(f"placement\0{request.id}", self._node.able(request.kind)) or self._node.life
            try:
                return await self._asking.ask(life, _START, started, PlacementInfo, within_s=self._limits.silent_s)
            except Gone:
                continue
        raise Throttled("nodes of the cluster have just gone; try again in a moment")

    async def list(self) -> tuple[list[PlacementInfo], list[str]]:
        replies = await self._node.questions.ask_all(_LIST, True, list[PlacementInfo], self._limits.operator_answer_s)
        found = [info for infos in replies.by_life.values() for info in infos]
        return found, sorted(map(self._node.name_of, replies.missing))

    async def _find(self, question: str, asked: PlacementAsked | PlacementStarted) -> PlacementInfo | None:
        """The answer of the node that has it; None if no node has."""
        replies = await self._node.questions.ask_all(question, asked, KnownPlacement)
        for known in replies.by_life.values():
            if known.code:
                raise refusal(known.code, known.message)
            if known.info is not None:
                return known.info
        if replies.missing:
            names = ", ".join(sorted(map(self._node.name_of, replies.missing)))
            raise Throttled(f"a node of the cluster does not answer ({names}); try again in a moment")
        return None

    # On the node of a placement

    async def _start_here(self, started: PlacementStarted) -> PlacementInfo:
        if not self._placements.knows(started.request.id):
            # Another node decided when there were other nodes.
            known = await self._find(_STARTED, started)
            if known is not None:
                return known
        return self._placements.start(started.request, started.owner, started.address)

    def _started_here(self, started: PlacementStarted) -> KnownPlacement:
        # It is known: the same request gets it, a different one is refused.
        start = self._placements.start
        return self._known(started.request.id, start, started.request, started.owner, started.address)

    def _known(self, placement_id: str, act: Callable[..., PlacementInfo], *args: object) -> KnownPlacement:
        if not self._placements.knows(placement_id):
            return KnownPlacement()
        try:
            return KnownPlacement(act(*args))
        except Refused as why:
            return KnownPlacement(code=why.code, message=str(why))
