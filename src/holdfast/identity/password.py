"""Passwords: accounts with a name and a password, kept on the server's shelf.

Whoever tries learns nothing but whether both are right: an unknown name, a wrong password and an account that takes a
pause are answered with the same sentence, after the same work.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from holdfast.identity.accounts import (
    Account,
    AccountShelf,
    Kept,
    check_password,
    checked_name,
    checked_player,
    checked_roles,
    folded,
    normalized,
    taken,
)
from holdfast.identity.ground import Ground
from holdfast.identity.hashing import Argon2Hashing, Argon2Settings, Hashing
from holdfast.identity.links import TRIES, Links, check_same, contended
from holdfast.identity.lockouts import Lockouts
from holdfast.identity.players import is_guest, new_player_id
from holdfast.identity.port import Approach, Busy, Identity, NotAuthentic
from holdfast.identity.shares import Shares
from holdfast.identity.shelf import Overtaken
from holdfast.schemas.account import AccountInfo

T = TypeVar("T")

_WRONG = "this name and this password do not belong together"


class Password:
    """The authenticator for accounts: `Auth.password(name, password)` on the client's side.

    Accounts are made by a backend over HTTP (`POST /v1/accounts`); with `register` also by guests, who link themselves
    to a new name. `settings` say what a hash costs: old hashes are made anew when their owner next signs in. `hashing`
    is replaced in tests.
    """

    scheme = "password"

    def __init__(
        self, *, register: bool = False, settings: Argon2Settings | None = None, hashing: Hashing | None = None
    ) -> None:
        self._register = register
        self._settings = settings or Argon2Settings()
        self._own_hashing = hashing
        self._argon2: Argon2Hashing | None = None
        self._lend(Ground())

    def _lend(self, ground: Ground) -> None:
        self._ground = ground
        self._accounts = AccountShelf(ground.shelf)
        self._links = Links(ground.shelf)
        self._lockouts = Lockouts(ground.limits, ground.now)
        self._shares = Shares(ground.limits.password_checks_per_address_max)

    async def prepare(self, ground: Ground) -> None:
        """Take what the server lends."""
        await self.close()
        self._lend(ground)

    async def close(self) -> None:
        """Let the threads go."""
        if self._argon2 is not None:
            self._argon2.close()
            self._argon2 = None

    @property
    def _hashing(self) -> Hashing:
        if self._own_hashing is not None:
            return self._own_hashing
        if self._argon2 is None:
            self._argon2 = Argon2Hashing(self._settings, self._ground.limits)
        return self._argon2

    # Signing in

    async def authenticate(self, credential: str, approach: Approach) -> Identity:
        """The player of the account, for "name:password"."""
        name, password = _split(credential)
        with self._shares.one(approach.address):
            account = await _undisturbed(lambda: self._signed_in(name, password, approach))
        return Identity(account.player, frozenset(account.roles))

    async def _signed_in(self, name: str, password: str, approach: Approach) -> Account:
        """The account, with a player of its own from its first use on."""
        kept = await self._proven(name, password, approach)
        if kept is None:
            raise NotAuthentic(_WRONG)
        if kept.account.player:
            return kept.account
        account = replace(kept.account, player=new_player_id(self._ground.random))
        await self._accounts.put(account, kept.revision)
        return account

    async def _proven(self, name: str, password: str, approach: Approach) -> Kept | None:
        """The account that these two belong to. Every way through here checks one password."""
        secret = normalized(password)
        kept = await self._accounts.find(folded(name))
        if kept is None or not self._lockouts.guess(kept.account.name, approach.address):
            await self._hashing.verify("", secret)
            return None
        try:
            is_right = await self._hashing.verify(kept.account.hash, secret)
        except Busy:
            # It was not even looked at.
            self._lockouts.take_back(kept.account.name, approach.address)
            raise
        if not is_right:
            return None
        self._lockouts.was_right(kept.account.name, approach.address)
        if not self._hashing.is_outdated(kept.account.hash):
            return kept
        fresh = await self._hashing.hash(secret)
        await self._accounts.put(replace(kept.account, hash=fresh), kept.revision)
        return await self._accounts.find(kept.account.name)

    # `Linkable`

    async def link(self, credential: str, approach: Approach, player_id: str) -> Identity:
        """A guest takes an account that nobody has used yet; or, with `register`, makes one."""
        name, password = _split(credential)
        with self._shares.one(approach.address):
            account = await _undisturbed(lambda: self._linked(name, password, approach, player_id))
        return Identity(player_id, frozenset(account.roles))

    async def _linked(self, name: str, password: str, approach: Approach, player_id: str) -> Account:
        if self._register and await self._accounts.find(folded(name)) is None:
            return await self._registered(name, password, player_id)
        return await self._taken_over(name, password, approach, player_id)

    async def _registered(self, name: str, password: str, player_id: str) -> Account:
        check_password(password)
        checked = checked_name(name)
        mark = await self._links.mark(player_id, self.scheme)
        fresh = await self._hashing.hash(normalized(password))
        account = Account(checked, player_id, fresh, [], self._ground.wall_clock())
        await self._accounts.add(account, mark)
        return account

    async def _taken_over(self, name: str, password: str, approach: Approach, player_id: str) -> Account:
        kept = await self._proven(name, password, approach)
        if kept is None:
            raise NotAuthentic(f"{_WRONG}, or the name is taken" if self._register else _WRONG)
        if kept.account.player:
            check_same(kept.account.player, player_id)
            return kept.account
        account = replace(kept.account, player=player_id)
        await self._accounts.put(account, kept.revision, await self._links.mark(player_id, self.scheme))
        return account

    # `Accounts`

    async def create_account(
        self, name: str, password: str, *, player_id: str = "", roles: Iterable[str] = ()
    ) -> AccountInfo:
        """Make an account; without a player it gets one when it is first used. A guest's is linked to it."""
        checked = checked_name(name)
        check_password(password)
        player_id, roles = checked_player(player_id), checked_roles(roles)
        if await self._accounts.find(checked) is not None:
            raise taken(checked)
        marks = [await self._links.mark(player_id, self.scheme)] if is_guest(player_id) else []
        fresh = await self._hashing.hash(normalized(password))
        account = Account(checked, player_id, fresh, roles, self._ground.wall_clock())
        try:
            await self._accounts.add(account, *marks)
        except Overtaken:
            raise taken(checked) from None
        return account.info()

    async def get_account(self, name: str) -> AccountInfo:
        """Look at an account."""
        return (await self._accounts.get(name)).account.info()

    async def set_password(self, name: str, password: str) -> AccountInfo:
        """Change the password. Who has signed in with the old one is still here: sign the player out."""
        check_password(password)
        await self._accounts.get(name)
        fresh = await self._hashing.hash(normalized(password))
        return await _undisturbed(lambda: self._put_hash(name, fresh))

    async def _put_hash(self, name: str, fresh: str) -> AccountInfo:
        account, revision = await self._accounts.get(name)
        await self._accounts.put(replace(account, hash=fresh), revision)
        self._lockouts.forget(account.name)
        return account.info()

    async def delete_account(self, name: str) -> AccountInfo:
        """Delete an account. The credential of a guest that was linked to it stays dead; they may have another one."""
        return await _undisturbed(lambda: self._deleted(name))

    async def _deleted(self, name: str) -> AccountInfo:
        kept = await self._accounts.get(name)
        await self._accounts.delete(kept, *await self._links.unlinked(kept.account.player))
        self._lockouts.forget(kept.account.name)
        return kept.account.info()

    def __repr__(self) -> str:
        return f"Password(register={self._register})"


async def _undisturbed(attempt: Callable[[], Awaitable[T]]) -> T:
    """Begin anew if somebody else was faster: they may have changed the password, or everything."""
    for _ in range(TRIES):
        with suppress(Overtaken):
            return await attempt()
    raise contended()


def _split(credential: str) -> tuple[str, str]:
    name, colon, password = credential.partition(":")
    if not colon:
        raise NotAuthentic("send the account's name and its password, with a colon between them")
    return name, password
