"""Placement: which node of the fleet is best for a new room, and the states of a placement.

A destination of a queue is one of
    "node-1"        the node of that name
    "region:eu"     every node of that region
    "*"             every node
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, inf
from operator import attrgetter
from typing import Literal, get_args

from holdfast.core.errors import Invalid
from holdfast.core.tables import Table, TableEnum
from holdfast.schemas.frames import NAME_CHARS_MAX
from holdfast.schemas.node import NodeInfo
from holdfast.schemas.requests import PlacedPlayer, StartPlacement

ANY_NODE = "*"
REGION = "region:"

# Players wait for a placement in front of a screen.
TIMEOUT_S_MAX = 3600.0

Priority = Literal["latency", "load", "order"]
"""latency: the lowest average. load: the least full. order: by their order in the queue."""
_PRIORITIES = get_args(Priority)


class PlacementState(TableEnum):
    """The states of a placement."""

    PENDING = "pending"
    FULFILLED = "fulfilled"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    FAILED = "failed"


class PlacementEvent(TableEnum):
    """The events of a placement."""

    PLACED = "placed"
    STOPPED = "stopped"
    EXPIRED = "expired"
    BROKEN = "broken"


_S, _E = PlacementState, PlacementEvent

PLACEMENT_TABLE = Table(
    "placement",
    _S.PENDING,
    {
        _S.PENDING: {
            _E.PLACED: _S.FULFILLED,
            _E.STOPPED: _S.CANCELLED,
            _E.EXPIRED: _S.TIMED_OUT,
            _E.BROKEN: _S.FAILED,
        },
        _S.FULFILLED: {},
        _S.CANCELLED: {},
        _S.TIMED_OUT: {},
        _S.FAILED: {},
    },
)


@dataclass(frozen=True, slots=True)
class LatencyPolicy:
    """For `for_s`, only nodes that every player reaches within `max_ms`; without `for_s` until the queue times out."""

    max_ms: float
    for_s: float = inf

    def __post_init__(self) -> None:
        if not _is_above_zero(self.max_ms) or self.max_ms == inf:
            raise ValueError(f"max_ms must be a number of milliseconds above 0, as in 80; got {self.max_ms!r}")
        if not _is_above_zero(self.for_s):
            raise ValueError(f"for_s must be a number of seconds above 0, as in 10; got {self.for_s!r}")


@dataclass(frozen=True, slots=True)
class Queue:
    """Where placements may go, how long they are tried, and which node is best.

    The policies apply one after the other, from the lowest `max_ms` up; after the last one every destination is
    allowed.
    """

    name: str
    destinations: tuple[str, ...]
    timeout_s: float = 60.0
    latency_policies: tuple[LatencyPolicy, ...] = ()
    priority: tuple[Priority, ...] = ("latency", "load", "order")
    """The first criterion, the second for equal nodes, and so on; finally the order, then the node's name."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= NAME_CHARS_MAX:
            raise ValueError(f"a queue's name must have 1 to {NAME_CHARS_MAX} characters; got {self.name!r}")
        if not _is_above_zero(self.timeout_s) or self.timeout_s > TIMEOUT_S_MAX:
            raise ValueError(
                f"timeout_s of queue {self.name!r} must be a number of seconds above 0, at most {TIMEOUT_S_MAX:g}; "
                f"got {self.timeout_s!r}"
            )
        for setting, example in (
            ("destinations", '("region:eu", "*")'),
            ("latency_policies", "(LatencyPolicy(80, 10),)"),
            ("priority", '("latency", "load", "order")'),
        ):
            if not isinstance(getattr(self, setting), tuple):
                raise ValueError(f"{setting} of queue {self.name!r} must be a tuple, as in {example}")  # noqa: TRY004 - every mistake in a setting is a ValueError
        self._check_destinations()
        self._check_policies()
        if not set(self.priority) <= set(_PRIORITIES) or len(set(self.priority)) < len(self.priority):
            raise ValueError(
                f"priority of queue {self.name!r} takes {', '.join(_PRIORITIES)}, each once; got {self.priority!r}"
            )

    def _check_destinations(self) -> None:
        if not self.destinations:
            raise ValueError(f'queue {self.name!r} needs a destination: the name of a node, "region:eu", or "*"')
        for destination in self.destinations:
            if destination in ("", REGION):
                raise ValueError(
                    f'a destination of queue {self.name!r} must be the name of a node, "region:eu", or "*"; '
                    f"got {destination!r}"
                )
            if self.destinations.count(destination) > 1:
                raise ValueError(f"queue {self.name!r} has the destination {destination!r} twice: remove one")

    def _check_policies(self) -> None:
        opens_s = 0.0
        caps_ms = set()
        for policy in sorted(self.latency_policies, key=attrgetter("max_ms")):
            if policy.max_ms in caps_ms:
                raise ValueError(f"queue {self.name!r} has two latency policies of {policy.max_ms:g} ms: remove one")
            if opens_s >= self.timeout_s:
                raise ValueError(
                    f"the latency policy of {policy.max_ms:g} ms of queue {self.name!r} would begin when the queue has "
                    "timed out: shorten for_s of those before it, or raise timeout_s"
                )
            caps_ms.add(policy.max_ms)
            opens_s += policy.for_s


