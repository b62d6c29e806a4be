"""What a node has counted since it started: plain integers that only grow."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Totals of one node. They are never sums over what is there now: such a sum shrinks when somebody leaves."""

    connections: int = 0
    connections_refused: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    frames_received: int = 0
    frames_sent: int = 0
    sessions: int = 0
    sessions_ended: int = 0
    drops: int = 0
    resumed: int = 0
    resynced: int = 0
    reset: int = 0
    takeovers: int = 0
    messages_replayed: int = 0
    messages_applied: int = 0
    messages_refused: int = 0
    duplicates_ignored: int = 0
    messages_throttled: int = 0
    latest_throttled: int = 0
    requests_throttled: int = 0
    floods: int = 0
    hellos_throttled: int = 0
    protocol_errors: int = 0
    tokens_reused: int = 0
    clients_rolled_back: int = 0
    streams_overflowed: int = 0
    turns_failed: int = 0
    ticks_skipped: int = 0
    rooms_created: int = 0
    rooms_ended: int = 0
    rooms_recovered: int = 0
    rooms_fenced: int = 0
    commits: int = 0
    commits_refused: int = 0
    effects_done: int = 0
    effects_failed: int = 0
    internal_errors: int = 0
