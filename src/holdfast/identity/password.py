"""Passwords: accounts with a name and a password, stored in the server's store.

An attempt reveals only whether name and password match: an unknown name, a wrong password and a locked account get
the same message, after the same work.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.core.errors import Conflict
from holdfast.identity.accounts import (
    Account,
    AccountRecords,
    GuestLinks,
    StoredAccount,
    check_password,
    check_same,
    checked_name,
    folded,
    normalized,
    retried,
)
from holdfast.identity.hashing import Argon2Hashing, Argon2Settings, ChecksPerAddress, Hashing
from holdfast.identity.lockouts import Lockouts
from holdfast.identity.port import (
    Approach,
    AuthContext,
    Busy,
    Identity,
    NotAuthentic,
    checked_player,
    checked_roles,
    is_guest,
    new_player_id,
)
from holdfast.schemas.account import AccountInfo
from holdfast.stores.port import ABSENT, RevisionConflict

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
        self._use(AuthContext())

    def _use(self, context: AuthContext) -> None:
        self._context = context
        self._accounts = AccountRecords(context.store)
        self._links = GuestLinks(context.store)
        self._lockouts = Lockouts(context.limits, context.now)
        self._checks = ChecksPerAddress(context.limits.password_checks_per_address_max)

    async def prepare(self, context: AuthContext) -> None:
        await self.close()
        self._use(context)

    async def close(self) -> None:
        if self._argon2 is not None:
            self._argon2.close()
            self._argon2 = None

    @property
    def _hashing(self) -> Hashing:
        if self._own_hashing is not None:
            return self._own_hashing
        if self._argon2 is None:
            self._argon2 = Argon2Hashing(self._settings, self._context.limits)
        return self._argon2

    # Signing in

    async def authenticate(self, credential: str, approach: Approach) -> Identity:
        """The player of the account, for "name:password"."""
        name, password = _split(credential)
        with self._checks.one(approach.address):
            account = await retried(lambda: self._signed_in(name, password, approach))
        return Identity(account.player, frozenset(account.roles))

    async def _signed_in(self, name: str, password: str, approach: Approach) -> Account:
        """The account, with a player of its own from its first use on."""
        stored = await self._proven(name, password, approach)
        if stored is None:
            raise NotAuthentic(_WRONG)
        if stored.account.player:
            return stored.account
        account = replace(stored.account, player=new_player_id(self._context.random))
        await self._accounts.put(account, stored.revision)
        return account

    async def _proven(self, name: str, password: str, approach: Approach) -> StoredAccount | None:
        """The account that these two belong to. Every path checks exactly one password."""
        secret = normalized(password)
        stored = await self._accounts.find(folded(name))
        if stored is None or not self._lockouts.guess(stored.account.name, approach.address):
            await self._hashing.verify("", secret)
            return None
        try:
            is_right = await self._hashing.verify(stored.account.hash, secret)
        except Busy:
            # The password was not checked.
            self._lockouts.take_back(stored.account.name, approach.address)
            raise
        if not is_right:
            return None
        self._lockouts.was_right(stored.account.name, approach.address)
        if not self._hashing.is_outdated(stored.account.hash):
            return stored
        fresh = await self._hashing.hash(secret)
        await self._accounts.put(replace(stored.account, hash=fresh), stored.revision)
        return await self._accounts.find(stored.account.name)

    # `Linkable`

    async def link(self, credential: str, approach: Approach, player_id: str) -> Identity:
        """Link the guest to an unused account; or, with `register`, create one."""
        name, password = _split(credential)
        with self._checks.one(approach.address):
            account = await retried(lambda: self._linked(name, password, approach, player_id))
        return Identity(player_id, frozenset(account.roles))

    async def _linked(self, name: str, password: str, approach: Approach, player_id: str) -> Account:
        if self._register and await self._accounts.find(folded(name)) is None:
            check_password(password)
            checked = checked_name(name)
            mark = await self._links.mark(player_id, self.scheme)
            fresh = await self._hashing.hash(normalized(password))
            account = Account(checked, player_id, fresh, [], self._context.wall_clock())
            await self._accounts.put(account, ABSENT, mark)
            return account
        stored = await self._proven(name, password, approach)
        if stored is None:
            raise NotAuthentic(f"{_WRONG}, or the name is taken" if self._register else _WRONG)
        if stored.account.player:
            check_same(stored.account.player, player_id)
            return stored.account
        account = replace(stored.account, player=player_id)
        await self._accounts.put(account, stored.revision, await self._links.mark(player_id, self.scheme))
        return account

    # Accounts, for operators

    async def create_account(
        self, name: str, password: str, *, player_id: str = "", roles: Iterable[str] = ()
    ) -> AccountInfo:
        """Make an account; without a player it gets one when it is first used. A guest's is linked to it."""
        checked = checked_name(name)
        check_password(password)
        player_id, roles = checked_player(player_id), checked_roles(roles)
        taken = Conflict(f"there is an account {checked!r} already")
        if await self._accounts.find(checked) is not None:
            raise taken
        marks = [await self._links.mark(player_id, self.scheme)] if is_guest(player_id) else []
        fresh = await self._hashing.hash(normalized(password))
        account = Account(checked, player_id, fresh, roles, self._context.wall_clock())
        try:
            await self._accounts.put(account, ABSENT, *marks)
        except RevisionConflict:
            raise taken from None
        return account.info()

    async def get_account(self, name: str) -> AccountInfo:
        return (await self._accounts.get(name)).account.info()

    async def set_password(self, name: str, password: str) -> AccountInfo:
        """Change the password. Sessions signed in with the old one go on: sign the player out."""
        check_password(password)
        await self._accounts.get(name)
        fresh = await self._hashing.hash(normalized(password))

        async def attempt() -> AccountInfo:
            account, revision = await self._accounts.get(name)
            await self._accounts.put(replace(account, hash=fresh), revision)
            self._lockouts.forget(account.name)
            return account.info()

        return await retried(attempt)

    async def delete_account(self, name: str) -> AccountInfo:
        """Delete an account. The credential of a guest that was linked to it stays dead; they may have another one."""

        async def attempt() -> AccountInfo:
            stored = await self._accounts.get(name)
            await self._accounts.delete(stored, *await self._links.unlinked(stored.account.player))
            self._lockouts.forget(stored.account.name)
            return stored.account.info()

        return await retried(attempt)

    def __repr__(self) -> str:
        return f"Password(register={self._register})"


def _split(credential: str) -> tuple[str, str]:
    name, colon, password = credential.partition(":")
    if not colon:
        raise NotAuthentic("send the account's name and its password, with a colon between them")
    return name, password
