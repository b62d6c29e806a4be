"""Placements: finds a node for a requested room, and retries until one accepts it.

Each pending placement has a task that asks the nodes, best first, and a timer for its timeout. They are independent: a
room that is created after its placement has ended is given up.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from msgspec import structs

from holdfast.core.addresses import AddressQuota
from holdfast.core.errors import Conflict, Invalid, NotFound, Refused, Throttled
from holdfast.core.placement import (
    PLACEMENT_TABLE,
    PlacementEvent,
    PlacementState,
    Queue,
    check_players,
    next_relaxation_s,
    ranking,
    why_nowhere,
)
from holdfast.core.session import PlayerId, Session
from holdfast.logs import get_logger
from holdfast.schemas.frames import sentence
from holdfast.schemas.node import NodeInfo
from holdfast.schemas.placement import PlacementInfo, QueueInfo
from holdfast.schemas.projection import project
from holdfast.schemas.requests import Create, GetPlacement, StartPlacement, StopPlacement
from holdfast.schemas.room import RoomInfo
from holdfast.server.directory.directory import Directory
from holdfast.server.directory.operations import Operation

log = get_logger("holdfast.server")

# Refusals that a node would repeat, however often it is asked.
_FOR_GOOD = (Invalid, NotFound)


class Fleet(Protocol):
    """The nodes on which rooms can be created: this one alone, or those of a cluster."""

    def nodes(self) -> list[NodeInfo]:
        """The current nodes. Rooms that are still being created are not counted: `Placements` counts its own."""

    async def place(self, node: str, request: StartPlacement, owner: str, address: str) -> RoomInfo:
        """Create the room on a node and reserve its players' seats, all or none, for `owner` at `address`.

        Raises only `Refused`: `Invalid` or `NotFound` if the node never can, as when it does not have the kind of room.
        Refused or cancelled, it leaves nothing behind.
        """

    async def give_up(self, node: str, room_id: str) -> None:
        """End a room that `place` created for a placement that has ended meanwhile."""


class OwnFleet:
    """A fleet of one node: this one."""

    def __init__(self, info: Callable[[], NodeInfo], rooms: Directory) -> None:
        self._info = info
        self._rooms = rooms

    def nodes(self) -> list[NodeInfo]:
        return [self._info()]

    async def place(self, node: str, request: StartPlacement, owner: str, address: str) -> RoomInfo:
        kind = self._rooms.types.get(request.kind)
        if kind is not None and len(request.players) > kind.max_players:
            raise Invalid(f"{len(request.players)} players do not fit in a room for {kind.max_players}")
        # Before the room is created, or every attempt would create and end one.
        self._rooms.reserved.check(owner, len(request.players))
        options = {PlayerId(player.id): self._rooms.packed_options(request.kind, player) for player in request.players}
        runner = await self._rooms.create(project(request, Create), owner, address=address)
        try:
            await runner.call(runner.reservations.reserve_placed, options, owner)
            await runner.persistence.saved()
        except BaseException:
            # Also when cancelled: nothing is left behind.
            runner.end("placement_failed")
            raise
        return runner.entry.info(sees_code=True)

    async def give_up(self, node: str, room_id: str) -> None:
        with suppress(NotFound):
            self._rooms.runner(room_id).end("placement_cancelled")


@dataclass(slots=True, eq=False)
class _Placement:
    request: StartPlacement
    owner: str
    address: str
    """The owner's address; empty for an operator."""
    queue: Queue
    info: PlacementInfo
    timeout: asyncio.TimerHandle
    over: asyncio.Future[None]
    started: float
    """On the event loop's clock, like `ended`; the published time is on the wall clock."""
    state: PlacementState = PLACEMENT_TABLE.start
    ended: float = 0.0

    @property
    def is_pending(self) -> bool:
        return self.state is PlacementState.PENDING


