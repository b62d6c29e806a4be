"""Tickets: sign players in whom a backend knows."""

from litestar import post
from litestar.params import JSONBody

from holdfast.http.answers import Answer
from holdfast.http.bodies import NewTicket
from holdfast.http.keys import Scope
from holdfast.http.operations import Node, needs
from holdfast.schemas.account import TicketInfo

_TAGS = ["tickets"]


# Whoever may do this can be any player.
@post(
    "/v1/tickets",
    tags=_TAGS,
    summary="Issue a ticket",
    opt=needs(Scope.ADMIN, "not_found", example={"player": "ada", "roles": ["tester"], "ttl_s": 30}),
)
async def issue_ticket(backend: Node, data: JSONBody[NewTicket]) -> Answer[TicketInfo]:
    """Hand it to the player, who signs in with it once: the scheme is `ticket`, the credential the ticket."""
    return Answer(backend.issue_ticket(data.player, roles=data.roles, ttl_s=data.ttl_s), status_code=201)
