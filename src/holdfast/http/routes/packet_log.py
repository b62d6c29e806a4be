"""The packet log: whose payloads the node writes down at the moment. They go to its log, and never over HTTP."""

from typing import Annotated

from litestar import delete, get, put
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import PathParameter
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.http.keys import Scope
from holdfast.http.operations import Node, needs
from holdfast.schemas.node import PacketTarget

_PATH = "/v1/packet-log"
_TAGS = ["node"]

TargetPath = Annotated[
    str,
    PathParameter(
        description="A session's id, an address, or a range of addresses (with its slash as %2F).",
        examples=[Example(value="203.0.113.7")],
    ),
]


class PacketQuery(Struct, frozen=True):
    """How long."""

    for_s: Annotated[float, Meta(gt=0)] | UnsetType = UNSET
    """In seconds; ten minutes if it is not said."""


class PacketTargetList(Struct, frozen=True):
    """Whose packets are logged."""

    targets: list[PacketTarget]


@get(_PATH, tags=_TAGS, summary="List whose packets are logged", opt=needs(Scope.ADMIN))
async def list_packet_targets(backend: Node) -> PacketTargetList:
    """Each ends by itself."""
    return PacketTargetList(backend.list_packet_targets())


@put(
    f"{_PATH}/{{target:str}}",
    tags=_TAGS,
    summary="Log packets",
    status_code=200,
    opt=needs(Scope.ADMIN, "not_found", "throttled", example={"for_s": 60}),
)
async def log_packets(backend: Node, target: TargetPath, asked: NamedDependency[PacketQuery]) -> PacketTarget:
    """Every payload of a session or an address goes to the node's log from now on, without its secrets.

    Asking again begins a new time.
    """
    return backend.log_packets(target, None if asked.for_s is UNSET else asked.for_s)


@delete(f"{_PATH}/{{target:str}}", tags=_TAGS, summary="Stop logging packets", opt=needs(Scope.ADMIN, "not_found"))
async def stop_logging_packets(backend: Node, target: TargetPath) -> None:
    """Before it ends by itself."""
    backend.stop_logging_packets(target)
