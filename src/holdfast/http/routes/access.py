"""Bans, accounts and tickets."""

from litestar import delete, get, post, put
from litestar.di import NamedDependency
from litestar.params import JSONBody

from holdfast.http.api import Scope
from holdfast.http.bodies import NewAccount, NewPassword, NewTicket, PageQuery
from holdfast.http.responses import Answer
from holdfast.http.routes.shared import LOCATION, AccountPath, BanPath, Server, location, route
from holdfast.schemas.account import AccountInfo, TicketInfo
from holdfast.schemas.ban import BanInfo, BanPage
from holdfast.schemas.requests import Ban

_BANS = "/v1/bans"
_ACCOUNTS = "/v1/accounts"
_ACCOUNT = "/v1/accounts/{account_name:str}"
_TWO_HOURS = {"player": "guest-7Jm2", "for_s": 7200, "why": "be nice"}
_ADA = {"name": "ada", "password": "correct horse battery staple", "roles": ["tester"]}
_TICKET = {"player": "ada", "roles": ["tester"], "ttl_s": 30}


@route(get, _BANS, "bans", "List bans", Scope.ADMIN, "expired")
async def list_bans(server: Server, params: NamedDependency[PageQuery]) -> BanPage:
    """The bans in force; an `until` of 0 means permanent."""
    return server.bans.page(params.limit, params.cursor)


@route(
    *(post, _BANS, "bans", "Ban a player or an address", Scope.ADMIN, "throttled"),
    example=_TWO_HOURS,
    response_headers=[LOCATION],
)
async def ban(server: Server, data: JSONBody[Ban]) -> Answer[BanInfo]:
    """Their sessions end at once, and their tokens are no longer valid, also after a restart.

    It replaces a former ban of the same player or range.
    """
    made = await server.access.ban(data)
    return Answer(made, status_code=201, headers=location("bans", made.subject))


@route(delete, f"{_BANS}/{{subject:str}}", "bans", "Lift a ban", Scope.ADMIN, "throttled")
async def unban(server: Server, subject: BanPath) -> None:
    """They may sign in again; sessions that the ban has ended stay ended."""
    await server.access.unban(subject)


@route(
    *(post, _ACCOUNTS, "accounts", "Create an account", Scope.ADMIN, "not_found", "conflict", "throttled"),
    example=_ADA,
    response_headers=[LOCATION],
)
async def create_account(server: Server, data: JSONBody[NewAccount]) -> Answer[AccountInfo]:
    """With a player, its owner signs in as that player; without, as a new player from the first sign-in on, unless a
    guest is linked to the account before. A guest who is named here signs in with it from now on."""
    account = await server.accounts.create(data.name, data.password, player=data.player, roles=data.roles)
    return Answer(account, status_code=201, headers=location("accounts", account.name))


@route(get, _ACCOUNT, "accounts", "Get an account", Scope.ADMIN)
async def get_account(server: Server, account_name: AccountPath) -> AccountInfo:
    """Everything but the password, of which only a hash is kept."""
    return await server.accounts.get(account_name)


@route(
    *(put, f"{_ACCOUNT}/password", "accounts", "Change a password", Scope.ADMIN, "throttled"),
    example={"password": "correct horse battery staple"},
    status_code=204,
)
async def set_password(server: Server, account_name: AccountPath, data: JSONBody[NewPassword]) -> None:
    """Its player is signed out everywhere."""
    await server.accounts.set_password(account_name, data.password)


@route(delete, _ACCOUNT, "accounts", "Delete an account", Scope.ADMIN, "throttled")
async def delete_account(server: Server, account_name: AccountPath) -> None:
    """Its player is signed out everywhere."""
    await server.accounts.delete(account_name)


# A key that may do this can sign in as any player.
@route(post, "/v1/tickets", "tickets", "Issue a ticket", Scope.ADMIN, "not_found", example=_TICKET)
async def issue_ticket(server: Server, data: JSONBody[NewTicket]) -> Answer[TicketInfo]:
    """Hand it to the player, who signs in with it once: the scheme is `ticket`, the credential the ticket."""
    ticket = server.accounts.issue_ticket(data.player, roles=data.roles, ttl_s=data.ttl_s)
    return Answer(ticket, status_code=201)
