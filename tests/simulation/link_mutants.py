"""Planted bugs of what is written at once, and of what counts as life: those that show on bad links only."""
# ruff: noqa: SLF001 - a planted bug reaches inside

from collections.abc import Iterator
from typing import Any

from holdfast.client.connector import ClientConnection
from holdfast.client.protocol import ClientProtocol
from holdfast.core.connection import Look, Traffic
from holdfast.server.connection.connection import LiveConnection
from tests.simulation.planting import link_mutant, patched


@link_mutant
def the_server_packs_as_much_as_a_payload_may_hold() -> Iterator[None]:
    def __init__(connection: LiveConnection, connection_id: Any, services: Any) -> None:  # noqa: N807 - it takes the place of one
        right(connection, connection_id, services)
        connection._batch_bytes_max = services.limits.payload_bytes_max

    right = LiveConnection.__init__
    with patched(LiveConnection, __init__=__init__):
        yield


@link_mutant
def the_client_packs_as_much_as_a_payload_may_hold() -> Iterator[None]:
    def outgoing(protocol: ClientProtocol, **options: Any) -> list[bytes]:
        frames = [frame for payload in right(protocol, **options) for frame in protocol.codec.from_client(payload)]
        return protocol.codec.payloads(frames, protocol.limits.payload_bytes_max) if frames else []

    right = ClientProtocol.outgoing
    with patched(ClientProtocol, outgoing=outgoing):
        yield


@link_mutant
def only_whole_payloads_count_as_life_of_a_client() -> Iterator[None]:
    def look(*_: Any) -> None: ...

    with patched(LiveConnection, look=look):
        yield


@link_mutant
def only_whole_payloads_count_as_life_of_a_server() -> Iterator[None]:
    def look(*_: Any) -> None: ...

    def _on_ping(protocol: ClientProtocol, frame: Any) -> Any:
        events = right(protocol, frame)
        protocol.quiet_s = 0.0
        return events

    right = ClientProtocol._on_ping
    with patched(ClientConnection, look=look), patched(ClientProtocol, _on_ping=_on_ping):
        yield


@link_mutant
def what_a_link_takes_from_us_counts_for_nothing() -> Iterator[None]:
    def is_alive(look: Look, before: Look | None, *rest: Any) -> bool:
        deaf = before and before._replace(traffic=Traffic(before.traffic.received))
        return right(look, deaf, *rest)

    right = Look.is_alive
    with patched(Look, is_alive=is_alive):
        yield
