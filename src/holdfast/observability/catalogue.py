"""Every metric of a node, with its unit and what it means: what `GET /metrics` shows, and no other.

A name ends in its unit, and in _total if it only grows. Labels have few values: kinds of rooms, reasons, limits and
transports, never players. The one exception, figures of single sessions, is switched off unless it is asked for.
"""

from holdfast.core.metrics import Metric
from holdfast.observability.loop_lag import SAMPLE_S
from holdfast.observability.meters import TURNS_PER_SAMPLE


def _counter(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(f"holdfast_{name}_total", "counter", help_text, labels)


def _gauge(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(f"holdfast_{name}", "gauge", help_text, labels)


def _histogram(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(f"holdfast_{name}", "histogram", help_text, labels)


# The node
NODE_INFO = _gauge(
    "node_info", "Always 1: what this node is called, and which version it runs.", *("node", "region", "version")
)
READY = _gauge("node_ready", "1 if the node takes players and rooms, 0 while it starts or stops.")
HEALTHY = _gauge("node_healthy", "1 if the node is well, 0 if its rooms are not or it cannot save.")
CAPACITY = _gauge("capacity", "How many connections, sessions and rooms there may be at most.", "of")
LOOP_LAG = _histogram(
    "loop_lag_seconds", f"How late the event loop was, looked at every {SAMPLE_S:g} s. Everybody waits so long."
)
EVENTS_LOST = _counter("events_lost", "Events that a handler of server.on was never told of, because it was too slow.")

# Sessions
SESSIONS = _gauge("sessions", "Sessions that live; disconnected ones wait for their player to come back.", "status")
ENDS = _counter("sessions_ended", "Sessions that ended, by the reason.", "reason")
DROPS = _counter("drops", "Sessions that lost their connection and wait for their player, by the reason.", "reason")
RESUMES = _counter(
    "resumes",
    "Players who came back: resumed with everything, resynced with the present state, or reset to a new session.",
    "outcome",
)
AWAY = _histogram("resume_away_seconds", "How long players who came back to their session were away.")
WELCOME = _histogram("welcome_seconds", "From a client's hello until it is let in, without the wait for the store.")
ROUND_TRIP = _histogram("round_trip_seconds", "Round trips between the node and its clients, measured with every ping.")
SIGN_INS = _counter("sign_ins", "Players who proved who they are, by the way they did it.", "scheme")
SIGN_INS_FAILED = _counter(
    "sign_ins_failed", "Sign-ins that were refused, by the way and the reason.", *("scheme", "reason")
)

# Connections
CONNECTIONS = _gauge("connections", "Open connections, by transport and state.", *("transport", "state"))
OPENED = _counter("connections_opened", "Connections that were opened, by transport.", "transport")
CLOSED = _counter("connections_closed", "Connections that ended, by the reason.", "reason")
FRAMES = _counter("frames", "Frames received and sent.", "direction")
BYTES = _counter(
    "payload_bytes", "Bytes of payloads received and sent, without what TLS, WebSocket and TCP add.", "direction"
)
LIMITS = _counter(
    "limits_exceeded",
    "How often somebody reached a limit, by the limit and what was done about it.",
    *("limit", "action"),
)
THROTTLED = _counter(
    "throttled",
    "What clients sent too fast and was not carried out: hellos, messages, latest ones and requests.",
    "what",
)

# Rooms
ROOMS = _gauge("rooms", "Rooms that are there, by kind and phase.", *("kind", "phase"))
SEATS = _gauge("seats", "Seats that are reserved, taken or held for a player who dropped.", *("kind", "state"))
ROOMS_CREATED = _counter("rooms_created", "Rooms that were made.", "kind")
ROOMS_FAILED = _counter(
    "rooms_failed",
    "Rooms that ended, or never began, because their code failed or they were not well.",
    *("kind", "why"),
)
TURNS = _counter("turns", "Turns that rooms took: messages, ticks, timers and hooks.", "kind")
TURN = _histogram(
    "turn_seconds", f"How long a turn of a room takes, measured for one turn in {TURNS_PER_SAMPLE}.", "kind"
)

# Durable rooms
COMMIT = _histogram("commit_seconds", "From the beginning of a commit until the store has it, retries included.")
COMMIT_BATCHES = _histogram("commit_batches", "Rooms and lone sessions that one commit has saved together.")
GATE_WAIT = _histogram(
    "gate_wait_seconds", "How long the oldest word of a room waited for its commit, once per room and commit."
)
STORE_FAILING = _gauge("store_failing", "1 while the store does not save and durable rooms stand still.")
EFFECTS = _counter("effects", "Outside effects that were carried out, and attempts that failed.", "result")

# Counters of the node, as they are: the name of each in `Counters`.
PLAIN = {
    "sessions": _counter("sessions_opened", "Sessions that began."),
    "takeovers": _counter("takeovers", "Sessions that a newer connection took over from one that was still open."),
    "connections_refused": _counter("connections_refused", "Connections that were turned away at the door."),
    "protocol_errors": _counter(
        "protocol_errors", "Connections that were closed because the client broke the protocol."
    ),
    "floods": _counter("floods", "Connections that were closed because the client would not stop sending too fast."),
    "tokens_reused": _counter(
        "tokens_reused", "Resume tokens that were presented a second time: each may be a theft, and ended its session."
    ),
    "clients_rolled_back": _counter(
        "clients_rolled_back", "Clients that knew more than the store, which is older: a backup, or writes were lost."
    ),
    "streams_overflowed": _counter(
        "streams_overflowed", "Times that more piled up for a client than may be kept; it is resynced."
    ),
    "messages_applied": _counter("messages_applied", "Reliable messages of players that rooms have applied."),
    "messages_refused": _counter(
        "messages_refused", "Messages of players that were refused: unknown, malformed, or the game said no."
    ),
    "messages_replayed": _counter("messages_replayed", "Messages that were sent again after a resume."),
    "duplicates_ignored": _counter(
        "duplicates_ignored", "Messages that came a second time and were ignored, as they must be."
    ),
    "turns_failed": _counter("turns_failed", "Turns in which the game's own code raised an error."),
    "ticks_skipped": _counter(
        "ticks_skipped", "Ticks that were left out because a room or the node was too slow for its rate."
    ),
    "rooms_ended": _counter("rooms_ended", "Rooms that ended here or went elsewhere."),
    "rooms_recovered": _counter("rooms_recovered", "Rooms that came back from the store."),
    "rooms_fenced": _counter("rooms_fenced", "Rooms that another server has taken over."),
    "commits": _counter("commits", "Commits that the store has taken."),
    "commits_refused": _counter(
        "commits_refused", "Times that the store began to refuse; it is tried again until it does not."
    ),
    "internal_errors": _counter(
        "internal_errors", "Errors in Holdfast itself, and in handlers of server.on: the log has them."
    ),
}

# Single sessions, for as many as `HttpLimits.metrics_sessions_max` allows: none unless it is set.
SESSION_LATENCY = _gauge("session_latency_seconds", "Smoothed round-trip time of a session in the sample.", "session")
SESSION_JITTER = _gauge("session_jitter_seconds", "How much that round-trip time varies.", "session")
SESSION_KEPT = _gauge(
    "session_kept_bytes", "What is kept for a session in the sample until its client has acknowledged it.", "session"
)
SESSION_DROPS = _counter("session_drops", "How often a session in the sample lost its connection.", "session")
SESSION_RESUMES = _counter("session_resumes", "How often the player of a session in the sample came back.", "session")
