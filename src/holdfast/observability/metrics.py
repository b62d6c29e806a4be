"""Reads what a node has counted and measured, when somebody asks: nothing is worked out before.

What is there now, sessions, connections, rooms and seats, is counted on the spot and in slices, so that the games do
not wait for it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from enum import Enum
from functools import cache
from heapq import nsmallest
from typing import TYPE_CHECKING, TypeVar, get_args

from holdfast.core.connection import ConnectionState
from holdfast.core.histogram import Histogram
from holdfast.core.metrics import Metric, Reading, Spread
from holdfast.core.player import SeatState
from holdfast.core.room import Phase
from holdfast.core.session import Session, SessionState
from holdfast.core.tally import OTHER
from holdfast.observability import catalogue
from holdfast.schemas.events import ROOM_FAILURES

if TYPE_CHECKING:
    from holdfast.server.node import Node

T = TypeVar("T")
S = TypeVar("S", bound=Enum)
Labels = tuple[str, ...]

# So many are looked at before the games have their turn.
_LOOKED_AT_ONCE = 500
_CONNECTION_STATES = (ConnectionState.CONNECTING, ConnectionState.CONNECTED, ConnectionState.IN_GAME)
_SEAT_STATES = (SeatState.RESERVED, SeatState.TAKEN, SeatState.HELD)
_SESSION_STATES = (SessionState.PRECONNECT, SessionState.CONNECTED, SessionState.DISCONNECTED)


async def read_metrics(node: "Node", *, sessions_max: int = 0) -> list[Reading]:
    """Every metric of the catalogue as it is now; those of single sessions for at most so many of them."""
    there = await _there(node)
    return [*_of_node(node), *there, *_counted(node), *_measured(node), *_of_sessions(node, sessions_max)]


def _of_node(node: "Node") -> list[Reading]:
    limits, committer = node.limits, node.committer
    most = {"connections": limits.connections_max, "sessions": limits.sessions_max, "rooms": limits.rooms_max}
    return [
        _reading(catalogue.NODE_INFO, {(node.name, node.region, holdfast_version()): 1}),
        _reading(catalogue.READY, {(): node.health.is_ready}),
        _reading(catalogue.HEALTHY, {(): node.health.is_healthy}),
        _reading(catalogue.CAPACITY, {(of,): each for of, each in most.items()}),
        _reading(catalogue.STORE_FAILING, {(): committer is not None and committer.is_failing}),
    ]


async def _there(node: "Node") -> list[Reading]:
    """What is there now. Who has gone since the first slice does not count."""
    sessions: Counter[Labels] = Counter()
    async for some in slices(node.sessions):
        _count(sessions, (), [session.state for session in some], _SESSION_STATES)
    connections: Counter[Labels] = Counter()
    async for links in slices(node.connections.values()):
        for (transport,) in node.meters.opened.counts():
            states = [link.state for link in links if link.transport_kind == transport]
            _count(connections, (transport,), states, _CONNECTION_STATES)
    kinds = node.rooms.kinds
    rooms: Counter[Labels] = Counter()
    seats: Counter[Labels] = Counter()
    async for hosts in slices(node.rooms.hosts()):
        for kind in kinds:
            of_kind = [host.room for host in hosts if host.room.kind == kind]
            for phase in get_args(Phase):
                rooms[kind, phase] += sum(room.phase == phase for room in of_kind)
            _count(seats, (kind,), [seat.seat for room in of_kind for seat in room.seats], _SEAT_STATES)
            seats[kind, SeatState.RESERVED.value] += sum(room.reservations.waiting for room in of_kind)
    return [
        _reading(catalogue.SESSIONS, sessions),
        _reading(catalogue.CONNECTIONS, connections),
        _reading(catalogue.ROOMS, rooms),
        _reading(catalogue.SEATS, seats),
    ]


def _count(counts: Counter[Labels], of: Labels, states: list[S], known: tuple[S, ...]) -> None:
    """Add how often each known state is in a list."""
    # By identity: to hash a member of an enum, or to ask for its value, takes as long as to look at ten of them.
    for state in known:
        counts[*of, str(state.value)] += sum(each is state for each in states)


async def slices(things: Iterable[T]) -> AsyncIterator[list[T]]:
    """All of them, as they are now; the games go on in between. One that is empty if there is nothing."""
    everything = list(things)
    for start in range(0, max(1, len(everything)), _LOOKED_AT_ONCE):
        if start:
            await asyncio.sleep(0)
        yield everything[start : start + _LOOKED_AT_ONCE]


def _counted(node: "Node") -> list[Reading]:
    counters, meters = node.counters, node.meters
    # At zero from the start: what first appears as 1 has not grown, and no alert would tell of it.
    none_yet: dict[Labels, int] = {(kind,): 0 for kind in node.rooms.kinds}
    none_failed: dict[Labels, int] = {(kind, why): 0 for kind in (*node.rooms.kinds, OTHER) for why in ROOM_FAILURES}
    outcomes = {"resumed": counters.resumed, "resynced": counters.resynced, "reset": counters.reset}
    frames = {"received": counters.frames_received, "sent": counters.frames_sent}
    sizes = {"received": counters.bytes_received, "sent": counters.bytes_sent}
    throttled = {
        "hello": counters.hellos_throttled,
        "message": counters.messages_throttled,
        "latest": counters.latest_throttled,
        "request": counters.requests_throttled,
    }
    effects = {"done": counters.effects_done, "failed": counters.effects_failed}
    return [
        *(_reading(metric, {(): getattr(counters, name)}) for name, metric in catalogue.PLAIN.items()),
        _reading(catalogue.EVENTS_LOST, {(): node.bus.lost}),
        _reading(catalogue.ENDS, meters.ends.counts()),
        _reading(catalogue.DROPS, meters.drops.counts()),
        _reading(catalogue.RESUMES, _by_word(outcomes)),
        _reading(catalogue.SIGN_INS, meters.sign_ins.counts()),
        _reading(catalogue.SIGN_INS_FAILED, meters.sign_ins_failed.counts()),
        _reading(catalogue.OPENED, meters.opened.counts()),
        _reading(catalogue.CLOSED, meters.closed.counts()),
        _reading(catalogue.FRAMES, _by_word(frames)),
        _reading(catalogue.BYTES, _by_word(sizes)),
        _reading(catalogue.LIMITS, meters.limits.counts()),
        _reading(catalogue.THROTTLED, _by_word(throttled)),
        _reading(catalogue.ROOMS_CREATED, none_yet | meters.rooms_created.counts()),
        _reading(catalogue.ROOMS_FAILED, none_failed | meters.rooms_failed.counts()),
        _reading(catalogue.TURNS, none_yet | _by_word({kind: meter.taken for kind, meter in meters.turns.items()})),
        _reading(catalogue.EFFECTS, _by_word(effects)),
    ]


def _measured(node: "Node") -> list[Reading]:
    meters = node.meters
    turns: dict[Labels, Spread] = {(kind,): _spread(meters.turns_of(kind).seconds) for kind in node.rooms.kinds}
    return [
        _reading(catalogue.LOOP_LAG, {(): _spread(meters.loop_lag)}),
        _reading(catalogue.ROUND_TRIP, {(): _spread(meters.round_trip)}),
        _reading(catalogue.WELCOME, {(): _spread(meters.welcome)}),
        _reading(catalogue.AWAY, {(): _spread(meters.away)}),
        _reading(catalogue.TURN, turns),
        _reading(catalogue.COMMIT, {(): _spread(meters.commit)}),
        _reading(catalogue.COMMIT_BATCHES, {(): _spread(meters.commit_batches)}),
        _reading(catalogue.GATE_WAIT, {(): _spread(meters.gate_wait)}),
    ]


def _of_sessions(node: "Node", most: int) -> list[Reading]:
    """Of those whose ids come first: ids are left to chance, so this is a fair sample, and the same the next time."""
    if not most:
        return []
    sample = nsmallest(most, node.sessions, key=lambda session: session.id)
    return [
        _reading(catalogue.SESSION_LATENCY, {(each.id,): each.latency.smoothed_ms / 1000 for each in sample}),
        _reading(catalogue.SESSION_JITTER, {(each.id,): each.latency.jitter_ms / 1000 for each in sample}),
        _reading(catalogue.SESSION_KEPT, {(each.id,): _kept_bytes(each) for each in sample}),
        _reading(catalogue.SESSION_DROPS, {(each.id,): each.drops for each in sample}),
        _reading(catalogue.SESSION_RESUMES, {(each.id,): each.resumes for each in sample}),
    ]


def _kept_bytes(session: Session) -> int:
    return sum(channel.kept_bytes for channel in session.channels())


def _spread(histogram: Histogram) -> Spread:
    return Spread(histogram.bounds, histogram.cumulative(), histogram.sum)


def _by_word(counts: Mapping[str, int]) -> dict[Labels, int]:
    return {(word,): count for word, count in counts.items()}


def _reading(metric: Metric, values: Mapping[Labels, float | Spread]) -> Reading:
    return Reading(metric, dict(values))


@cache
def holdfast_version() -> str:
    """Of the package that is installed."""
    # Not at the top: it takes as long to import as all of this, and only who is asked for metrics needs it.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version("holdfast")
    except PackageNotFoundError:
        return "unknown"
