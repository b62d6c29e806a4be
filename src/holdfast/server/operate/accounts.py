"""The half of an operator's node that is about how players sign in: accounts and tickets."""

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.errors import NotFound, Throttled
from holdfast.identity.port import Accounts, Busy, Issuing
from holdfast.schemas.account import AccountInfo, TicketInfo
from holdfast.server.admission.authenticators import store_busy
from holdfast.stores.port import StoreError

if TYPE_CHECKING:
    from holdfast.server.node import Node

T = TypeVar("T")


class AccountOperator:
    """See `holdfast.http.port.Backend`."""

    _node: "Node"

    async def create_account(self, name: str, password: str, *, player: str, roles: Iterable[str]) -> AccountInfo:
        """Make an account."""
        return await _unless_busy(self._accounts().create_account(name, password, player_id=player, roles=roles))

    async def get_account(self, name: str) -> AccountInfo:
        """Look at one."""
        return await _unless_busy(self._accounts().get_account(name))

    async def set_password(self, name: str, password: str) -> None:
        """Change its password, and sign its player out."""
        account = await _unless_busy(self._accounts().set_password(name, password))
        await self._sign_out(account, "the password was changed; sign in again")

    async def delete_account(self, name: str) -> None:
        """Delete it, and sign its player out."""
        account = await _unless_busy(self._accounts().delete_account(name))
        await self._sign_out(account, "this account was deleted")

    async def _sign_out(self, account: AccountInfo, why: str) -> None:
        if account.player:
            await self._node.access.sign_out(account.player, why)

    def issue_ticket(self, player: str, *, roles: Iterable[str], ttl_s: float | None) -> TicketInfo:
        """A ticket with which a player signs in."""
        for each in self._node.authenticators.values():
            if isinstance(each, Issuing):
                return each.issue_ticket(player, roles=roles, ttl_s=ttl_s)
        raise NotFound("this server takes no tickets: Server(auth=[Tickets(), …])")

    def _accounts(self) -> Accounts:
        for each in self._node.authenticators.values():
            if isinstance(each, Accounts):
                return each
        raise NotFound("this server has no accounts: Server(auth=[Password(), …])")


async def _unless_busy(work: Awaitable[T]) -> T:
    try:
        return await work
    except Busy as error:
        raise Throttled(str(error)) from None
    except StoreError as error:
        raise Throttled(str(store_busy(error))) from None
