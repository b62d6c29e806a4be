"""Why a connection, a session or a seat ended: one exhaustive list, and what a client should do about it.

The close codes come in ranges, so that a client needs no table to act:

    4000-4099  resume         the session lives; connect again and go on
    4100-4199  sign in again  the session is gone or the credential was not accepted
    4200-4299  stop           ended on purpose; reconnecting by itself would be wrong
    below 4000                WebSocket's own codes: see `advice`
"""

from enum import Enum, StrEnum


class Advice(Enum):
    """What a client does after a close."""

    RESUME = "resume"
    SIGN_IN = "sign_in"
    STOP = "stop"


class Reason(StrEnum):
    """Every way in which a connection, a session or a seat ends."""

    # The connection ended; the session lives on.
    DROPPED = "dropped"
    SILENT = "silent"
    SLOW = "slow"
    SEQUENCE = "sequence"
    BUSY = "busy"
    STOPPING = "stopping"
    INTERNAL = "internal"
    DISCONNECTED = "disconnected"
    MOVED = "moved"
    HELLO_TIMEOUT = "hello_timeout"
    THROTTLED = "throttled"
    FLOODING = "flooding"
    # The session cannot be resumed this way.
    AUTH_FAILED = "auth_failed"
    EXPIRED = "expired"
    TOKEN_REUSED = "token_reused"  # noqa: S105 - a reason, not a secret
    REFUSED = "refused"
    SIGNED_OUT = "signed_out"
    TOO_OLD = "too_old"
    ROLLED_BACK = "rolled_back"
    # Ended on purpose, or beyond repair.
    BYE = "bye"
    KICKED = "kicked"
    BANNED = "banned"
    IDLE = "idle"
    SUPERSEDED = "superseded"
    PROTOCOL = "protocol"
    TOO_BIG = "too_big"
    # Ends of a seat, or of a session without a connection: there is no connection to close.
    LEFT = "left"
    GRACE_ENDED = "grace_ended"
    ROUND_ENDED = "round_ended"
    ROOM_CLOSED = "room_closed"
    ROOM_FAILED = "room_failed"
    JOIN_FAILED = "join_failed"
    AGENT_FAILED = "agent_failed"
    # The end of a spectator's place: they have a seat in the room now.
    SEATED = "seated"


CLOSE_CODES: dict[Reason, int] = {
    Reason.DROPPED: 4000,
    Reason.SEQUENCE: 4002,
    Reason.BUSY: 4003,
    Reason.DISCONNECTED: 4004,
    Reason.THROTTLED: 4005,
    Reason.FLOODING: 4006,
    Reason.MOVED: 4007,
    Reason.SLOW: 4008,
    Reason.SILENT: 4009,
    Reason.INTERNAL: 4011,
    Reason.STOPPING: 4012,
    Reason.HELLO_TIMEOUT: 4013,
    Reason.AUTH_FAILED: 4100,
    Reason.EXPIRED: 4101,
    Reason.REFUSED: 4102,
    Reason.TOKEN_REUSED: 4103,
    Reason.SIGNED_OUT: 4104,
    Reason.TOO_OLD: 4106,
    Reason.ROLLED_BACK: 4107,
    Reason.BYE: 4200,
    Reason.PROTOCOL: 4202,
    Reason.KICKED: 4203,
    Reason.TOO_BIG: 4204,
    Reason.BANNED: 4205,
    Reason.IDLE: 4206,
    Reason.SUPERSEDED: 4209,
}
"""The close code of each reason that can close a connection."""

_SIGN_IN = range(4100, 4200)
_STOP = range(4200, 4300)
# RFC 6455's codes that a peer would get again by retrying.
_WEBSOCKET_STOP = frozenset({1000, 1002, 1003, 1007, 1008, 1009, 1010})

# Close codes that a transport sends by itself when its peer breaks a rule of the transport.
_OF_TRANSPORTS = {
    1002: Reason.PROTOCOL,
    1003: Reason.PROTOCOL,
    1007: Reason.PROTOCOL,
    1009: Reason.TOO_BIG,
}


def reason_of(code: int) -> Reason:
    """The reason for a close that only has the transport's code."""
    return _OF_TRANSPORTS.get(code, Reason.DROPPED)


def advice(code: int) -> Advice:
    """What a client should do after a close with this code."""
    if code in _SIGN_IN:
        return Advice.SIGN_IN
    if code in _STOP or code in _WEBSOCKET_STOP:
        return Advice.STOP
    return Advice.RESUME
