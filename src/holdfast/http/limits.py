"""Where the API listens by default, and every limit of it with its unit and its reason."""

from dataclasses import dataclass

from holdfast.core.addresses import is_loopback
from holdfast.core.limits import KIB, MIB

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7778


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of one API; pass a changed copy to widen or narrow them."""

    # A request is a few hundred bytes; the largest carries the latencies of a whole party.
    body_bytes_max: int = 64 * KIB
    # A room's id and a player's id, every letter of them escaped. The router remembers the last 1024 paths.
    path_bytes_max: int = 4 * KIB
    # The request line and the headers: the longest search with every letter escaped, and a browser's headers.
    head_bytes_max: int = 32 * KIB
    # From an open socket, or the first byte of a request, to its last byte; a slow-loris attack takes longer.
    request_s: float = 10.0
    # An idle connection is kept open for this long.
    idle_s: int = 5
    # Of backends and operators, not of players: in all, and from one address (or IPv6 network of 64 bits), so that no
    # address can take all of them. An idle connection is closed when a new one needs its place.
    connections_max: int = 512
    connections_per_address_max: int = 128

    # Event streams: how many there may be, how far each may fall behind, and how often a silent one is sent a comment.
    streams_max: int = 64
    stream_events_max: int = 4096
    stream_bytes_max: int = 1 * MIB
    heartbeat_s: float = 15.0

    # Sessions that GET /metrics shows one by one, chosen at random: each makes five series, which the database that
    # scrapes them keeps long after the session has ended.
    metrics_sessions_max: int = 0

    # How long a stop waits for responses that are being sent.
    stop_s: float = 2.0


def check_binding(host: str, *, has_keys: bool) -> None:
    """Raise `ValueError` if the API would be open to everybody: without a key, only this machine may use it."""
    if not has_keys and not is_loopback(host):
        raise ValueError(
            f"the HTTP API would be open to everybody at {host or 'every address'}: give it an API key, as in "
            'ApiKey(secrets.token_urlsafe(), ["admin"]), or let it listen at 127.0.0.1'
        )
