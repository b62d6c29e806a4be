"""The nodes of a cluster: list and drain them."""

from litestar import delete, get, post

from holdfast.http.api import Scope
from holdfast.http.routes.shared import NodePath, Server, route
from holdfast.schemas.node import MemberInfo, NodeList

_NODES = "/v1/nodes"
_DRAIN = "/v1/nodes/{node:str}/drain"


@route(get, _NODES, "nodes", "List the nodes", Scope.READ)
async def list_nodes(server: Server) -> NodeList:
    """As the node that answers sees them, by name; also those that died or ended within the last minute.

    Without a cluster there is one.
    """
    return server.nodes.list()


@route(post, _DRAIN, "nodes", "Drain a node", Scope.ADMIN, "throttled", status_code=200)
async def drain_node(server: Server, node: NodePath) -> MemberInfo:
    """It takes nothing new, and hands over every durable room and every session without a room: nobody drops.

    Returns once that has begun; `is_drained` says that it is done. The node goes on running, with what is in its memory
    only, until it is stopped.
    """
    return await server.nodes.drain(node)


@route(delete, _DRAIN, "nodes", "End the drain of a node", Scope.ADMIN, "conflict", "throttled", status_code=200)
async def undrain_node(server: Server, node: NodePath) -> MemberInfo:
    """It takes rooms and players again. What it has handed over stays where it is."""
    return await server.nodes.drain(node, is_on=False)