class Placements:
    """The placements of one node: starts, reports and stops them."""

    def __init__(  # noqa: PLR0913 - one call site, all but the first two by keyword
        self,
        loop: asyncio.AbstractEventLoop,
        fleet: Fleet,
        *,
        queues: Iterable[Queue],
        now: Callable[[], float],
        wall_clock: Callable[[], float],
        make_id: Callable[[], str],
        changed: Callable[[PlacementInfo, str], None],
        quota: AddressQuota[str],
        pending_max: int = 1000,
        pending_per_owner_max: int = 8,
        kept_max: int = 1000,
        kept_s: float = 600.0,
        retry_s: float = 1.0,
        close_s: float = 2.0,
    ) -> None:
        self._loop = loop
        self.fleet = fleet
        """The nodes; in a cluster all of them."""
        self._now = now
        self._wall_clock = wall_clock
        self._make_id = make_id
        self._changed = changed
        self._quota = quota
        self._pending_max = pending_max
        self._pending_per_owner_max = pending_per_owner_max
        self._kept_max = kept_max
        self._kept_s = kept_s
        self._retry_s = retry_s
        self._close_s = close_s
        self._queues: dict[str, Queue] = {}
        for queue in queues:
            if queue.name in self._queues:
                raise ValueError(f"two queues have the name {queue.name!r}: rename one of them")
            self._queues[queue.name] = queue
        self._pending: dict[str, _Placement] = {}
        # In the order they ended.
        self._ended: dict[str, _Placement] = {}
        # Includes those that have ended while a node was still creating their room.
        self._tasks: dict[_Placement, asyncio.Task[None]] = {}
        self._rooms_under_way: Counter[str] = Counter()
        self._is_closed = False

    # Requests

    def start(self, request: StartPlacement, owner: str = "", address: str = "") -> PlacementInfo:
        """Start a placement; a known `id` returns that placement. An empty `owner` means an operator."""
        self._prune()
        known = self._known(request.id)
        if known is not None:
            if (known.request, known.owner) != (request, owner):
                raise Conflict(f"placement {request.id!r} was started with a different request; use another id")
            return known.info
        self._check(request, owner, address)
        placement = self._open(request, owner, address)
        self._changed(placement.info, owner)
        return placement.info

    def knows(self, placement_id: str) -> bool:
        """Whether this node has the placement, or had it lately."""
        self._prune()
        return self._known(placement_id) is not None

    def get(self, placement_id: str, owner: str | None = None) -> PlacementInfo:
        """The state of a placement; with an owner, only of their own."""
        return self._find(placement_id, owner).info

    def stop(self, placement_id: str, owner: str | None = None) -> PlacementInfo:
        """Stop a pending placement; one that was stopped before stays as it is."""
        placement = self._find(placement_id, owner)
        if placement.is_pending:
            self._end(placement, PlacementEvent.STOPPED, "it was stopped")
        elif placement.state is not PlacementState.CANCELLED:
            raise Conflict(f"placement {placement_id!r} is {placement.state.value}; only a pending one can be stopped")
        return placement.info

    def queues(self) -> list[QueueInfo]:
        """The queues, and how many placements wait in each."""
        pending = Counter(placement.queue.name for placement in self._pending.values())
        return [
            QueueInfo(queue.name, list(queue.destinations), queue.timeout_s, pending[queue.name])
            for queue in self._queues.values()
        ]

    def list(self) -> list[PlacementInfo]:
        """Pending placements and those that ended recently, oldest first."""
        self._prune()
        known = [*self._ended.values(), *self._pending.values()]
        return [placement.info for placement in sorted(known, key=lambda placement: placement.started)]

    async def close(self) -> None:
        """Cancel pending placements, and give up rooms that are still being created."""
        self._is_closed = True
        for placement in list(self._pending.values()):
            self._end(placement, PlacementEvent.STOPPED, "the node is stopping")
        if self._tasks:
            _, late = await asyncio.wait(self._tasks.values(), timeout=self._close_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    # Starting and ending

    def _check(self, request: StartPlacement, owner: str, address: str) -> None:
        if request.queue not in self._queues:
            known = ", ".join(sorted(self._queues)) or "none"
            raise NotFound(f"unknown queue {request.queue!r}; this server has: {known}")
        check_players(request)
        if self._is_closed:
            raise Throttled("this node is stopping")
        if len(self._tasks) >= self._pending_max:
            raise Throttled(f"{len(self._tasks)} placements are pending, which is the limit; try again later")
        own = sum(placement.owner == owner for placement in self._tasks) if owner else 0
        if own >= self._pending_per_owner_max:
            raise Throttled(f"you have {own} pending placements, which is the limit; stop one or wait")
        if self._quota.is_full(address, self._pending_max):
            raise Throttled("too many placements are pending from your address; try again later")

    def _open(self, request: StartPlacement, owner: str, address: str) -> _Placement:
        queue = self._queues[request.queue]
        placement_id = request.id or self._make_id()
        # A player may have chosen the id that would be generated here.
        while self._known(placement_id) is not None:
            placement_id = self._make_id()
        players = [player.id for player in request.players]
        info = PlacementInfo(
            placement_id, queue.name, PLACEMENT_TABLE.start.value, players, started_at=self._wall_clock()
        )
        timeout = self._loop.call_later(queue.timeout_s, self._time_out, placement_id)
        placement = _Placement(request, owner, address, queue, info, timeout, self._loop.create_future(), self._now())
        self._pending[placement_id] = placement
        task = self._tasks[placement] = self._loop.create_task(self._look_for_node(placement))
        self._quota.take(placement_id, address)

        def over(_: object) -> None:
            del self._tasks[placement]
            self._quota.give_back(placement_id)

        task.add_done_callback(over)
        return placement

    def _time_out(self, placement_id: str) -> None:
        placement = self._pending[placement_id]
        last = f": {placement.info.reason}" if placement.info.reason else ""
        self._end(placement, PlacementEvent.EXPIRED, f"no node took it within {placement.queue.timeout_s:g} s{last}")

    def _end(self, placement: _Placement, event: PlacementEvent, reason: str) -> None:
        placement.state = PLACEMENT_TABLE.after(placement.state, event)
        placement.info = structs.replace(
            placement.info, status=placement.state.value, reason=sentence(reason), ended_at=self._wall_clock()
        )
        placement.ended = self._now()
        placement.timeout.cancel()
        placement.over.set_result(None)
        del self._pending[placement.info.id]
        self._ended[placement.info.id] = placement
        self._changed(placement.info, placement.owner)

    def _known(self, placement_id: str) -> _Placement | None:
        return self._pending.get(placement_id) or self._ended.get(placement_id)

    def _find(self, placement_id: str, owner: str | None) -> _Placement:
        self._prune()
        placement = self._known(placement_id)
        if placement is None or owner not in (None, placement.owner):
            raise NotFound(f"there is no placement {placement_id!r}; ended placements are kept for {self._kept_s:g} s")
        return placement

    def _prune(self) -> None:
        ended_before = self._now() - self._kept_s
        while self._ended:
            oldest = next(iter(self._ended.values()))
            if len(self._ended) <= self._kept_max and oldest.ended > ended_before:
                break
            del self._ended[oldest.info.id]

    # Searching for a node. After every await the placement may have ended.

    async def _look_for_node(self, placement: _Placement) -> None:
        waited_s = 0.0
        try:
            while placement.is_pending:
                relaxed_s = next_relaxation_s(placement.queue, waited_s)
                known_reason = placement.info.reason
                await self._ask_nodes(placement, waited_s)
                if not placement.over.done() and placement.info.reason != known_reason:
                    self._changed(placement.info, placement.owner)
                waited_s = max(waited_s, self._now() - placement.started)
                until_s = waited_s + self._retry_s
                if relaxed_s is not None:
                    until_s = min(until_s, max(relaxed_s, waited_s))
                await asyncio.wait([placement.over], timeout=until_s - waited_s)
                # A timer may fire slightly early; a policy that ends at that time has ended.
                waited_s = max(until_s, self._now() - placement.started)
        except Exception:
            log.exception("a placement failed", placement=placement.info.id)
            if placement.is_pending:
                self._end(placement, PlacementEvent.BROKEN, "the placement failed; see the server's log")

    async def _ask_nodes(self, placement: _Placement, waited_s: float) -> None:
        nodes = [
            structs.replace(node, rooms=node.rooms + self._rooms_under_way[node.name]) for node in self.fleet.nodes()
        ]
        players = placement.request.players
        ranked = ranking(placement.queue, nodes, players, waited_s)
        if not ranked:
            self._note(placement, why_nowhere(placement.queue, nodes, players, waited_s))
            return
        is_for_good = True
        for node in ranked:
            # It counts as a room at once, or a burst of placements would all choose the same node.
            self._rooms_under_way[node.name] += 1
            try:
                room = await self.fleet.place(node.name, placement.request, placement.owner, placement.address)
            except Refused as error:
                self._note(placement, str(error))
                is_for_good = is_for_good and isinstance(error, _FOR_GOOD)
            else:
                await self._placed(placement, node.name, room)
            finally:
                # Unlike -= 1, this removes a node that has none.
                self._rooms_under_way -= Counter((node.name,))
            if not placement.is_pending:
                return
        # Only after all were asked: not every node of a fleet has every kind of room.
        if is_for_good:
            self._end(placement, PlacementEvent.BROKEN, placement.info.reason)

    async def _placed(self, placement: _Placement, node: str, room: RoomInfo) -> None:
        if placement.is_pending:
            placement.info = structs.replace(placement.info, node=node, room=room)
            self._end(placement, PlacementEvent.PLACED, "")
            return
        try:
            await self.fleet.give_up(node, room.id)
        except Refused as error:
            log.warning("a room was created too late and could not be ended", room=room.id, node=node, error=error)

    def _note(self, placement: _Placement, reason: str) -> None:
        """Why the placement is still pending."""
        if placement.is_pending:
            placement.info = structs.replace(placement.info, reason=sentence(reason))


class OtherPlacements(Protocol):
    """The placements of the other nodes of a cluster; `Throttled` if one of these does not answer."""

    async def get(self, placement_id: str, owner: str | None) -> PlacementInfo | None:
        """The state of a placement; None if no other node has it."""

    async def stop(self, placement_id: str, owner: str | None) -> PlacementInfo | None:
        """Stop a placement; None if no other node has it."""

    async def start(self, request: StartPlacement, owner: str, address: str) -> PlacementInfo:
        """Start a placement that has an id, once in the whole cluster."""

    async def list(self) -> tuple[list[PlacementInfo], list[str]]:
        """Those of the other nodes, and the names of nodes that did not answer."""


class PlacementDesk:
    """Starts, reports and stops placements, on whichever node they are."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self.others: OtherPlacements | None = None
        """In a cluster: those of the other nodes."""

    async def start(self, request: StartPlacement, owner: str = "", address: str = "") -> PlacementInfo:
        """As `Placements.start`."""
        if self.others is None or not request.id or self._placements.knows(request.id):
            return self._placements.start(request, owner, address)
        return await self.others.start(request, owner, address)

    async def get(self, placement_id: str, owner: str | None = None) -> PlacementInfo:
        """As `Placements.get`."""
        if self.others is not None and not self._placements.knows(placement_id):
            known = await self.others.get(placement_id, owner)
            if known is not None:
                return known
        return self._placements.get(placement_id, owner)

    async def stop(self, placement_id: str, owner: str | None = None) -> PlacementInfo:
        """As `Placements.stop`."""
        if self.others is not None and not self._placements.knows(placement_id):
            known = await self.others.stop(placement_id, owner)
            if known is not None:
                return known
        return self._placements.stop(placement_id, owner)

    def queues(self) -> list[QueueInfo]:
        """The queues, and how many placements wait in each on this node."""
        return self._placements.queues()

    async def list(self) -> tuple[list[PlacementInfo], list[str]]:
        """Those of all nodes, the oldest first, and the names of nodes that did not answer."""
        own = self._placements.list()
        if self.others is None:
            return own, []
        theirs, missing = await self.others.list()
        return sorted([*own, *theirs], key=lambda info: (info.started_at, info.id)), missing


class PlacementOperations:
    """The requests of players about placements, each for their own."""

    def __init__(self, placements: PlacementDesk, rooms: Directory) -> None:
        self._placements = placements
        self._rooms = rooms

    async def start(self, session: Session, request: StartPlacement) -> PlacementInfo:
        self._rooms.check_role(request.kind, session.roles)
        return await self._placements.start(request, session.player_id, session.address)

    async def get(self, session: Session, request: GetPlacement) -> PlacementInfo:
        return await self._placements.get(request.placement, session.player_id)

    async def stop(self, session: Session, request: StopPlacement) -> PlacementInfo:
        return await self._placements.stop(request.placement, session.player_id)

    def table(self) -> dict[str, Operation]:
        return {"get_placement": self.get, "start_placement": self.start, "stop_placement": self.stop}
