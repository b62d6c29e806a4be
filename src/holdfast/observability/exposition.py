"""Shows what a node counts and measures in the text format of Prometheus: `GET /metrics`.

A name ends in its unit, and in _total if it only grows. Labels have few values: kinds of rooms, reasons, limits and
transports, never players. The one exception, figures of single sessions, is off unless it is asked for.

What is there now (sessions, connections, rooms, seats) is counted when somebody asks, in slices: the games do not wait.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from heapq import nsmallest
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from holdfast.core.connection import Connection, ConnectionState
from holdfast.core.limits import Limits
from holdfast.core.room import Room, context_of
from holdfast.core.room_context import Phase
from holdfast.core.session import SeatState, Session, SessionState
from holdfast.observability.metrics import OTHER, Counters, Labels, Metrics
from holdfast.schemas.events import ROOM_FAILURES

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

T = TypeVar("T")
S = TypeVar("S", bound=Enum)

_SLICE = 500
# Families written before the games have their turn: each line of text takes a few microseconds.
_FAMILIES_AT_ONCE = 4
_CONNECTION_STATES = (ConnectionState.CONNECTING, ConnectionState.CONNECTED, ConnectionState.IN_GAME)
_SEAT_STATES = (SeatState.RESERVED, SeatState.TAKEN, SeatState.HELD)
_SPECTATOR_STATES = (SeatState.TAKEN, SeatState.HELD)
_SESSION_STATES = (SessionState.PRECONNECT, SessionState.CONNECTED, SessionState.DISCONNECTED)

# The labels and the help of each gauge and counter; histograms have theirs in `Metrics`.
CATALOGUE = {
    # The node
    "node_info": ("node region version", "Always 1: the node's name, region and version."),
    "node_ready": ("", "1 if the node accepts players and rooms, 0 while it starts or stops."),
    "node_healthy": ("", "1 if the node is healthy, 0 if its rooms are unhealthy or it cannot save."),
    "capacity": ("of", "The maximum number of connections, sessions and rooms."),
    "internal_errors_total": ("", "Errors in Holdfast itself and in handlers of server.on; see the log."),
    "events_lost_total": ("", "Events dropped because a handler of server.on was too slow."),
    # Sessions
    "sessions": ("status", "Open sessions, by status; disconnected ones wait for their player to return."),
    "sessions_opened_total": ("", "Sessions opened."),
    "sessions_ended_total": ("reason", "Sessions ended, by reason."),
    "drops_total": ("reason", "Sessions that lost their connection and wait for their player, by reason."),
    "resumes_total": (
        "outcome",
        "Returns after a drop: resumed with all messages, resynced with the current state, or reset to a new session.",
    ),
    "takeovers_total": ("", "Sessions taken over by a newer connection while the old one was still open."),
    "sign_ins_total": ("scheme", "Successful sign-ins, by authentication scheme."),
    "sign_ins_failed_total": ("scheme reason", "Refused sign-ins, by authentication scheme and reason."),
    "clients_rolled_back_total": (
        "",
        "Clients with newer state than the store: a backup was restored, or writes were lost.",
    ),
    "tokens_reused_total": ("", "Resume tokens presented a second time: each may be a theft, and ended its session."),
    # Connections and messages
    "connections": ("transport state", "Open connections, by transport and state."),
    "connections_opened_total": ("transport", "Connections opened, by transport."),
    "connections_closed_total": ("reason", "Connections closed, by reason."),
    "connections_refused_total": ("", "Connections refused before sign-in."),
    "frames_total": ("direction", "Frames received and sent."),
    "payload_bytes_total": (
        "direction",
        "Payload bytes received and sent, without the overhead of TLS, WebSocket and TCP.",
    ),
    "limits_exceeded_total": ("limit action", "Times that a limit was reached, by limit and action taken."),
    "throttled_total": (
        "what",
        "Hellos, messages, unreliable messages and requests refused because they came too fast.",
    ),
    "protocol_errors_total": ("", "Connections closed because the client violated the protocol."),
    "datagrams_dropped_total": (
        "reason",
        "UDP datagrams beside a stream that were dropped: of no open connection, forged, or late (also repeated and"
        " replayed ones).",
    ),
    "floods_total": ("", "Connections closed because the client kept sending too fast."),
    "streams_overflowed_total": ("", "Times that a client's backlog exceeded its limit; the client is resynced."),
    "messages_applied_total": ("", "Reliable messages from players that rooms have applied."),
    "messages_refused_total": (
        "",
        "Messages from players that were refused: unknown, malformed, or rejected by the game.",
    ),
    "messages_replayed_total": ("", "Messages sent again after a resume."),
    "duplicates_ignored_total": ("", "Messages received a second time and ignored."),
    # Rooms
    "rooms": ("kind phase", "Rooms, by kind and phase."),
    "seats": ("kind state", "Seats, by kind and state: reserved, taken, or held for a player who dropped."),
    "spectators": ("kind state", "Spectators, by kind of room and state: connected (taken), or dropped (held)."),
    "rooms_created_total": ("kind", "Rooms created."),
    "rooms_ended_total": ("", "Rooms that ended on this node or moved to another."),
    "rooms_failed_total": (
        "kind why",
        "Rooms that ended, or never started, because their code failed or they were unhealthy.",
    ),
    "turns_total": ("kind", "Turns of rooms: messages, ticks, timers and hooks."),
    "turns_failed_total": ("", "Turns in which the game's own code raised an error."),
    "turns_recorded_total": ("", "Turns kept in the recordings of rooms."),
    "recording_bytes": ("", "Memory that the recordings of rooms take."),
    "ticks_skipped_total": ("", "Ticks skipped because a room or the node was too slow for its rate."),
    # Durable rooms
    "rooms_recovered_total": ("", "Rooms recovered from the store."),
    "rooms_fenced_total": ("", "Rooms taken over by another server."),
    "commits_total": ("", "Successful commits to the store."),
    "commits_refused_total": ("", "Times that the store started to fail; commits are retried until they succeed."),
    "store_failing": ("", "1 while the store fails and durable rooms are paused."),
    "effects_total": ("result", "Effects that succeeded, and attempts that failed."),
    # Clusters
    "cluster_nodes": ("state", "Nodes of the cluster as this one sees them, itself included, by state; 1 without one."),
    "cluster_draining": ("", "1 while the node hands over what it has, and takes nothing new."),
    "nodes_died_total": ("", "Other nodes of the cluster that this one has believed dead."),
    "clients_relayed_total": ("", "Clients that came to this node and have their session on another."),
    "sessions_handed_over_total": ("direction", "Connected sessions given to other nodes, and taken from them."),
    "rooms_taken_over_total": ("", "Durable rooms that this node has taken from other nodes, dead or not."),
    "rooms_unowned": (
        "",
        "Durable rooms in the store that no node has, though this one should or none can, when it last looked.",
    ),
    # Single sessions, for as many as `HttpLimits.metrics_sessions_max` allows: none unless it is set
    "session_latency_seconds": ("session", "Smoothed round-trip time of a session in the sample."),
    "session_jitter_seconds": ("session", "Jitter of the round-trip time of a session in the sample."),
    "session_kept_bytes": ("session", "Unacknowledged bytes kept for a session in the sample."),
    "session_drops_total": ("session", "How often a session in the sample lost its connection."),
    "session_resumes_total": ("session", "How often a session in the sample was resumed."),
}

# Fields of `Counters` that are shown as they are, under the same name.
PLAIN = tuple(each.name for each in fields(Counters) if CATALOGUE.get(f"{each.name}_total", ("?",))[0] == "")

Values = Mapping[Labels, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """What the gauges are read from."""

    name: str
    label: str
    """The name again, for the label `node` of every sample; empty without a cluster."""
    region: str
    limits: Limits
    sessions: Callable[[], Iterable[Session]]
    connections: Callable[[], Iterable[Connection]]
    rooms: Callable[[], Iterable[Room[Any]]]
    kinds: Callable[[], Collection[str]]
    is_ready: Callable[[], bool]
    is_healthy: Callable[[], bool]
    is_store_failing: Callable[[], bool]
    events_lost: Callable[[], int]
    recording_bytes: Callable[[], int]
    cluster: Callable[[], "ClusterNumbers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNumbers:
    """What a node counts of its cluster; without one it is alone."""

    states: Mapping[str, int]
    """How many nodes are in each state."""
    is_draining: bool = False
    relayed: int = 0
    given: int = 0
    taken: int = 0
    rooms_taken: int = 0
    rooms_unowned: int = 0


ALONE = ClusterNumbers(states={"alive": 1, "suspect": 0, "dead": 0})


class Exposition:
    """One server's own: nothing is shared with another server in this process, or with the game's own metrics."""

    def __init__(self, metrics: Metrics, node: NodeView) -> None:
        self._metrics = metrics
        self._node = node
        self._process: CollectorRegistry | None = None

    async def text(self, *, sessions_max: int = 0) -> bytes:
        """Every metric, and those of the Python process; figures of single sessions for at most this many."""
        # See metrics.py for why it is imported here.
        from prometheus_client import (  # noqa: PLC0415
            CollectorRegistry,
            GCCollector,
            PlatformCollector,
            ProcessCollector,
            generate_latest,
        )

        if self._process is None:
            self._process = CollectorRegistry()
            for collector in (ProcessCollector, PlatformCollector, GCCollector):
                collector(registry=self._process)
        # In a thread, because it reads files of the operating system.
        families = await asyncio.to_thread(list, self._process.collect())
        self._name_node(families)
        families += await self.families(sessions_max=sessions_max)
        parts: list[bytes] = []
        for start in range(0, len(families), _FAMILIES_AT_ONCE):
            some = families[start : start + _FAMILIES_AT_ONCE]
            # As much of a registry as `generate_latest` looks at.
            parts.append(generate_latest(SimpleNamespace(collect=lambda some=some: some)))
            await asyncio.sleep(0)
        return b"".join(parts)

    async def families(self, *, sessions_max: int = 0) -> "list[Metric]":
        """Every metric of the node as it is now."""
        values = {**self._about_node(), **await self._there_now(), **self._counted(), **self._sample(sessions_max)}
        families = [*(_family(name, each) for name, each in values.items()), *self._histograms()]
        self._name_node(families)
        return families

    def _name_node(self, families: "Iterable[Metric]") -> None:
        """In a cluster each sample says of which node it is, and not only what Prometheus calls the target."""
        if label := self._node.label:
            for family in families:
                family.samples = [each._replace(labels={"node": label, **each.labels}) for each in family.samples]

    def _about_node(self) -> dict[str, Values]:
        node, limits, cluster = self._node, self._node.limits, self._node.cluster()
        most = {"connections": limits.connections_max, "sessions": limits.sessions_max, "rooms": limits.rooms_max}
        return {
            "node_info": {(node.name, node.region, holdfast_version()): 1},
            "node_ready": {(): node.is_ready()},
            "node_healthy": {(): node.is_healthy()},
            "store_failing": {(): node.is_store_failing()},
            "capacity": _by_word(most),
            "recording_bytes": {(): node.recording_bytes()},
            "cluster_nodes": _by_word(cluster.states),
            "cluster_draining": {(): cluster.is_draining},
            "nodes_died_total": {(): self._metrics.nodes_died},
            "clients_relayed_total": {(): cluster.relayed},
            "sessions_handed_over_total": _by_word({"given": cluster.given, "taken": cluster.taken}),
            "rooms_taken_over_total": {(): cluster.rooms_taken},
            "rooms_unowned": {(): cluster.rooms_unowned},
        }

    async def _there_now(self) -> dict[str, Values]:
        """Whoever leaves between two slices may be counted or not."""
        node = self._node
        sessions: Counter[Labels] = Counter()
        async for some in slices(node.sessions()):
            _count(sessions, (), [session.state for session in some], _SESSION_STATES)
        connections: Counter[Labels] = Counter()
        async for open_ones in slices(node.connections()):
            for (transport,) in self._metrics.connections_opened:
                states = [each.state for each in open_ones if each.transport_kind == transport]
                _count(connections, (transport,), states, _CONNECTION_STATES)
        rooms: Counter[Labels] = Counter()
        seats: Counter[Labels] = Counter()
        spectators: Counter[Labels] = Counter()
        async for some_rooms in slices(node.rooms()):
            for kind in node.kinds():
                of_kind = [room for room in some_rooms if room.kind == kind]
                for phase in get_args(Phase):
                    rooms[kind, phase] += sum(context_of(room).phase == phase for room in of_kind)
                of_rooms = [context_of(room).seats for room in of_kind]
                _count(seats, (kind,), [seat.state for each in of_rooms for seat in each], _SEAT_STATES)
                seats[kind, SeatState.RESERVED.value] += sum(each.reservations_open for each in of_rooms)
                watched = [context_of(room).spectators or () for room in of_kind]
                _count(spectators, (kind,), [each.state for places in watched for each in places], _SPECTATOR_STATES)
        return {
            "sessions": sessions,
            "connections": connections,
            "rooms": rooms,
            "seats": seats,
            "spectators": spectators,
        }

    def _counted(self) -> dict[str, Values]:
        metrics, counters, kinds = self._metrics, self._metrics.counters, self._node.kinds()
        # At zero from the start, as in `Metrics`.
        no_rooms: dict[Labels, int] = {(kind,): 0 for kind in kinds}
        none_failed: dict[Labels, int] = {(kind, why): 0 for kind in (*kinds, OTHER) for why in ROOM_FAILURES}
        values: dict[str, Values] = {f"{name}_total": {(): getattr(counters, name)} for name in PLAIN}
        return values | {
            "sessions_opened_total": {(): counters.sessions},
            "events_lost_total": {(): self._node.events_lost()},
            "sessions_ended_total": metrics.ends,
            "drops_total": metrics.drops,
            "resumes_total": _by_word(
                {"resumed": counters.resumed, "resynced": counters.resynced, "reset": counters.reset}
            ),
            "sign_ins_total": metrics.sign_ins,
            "sign_ins_failed_total": metrics.sign_ins_failed,
            "connections_opened_total": metrics.connections_opened,
            "connections_closed_total": metrics.connections_closed,
            "frames_total": _by_word({"received": counters.frames_received, "sent": counters.frames_sent}),
            "payload_bytes_total": _by_word({"received": counters.bytes_received, "sent": counters.bytes_sent}),
            "limits_exceeded_total": metrics.limits,
            "throttled_total": _by_word(
                {
                    "hello": counters.hellos_throttled,
                    "message": counters.messages_throttled,
                    "latest": counters.latest_throttled,
                    "request": counters.requests_throttled,
                }
            ),
            "datagrams_dropped_total": _by_word(
                {
                    "unknown": counters.datagrams_unknown,
                    "forged": counters.datagrams_forged,
                    "late": counters.datagrams_late,
                }
            ),
            "rooms_created_total": no_rooms | metrics.rooms_created,
            "rooms_failed_total": none_failed | metrics.rooms_failed,
            "turns_total": no_rooms | _by_word({kind: meter.taken for kind, meter in metrics.turns.items()}),
            "effects_total": _by_word({"done": counters.effects_done, "failed": counters.effects_failed}),
        }

    def _sample(self, most: int) -> dict[str, Values]:
        """Of those whose ids come first: ids are random, so this is a fair sample, and the same the next time."""
        if not most:
            return {}
        sample = nsmallest(most, self._node.sessions(), key=lambda session: session.id)
        return {
            "session_latency_seconds": {(each.id,): each.latency.smoothed_ms / 1000 for each in sample},
            "session_jitter_seconds": {(each.id,): each.latency.jitter_ms / 1000 for each in sample},
            "session_kept_bytes": {
                (each.id,): sum(channel.kept_bytes for channel in each.channels()) for each in sample
            },
            "session_drops_total": {(each.id,): each.drops for each in sample},
            "session_resumes_total": {(each.id,): each.resumes for each in sample},
        }

    def _histograms(self) -> "list[Metric]":
        metrics = self._metrics
        for kind in self._node.kinds():
            metrics.turns_of(kind)
        families = [family for histogram in metrics.histograms for family in histogram.collect()]
        for family in families:
            # When the process started says the same.
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
        return families


def _family(name: str, values: Values) -> "Metric":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - see metrics.py

    labels, help_text = CATALOGUE[name]
    family_type = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = family_type(f"holdfast_{name}", help_text, labels=labels.split())
    for each, value in values.items():
        family.add_metric(each, value)
    return family


def _by_word(counts: Mapping[str, int]) -> dict[Labels, int]:
    return {(word,): count for word, count in counts.items()}


def _count(counts: Counter[Labels], of: Labels, states: list[S], known: tuple[S, ...]) -> None:
    """Add how often each known state is in a list."""
    # By identity: hashing an enum member, or asking for its value, takes as long as comparing ten of them.
    for state in known:
        counts[*of, str(state.value)] += sum(each is state for each in states)


async def slices(things: Iterable[T]) -> AsyncIterator[list[T]]:
    """All of them as they are now, in lists; the games go on in between. One empty list if there is nothing."""
    everything = list(things)
    for start in range(0, max(1, len(everything)), _SLICE):
        if start:
            await asyncio.sleep(0)
        yield everything[start : start + _SLICE]


@cache
def holdfast_version() -> str:
    """Of the package that is installed."""
    # Not at the top: it takes long to import, and only metrics and settings need it.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version("holdfast")
    except PackageNotFoundError:
        return "unknown"