def check_players(request: StartPlacement) -> None:
    """Refuse players who cannot all get a seat on any node."""
    for player, times in Counter(player.id for player in request.players).items():
        if times > 1:
            raise Invalid(f"player {player!r} is named {times} times; name each player once")
    if request.max_players is not None and len(request.players) > request.max_players:
        raise Invalid(f"{len(request.players)} players do not fit in a room for {request.max_players}")


def ranking(
    queue: Queue, nodes: Sequence[NodeInfo], players: Sequence[PlacedPlayer], waited_s: float
) -> list[NodeInfo]:
    """The nodes that can take the room after this wait, best first.

    While a latency policy applies, a player without a latency for a node's region counts as too far from it. The
    average ignores such players; regions without any latency come after the known ones.
    """
    cap_ms, _ = _stage(queue, waited_s)
    ranked = []
    for node in nodes:
        position = _position(queue, node)
        if position is not None and not _obstacle(node, players, cap_ms):
            ranked.append((_rank(queue, node, players, position), node))
    ranked.sort(key=lambda ranked_node: ranked_node[0])
    return [node for _, node in ranked]


def why_nowhere(queue: Queue, nodes: Sequence[NodeInfo], players: Sequence[PlacedPlayer], waited_s: float) -> str:
    """Why the ranking is empty, in a sentence for people, including unhealthy and full nodes."""
    cap_ms, _ = _stage(queue, waited_s)
    obstacles = Counter(_obstacle(node, players, cap_ms) for node in nodes if _position(queue, node) is not None)
    counted = ", ".join(f"{count} {obstacle}" for obstacle, count in sorted(obstacles.items()))
    return f"no node can take it: {counted or f'the fleet has no destination of queue {queue.name!r}'}"


def next_relaxation_s(queue: Queue, waited_s: float) -> float | None:
    """The total wait after which the present latency policy ends; None if there is none."""
    until_s = _stage(queue, waited_s)[1]
    return until_s if until_s < inf else None


def _stage(queue: Queue, waited_s: float) -> tuple[float, float]:
    """The limit on every player's latency after this wait, and the wait that lifts it."""
    until_s = 0.0
    for policy in sorted(queue.latency_policies, key=attrgetter("max_ms")):
        until_s += policy.for_s
        if waited_s < until_s:
            return policy.max_ms, until_s
    return inf, inf


def _position(queue: Queue, node: NodeInfo) -> int | None:
    """The index of the first destination that includes this node."""
    names = (node.name, REGION + node.region, ANY_NODE)
    return next((at for at, destination in enumerate(queue.destinations) if destination in names), None)


def _obstacle(node: NodeInfo, players: Sequence[PlacedPlayer], cap_ms: float) -> str:
    if not node.is_ready:
        return "not ready"
    if not node.is_healthy:
        return "not healthy"
    if node.rooms >= node.rooms_max:
        return "full"
    if any(player.latencies_ms.get(node.region, inf) > cap_ms for player in players):
        return "too far from a player"
    return ""


def _rank(queue: Queue, node: NodeInfo, players: Sequence[PlacedPlayer], position: int) -> tuple[float | str, ...]:
    reported_ms = [player.latencies_ms[node.region] for player in players if node.region in player.latencies_ms]
    by: dict[Priority, float] = {
        "latency": fsum(reported_ms) / len(reported_ms) if reported_ms else inf,
        "load": node.rooms / node.rooms_max,
        "order": position,
    }
    return (*(by[priority] for priority in queue.priority), position, node.name)


def _is_above_zero(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
