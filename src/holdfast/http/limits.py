"""Every bound of the API, with its unit and its reason."""

from dataclasses import dataclass

from holdfast.core.limits import KIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of one API; pass a changed copy to widen or narrow them."""

    # A request is a few hundred bytes; the largest carries the latencies of a whole party.
    body_bytes_max: int = 64 * KIB
    # A room's id and a player's id, every letter of them escaped. The router remembers the last 1024 paths.
    path_bytes_max: int = 4 * KIB
    # The request line and the headers: the longest search with every letter escaped, and a browser's headers.
    head_bytes_max: int = 32 * KIB
    # From an open socket, or the first byte of a request, to its last byte; longer is a slow-loris.
    request_s: float = 10.0
    # A connection that nobody uses any more.
    idle_s: int = 5
    # Backends and operators, not players: in all, and from one address (an IPv6 network of 64 bits is one), so that no
    # address can take all of them. Whoever is idle makes room for the next.
    connections_max: int = 512
    connections_per_address_max: int = 128

    # Those who read events: how many, how far each may fall behind, and how often they hear that we live.
    streams_max: int = 64
    stream_events_max: int = 4096
    stream_bytes_max: int = 1 * MIB
    heartbeat_s: float = 15.0

    # Sessions that GET /metrics shows one by one, chosen by chance: each makes five series, which the database of
    # whoever reads them keeps for long after the session has ended.
    metrics_sessions_max: int = 0

    # A stop waits this long for the answers that are under way.
    stop_s: float = 2.0
