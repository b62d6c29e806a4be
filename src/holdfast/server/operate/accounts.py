"""Accounts and tickets: how operators let players sign in."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from holdfast.core.errors import NotFound, Throttled
from holdfast.identity.password import Password
from holdfast.identity.port import Authenticator, Busy
from holdfast.identity.tickets import Tickets
from holdfast.schemas.account import AccountInfo, TicketInfo
from holdfast.server.admission.authenticators import store_busy
from holdfast.stores.port import StoreError

T = TypeVar("T")


class AccountOperations:
    """The accounts and tickets of one node's authenticators."""

    def __init__(
        self, authenticators: Mapping[str, Authenticator], sign_out: Callable[[str, str], Awaitable[None]]
    ) -> None:
        self._authenticators = authenticators
        self._sign_out_player = sign_out

    async def create(self, name: str, password: str, *, player: str, roles: Iterable[str]) -> AccountInfo:
        return await _unless_busy(self._accounts().create_account(name, password, player_id=player, roles=roles))

    async def get(self, name: str) -> AccountInfo:
        return await _unless_busy(self._accounts().get_account(name))

    async def set_password(self, name: str, password: str) -> None:
        """Change an account's password, and sign its player out."""
        account = await _unless_busy(self._accounts().set_password(name, password))
        await self._sign_out(account, "the password was changed; sign in again")

    async def delete(self, name: str) -> None:
        """Delete an account, and sign its player out."""
        account = await _unless_busy(self._accounts().delete_account(name))
        await self._sign_out(account, "this account was deleted")

    async def _sign_out(self, account: AccountInfo, why: str) -> None:
        if account.player:
            await self._sign_out_player(account.player, why)

    def issue_ticket(self, player: str, *, roles: Iterable[str], ttl_s: float | None) -> TicketInfo:
        """Issue a ticket with which a player signs in once."""
        for each in self._authenticators.values():
            if isinstance(each, Tickets):
                return each.issue_ticket(player, roles=roles, ttl_s=ttl_s)
        raise NotFound("this server does not accept tickets: enable them with Server(auth=[Tickets(), …])")

    def _accounts(self) -> Password:
        for each in self._authenticators.values():
            if isinstance(each, Password):
                return each
        raise NotFound("this server has no accounts: enable them with Server(auth=[Password(), …])")


async def _unless_busy(work: Awaitable[T]) -> T:
    try:
        return await work
    except Busy as error:
        raise Throttled(str(error)) from None
    except StoreError as error:
        raise Throttled(str(store_busy(error))) from None
