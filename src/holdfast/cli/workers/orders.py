"""What a supervisor and its workers tell each other: lines of JSON, over a pair of sockets that both inherit.

A worker loads its game and says what it has found; then it is told where the others are, and serves.
"""

import msgspec
from msgspec import Struct

Descriptors = dict[str, list[int]]
"""Listening sockets by transport, as numbers that both processes have."""


class Start(Struct, tag="start"):
    """Serve."""

    cluster: str
    """Its address, with the token."""
    sockets: Descriptors
    """What this worker listens on."""
    links: int | None
    """The folder of the sockets with which the workers are linked."""
    http: list[int]
    """The sockets of the HTTP API: one that all workers share, and one of its own if it has one."""


class ListenAlso(Struct, tag="listen_also"):
    """Accept the clients of these too, and of no others but your own: their workers are gone for now."""

    sockets: Descriptors


class Stop(Struct, tag="stop"):
    """Stop, as all others do now."""

    drains: bool


class Loaded(Struct, tag="loaded"):
    """The game can be served."""

    has_durable_rooms: bool


class Serving(Struct, tag="serving"):
    """The ports are served."""

    facts: list[tuple[str, str]]
    """What `holdfast serve` prints."""


Order = Start | ListenAlso | Stop
Report = Loaded | Serving

_orders: msgspec.json.Decoder[Order] = msgspec.json.Decoder(Order)
_reports: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


def line_of(message: Order | Report) -> bytes:
    """One message on its way."""
    return msgspec.json.encode(message) + b"\n"


def read_order(line: bytes) -> Order:
    """What the supervisor has said."""
    return _orders.decode(line)


def read_report(line: bytes) -> Report:
    """What a worker has said."""
    return _reports.decode(line)
