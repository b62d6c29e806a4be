"""The records that authenticators keep in a store: accounts, and links between proven subjects and players.

An account is a name, the hash of a password, and the player who signs in with them.

A link says which player a proven subject is: one of its own, or the guest it was linked to. A subject is recorded when
it first signs in, with a player of its own: from then on it cannot be linked to a guest, which would silently abandon
the other player. A guest who was linked has a mark: the guest's credential does not sign in any more.
"""

import hashlib
import re
import unicodedata
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.core.tokens import printable
from holdfast.identity.port import Busy
from holdfast.schemas.account import AccountInfo
from holdfast.schemas.frames import HidesSecrets
from holdfast.schemas.projection import project
from holdfast.stores.port import ABSENT, Full, RevisionConflict, Store, Write, commit_one

T = TypeVar("T")

NAME_CHARS_MAX = 64
PASSWORD_CHARS_MIN = 8
PASSWORD_CHARS_MAX = 256
# Another writer is faster once, perhaps twice; more often is contention that trying again at once does not help.
_TRIES = 5
_TRY_AGAIN_S = 1.0

# Letters and marks that are never shown (Unicode's Default_Ignorable_Code_Point), and count as printable all the same.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


class Account(HidesSecrets, Struct, frozen=True):
    """One account. Times are seconds since 1970."""

    shown = ("name", "player")
    name: str
    player: str
    """Empty until it is first used."""
    hash: str
    """Of the password: a secret, though a slow one to find out."""
    roles: list[str]
    created_at: float

    def info(self) -> AccountInfo:
        return project(self, AccountInfo)


class StoredAccount(NamedTuple):
    """An account and its revision."""

    account: Account
    revision: int


class LinkRecord(Struct, frozen=True):
    """A subject of a scheme, and its player."""

    scheme: str
    subject: str
    player: str


class LinkedGuest(Struct, frozen=True):
    """A guest who has an account, or had one."""

    player: str
    scheme: str
    """Empty if the account was deleted."""


_encode = msgspec.msgpack.Encoder().encode
_decode_account = msgspec.msgpack.Decoder(Account).decode
_decode_link = msgspec.msgpack.Decoder(LinkRecord).decode
_decode_mark = msgspec.msgpack.Decoder(LinkedGuest).decode


async def retried(attempt: Callable[[], Awaitable[T]]) -> T:
    """Start over if another writer was faster: it may have changed anything."""
    for _ in range(_TRIES):
        with suppress(RevisionConflict):
            return await attempt()
    raise Busy("too many want the same at once; try again", _TRY_AGAIN_S)


class AccountRecords:
    """The accounts of a server. Writes raise `RevisionConflict` if another writer was faster."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(self, name: str) -> StoredAccount | None:
        """The account with this name, which is `folded`; None if there is none."""
        # Invalid names are looked up as well, so that they take as long.
        entry = await self._store.get(key_of("account", name))
        return StoredAccount(_decode_account(entry.value), entry.revision) if entry is not None else None

    async def get(self, name: str) -> StoredAccount:
        """The same for operators: `NotFound` if there is none."""
        stored = await self.find(folded(name))
        if stored is None:
            raise NotFound(f"there is no account {name!r}")
        return stored

    async def put(self, account: Account, revision: int, *more: Write) -> None:
        """Write the account over that revision, and `more` in the same commit."""
        await commit_one(self._store, [Write(key_of("account", account.name), _encode(account), revision), *more])

    async def delete(self, stored: StoredAccount, *more: Write) -> None:
        """Delete the account, and write `more` in the same commit."""
        await commit_one(self._store, [Write(key_of("account", stored.account.name), None, stored.revision), *more])


def key_of(kind: str, *names: str) -> str:
    """The key of a record, valid in any store: names may be long, and need not be ASCII."""
    digest = hashlib.sha256()
    for name in names:
        encoded = name.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return f"{kind}/{printable(digest.digest())}"


# Names and passwords


def folded(name: str) -> str:
    """A name as it is compared, however its letters were typed: NFKC and case folding, without invisible characters."""
    compared = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", compared))


def normalized(password: str) -> bytes:
    """A password as it is hashed: the same letters are the same bytes on every keyboard."""
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")


def checked_name(name: str) -> str:
    """The name of a new account; `Invalid` if it cannot be one."""
    checked = folded(name)
    is_short = 0 < len(checked) <= NAME_CHARS_MAX
    if not is_short or not checked.isprintable() or ":" in checked or checked != checked.strip():
        raise Invalid(f"a name has 1 to {NAME_CHARS_MAX} letters, no colon, and no space at its ends")
    return checked


def check_password(password: str) -> None:
    """`Invalid` if this is too short or too long for a password."""
    if not PASSWORD_CHARS_MIN <= len(password) <= PASSWORD_CHARS_MAX:
        raise Invalid(f"a password has {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters")


class GuestLinks:
    """The links of all schemes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def player_of(self, scheme: str, subject: str, own: str) -> str:
        """The player that a subject signs in as: `own`, unless it was linked."""
        key = key_of("link", scheme, subject)

        async def attempt() -> str:
            known = await self._store.get(key)
            if known is not None:
                return _decode_link(known.value).player
            # If the store is full, it could be linked later although it has played. That is better than refusing it.
            with suppress(Full):
                await self._store.put(key, _encode(LinkRecord(scheme, subject, own)), ABSENT)
            return own

        return await retried(attempt)

    async def link(self, scheme: str, subject: str, guest: str) -> None:
        """Link a new subject to this guest. Doing it again changes nothing."""
        key = key_of("link", scheme, subject)

        async def attempt() -> None:
            known = await self._store.get(key)
            if known is not None:
                check_same(_decode_link(known.value).player, guest)
                return
            link = Write(key, _encode(LinkRecord(scheme, subject, guest)), ABSENT)
            await commit_one(self._store, [link, await self.mark(guest, scheme)])

        await retried(attempt)

    async def mark(self, guest: str, scheme: str) -> Write:
        """What must be written together with a guest's link; `Conflict` if they have another already."""
        key = key_of("linked", guest)
        known = await self._store.get(key)
        if known is not None and _decode_mark(known.value).scheme:
            raise Conflict("this guest has an account already")
        return Write(key, _encode(LinkedGuest(guest, scheme)), known.revision if known is not None else ABSENT)

    async def unlinked(self, player_id: str) -> list[Write]:
        """What must be written when the account of a player is deleted: if it was a guest's, they may have another."""
        key = key_of("linked", player_id)
        known = await self._store.get(key)
        return [Write(key, _encode(LinkedGuest(player_id, "")), known.revision)] if known is not None else []

    async def is_linked(self, guest: str) -> bool:
        """Whether a guest has, or had, an account: the guest's own credential never works again."""
        return await self._store.get(key_of("linked", guest)) is not None


def check_same(player_id: str, guest: str) -> None:
    """Refuse to link what is another player's."""
    if player_id != guest:
        raise Conflict("this account has a player already: sign in with it instead of linking it")
