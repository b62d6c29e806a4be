"""Passwords: accounts with a name and a password, stored in the server's store.

An attempt reveals only whether name and password match: an unknown name, a wrong password and a locked account get
the same message, after the same work.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.core.addresses import address_group
from holdfast.core.errors import Conflict
from holdfast.core.limits import Limits
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
from holdfast.schemas.shared import Guessed
from holdfast.stores.port import ABSENT, RevisionConflict

_GUESSES = "guesses"
_WRONG = "this name and this password do not belong together"

_ANYWHERE = "*"
# Twice as long so often is longer than any limit.
_DOUBLINGS_MAX = 60
# A single network that keeps guessing is forgiven faster than it can guess, so it does not lock out the others.
_FORGIVEN_PER_PAUSE = 2.0


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
        self._use(AuthContext())

    def _use(self, context: AuthContext) -> None:
        self._context = context
        self._accounts = AccountRecords(context.store)
        self._links = GuestLinks(context.store)
        self._lockouts = Lockouts(context.limits, context.now)
        context.news.hear(_GUESSES, self._heard)
        self._checks = ChecksPerAddress(context.limits.password_checks_per_address_max)
        self._hashing = self._own_hashing or Argon2Hashing(self._settings, context.limits)

    async def prepare(self, context: AuthContext) -> None:
        await self.close()
        self._use(context)

    async def close(self) -> None:
        if self._own_hashing is None:
            self._hashing.close()

    # Signing in

    async def authenticate(self, credential: str, approach: Approach) -> Identity:
        """The player of the account, for "name:password"."""
        name, password = _split(credential)
        with self._checks.one(approach.address):
            account = await retried(lambda: self._signed_in(name, password, approach))
        return Identity(account.player, frozenset(account.roles), account=account.name)

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
            self._tell(stored.account.name, approach.address, "wrong")
            return None
        self._lockouts.was_right(stored.account.name, approach.address)
        self._tell(stored.account.name, approach.address, "right")
        if not self._hashing.is_outdated(stored.account.hash):
            return stored
        fresh = await self._hashing.hash(secret)
        await self._accounts.put(replace(stored.account, hash=fresh), stored.revision)
        return await self._accounts.find(stored.account.name)

    # The other nodes of a cluster count the same guesses

    def _tell(self, name: str, address: str, outcome: str) -> None:
        self._context.news.tell(_GUESSES, msgspec.msgpack.encode(Guessed(name, address, outcome)))

    def _heard(self, body: bytes) -> None:
        guessed = msgspec.msgpack.decode(body, type=Guessed)
        match guessed.outcome:
            case "wrong":
                self._lockouts.guess(guessed.account, guessed.address)
            case "right":
                self._lockouts.was_right(guessed.account, guessed.address)
            case _:
                self._lockouts.forget(guessed.account)

    # `Linkable`

    async def link(self, credential: str, approach: Approach, player_id: str) -> Identity:
        """Link the guest to an unused account; or, with `register`, create one."""
        name, password = _split(credential)
        with self._checks.one(approach.address):
            account = await retried(lambda: self._linked(name, password, approach, player_id))
        return Identity(player_id, frozenset(account.roles), account=account.name)

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
            self._tell(account.name, "", "forgotten")
            return account.info()

        return await retried(attempt)

    async def delete_account(self, name: str) -> AccountInfo:
        """Delete an account. The credential of a guest that was linked to it stays dead; they may have another one."""

        async def attempt() -> AccountInfo:
            stored = await self._accounts.get(name)
            await self._accounts.delete(stored, *await self._links.unlinked(stored.account.player))
            self._lockouts.forget(stored.account.name)
            self._tell(stored.account.name, "", "forgotten")
            return stored.account.info()

        return await retried(attempt)

    def __repr__(self) -> str:
        return f"Password(register={self._register})"


def _split(credential: str) -> tuple[str, str]:
    name, colon, password = credential.partition(":")
    if not colon:
        raise NotAuthentic("send the account's name and its password, with a colon between them")
    return name, password


# Lockouts


class _Place(NamedTuple):
    """An account, and from where: a network, or anywhere."""

    name: str
    network: str


class _Guesses(NamedTuple):
    """How many were wrong when the last of them was made, and until when there is a pause for it."""

    wrong: float
    made_at: float
    until: float


_NONE = _Guesses(0.0, 0.0, 0.0)


class Lockouts:
    """The wrong passwords of each account: after a few there is a pause, and a longer one after every further one.

    A pause looks like a wrong password from outside. Wrong passwords are counted by account and network (an IPv4
    address or an IPv6 /64), so guessing from one address does not lock the owner out elsewhere. The guesses of all
    networks together count too, with a higher limit, so that many addresses do not help to guess without end. Guesses
    during a pause do not extend it, pauses are bounded, and wrong guesses expire with time. In networks from which the
    owner has signed in before, only the guesses made there count.
    """

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._forgiven_per_s = _FORGIVEN_PER_PAUSE / limits.lockout_max_s
        # Guesses from networks where the owner has signed in, and from all others; each with the oldest first.
        self._of_owner: dict[_Place, _Guesses] = {}
        self._of_others: dict[_Place, _Guesses] = {}

    def guess(self, name: str, address: str) -> bool:
        """Whether a password may be tried now. It counts as wrong until `was_right`: parallel attempts add up."""
        now = self._now()
        known, places = self._places(name, address)
        guesses = [known.get(place, _NONE) for place in places]
        may_try = all(now >= each.until for each in guesses)
        for place, each in zip(places, guesses, strict=True):
            self._keep(known, place, self._one_more(place, each, now) if may_try else each)
        return may_try

    def take_back(self, name: str, address: str) -> None:
        """The last guess came to nothing: it counts neither way."""
        known, places = self._places(name, address)
        for place in places:
            wrong, made_at, _ = known.get(place, _NONE)
            self._keep(known, place, _Guesses(max(0.0, wrong - 1), made_at, 0.0))

    def was_right(self, name: str, address: str) -> None:
        """The owner has signed in from there: from now on only the guesses made there count against them there."""
        known, places = self._places(name, address)
        for place in places:
            known.pop(place, None)
        self._keep(self._of_owner, places[0], _NONE)

    def forget(self, name: str) -> None:
        """The account has another password, or is gone."""
        for known in (self._of_owner, self._of_others):
            for place in [place for place in known if place.name == name]:
                del known[place]

    def _places(self, name: str, address: str) -> tuple[dict[_Place, _Guesses], list[_Place]]:
        """Where a guess that is made there counts."""
        there = _Place(name, address_group(address))
        if there in self._of_owner:
            return self._of_owner, [there]
        return self._of_others, [there, _Place(name, _ANYWHERE)]

    def _one_more(self, place: _Place, guesses: _Guesses, now: float) -> _Guesses:
        limits = self._limits
        # Not for the time of a pause: the next one would not be longer.
        forgiven = max(0.0, now - max(guesses.made_at, guesses.until)) * self._forgiven_per_s
        wrong = max(0.0, guesses.wrong - forgiven) + 1
        is_anywhere = place.network == _ANYWHERE
        over = int(wrong) - (limits.wrong_passwords_elsewhere_max if is_anywhere else limits.wrong_passwords_max)
        pause_s = limits.lockout_s * 2.0 ** min(over, _DOUBLINGS_MAX) if over >= 0 else 0.0
        return _Guesses(wrong, now, now + min(pause_s, limits.lockout_max_s))

    def _keep(self, known: dict[_Place, _Guesses], place: _Place, guesses: _Guesses) -> None:
        known.pop(place, None)
        known[place] = guesses
        while len(known) > self._limits.lockouts_max:
            del known[next(iter(known))]
