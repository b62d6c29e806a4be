"""Accounts: who signs in with a name and a password."""

from litestar import delete, get, post, put
from litestar.params import JSONBody

from holdfast.http.answers import Answer, path_to
from holdfast.http.bodies import NewAccount, NewPassword
from holdfast.http.keys import Scope
from holdfast.http.operations import LOCATION, AccountPath, Node, needs
from holdfast.schemas.account import AccountInfo

_PATH = "/v1/accounts"
_TAGS = ["accounts"]
_ADA = {"name": "ada", "password": "correct horse battery staple", "roles": ["tester"]}


@post(
    _PATH,
    tags=_TAGS,
    summary="Make an account",
    opt=needs(Scope.ADMIN, "not_found", "conflict", "throttled", example=_ADA),
    response_headers=[LOCATION],
)
async def create_account(backend: Node, data: JSONBody[NewAccount]) -> Answer[AccountInfo]:
    """With a player, its owner signs in as that one; without, as one of its own from the first time on, unless a guest
    is linked to it before. A guest who is named here signs in with it from now on."""
    account = await backend.create_account(data.name, data.password, player=data.player, roles=data.roles)
    return Answer(account, status_code=201, headers={"Location": path_to("accounts", account.name)})


@get(f"{_PATH}/{{account_name:str}}", tags=_TAGS, summary="Look at an account", opt=needs(Scope.ADMIN, "not_found"))
async def get_account(backend: Node, account_name: AccountPath) -> AccountInfo:
    """Everything but the password, which nobody knows."""
    return await backend.get_account(account_name)


@put(
    f"{_PATH}/{{account_name:str}}/password",
    tags=_TAGS,
    summary="Change a password",
    status_code=204,
    opt=needs(Scope.ADMIN, "not_found", "throttled", example={"password": "correct horse battery staple"}),
)
async def set_password(backend: Node, account_name: AccountPath, data: JSONBody[NewPassword]) -> None:
    """Its player is signed out everywhere."""
    await backend.set_password(account_name, data.password)


@delete(
    f"{_PATH}/{{account_name:str}}",
    tags=_TAGS,
    summary="Delete an account",
    opt=needs(Scope.ADMIN, "not_found", "throttled"),
)
async def delete_account(backend: Node, account_name: AccountPath) -> None:
    """Its player is signed out everywhere."""
    await backend.delete_account(account_name)
