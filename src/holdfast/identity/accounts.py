"""Accounts: a name, the hash of a password, and the player who signs in with them; and what each may look like."""

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec import Struct

from holdfast.core.errors import Conflict, Invalid, NotFound
from holdfast.identity.players import are_roles, is_player_id
from holdfast.identity.shelf import ABSENT, Change, Shelf, key_of
from holdfast.schemas.account import AccountInfo
from holdfast.schemas.frames import hidden_from_rich

NAME_CHARS_MAX = 64
PASSWORD_CHARS_MIN = 8
PASSWORD_CHARS_MAX = 256

# Letters and marks that are never shown (Unicode's Default_Ignorable_Code_Point), and count as printable all the same.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


class Account(Struct, frozen=True):
    """One account. Times are seconds since 1970."""

    name: str
    player: str
    """Empty until it is first used."""
    hash: str
    """Of the password: a secret, though a slow one to find out."""
    roles: list[str]
    created_at: float

    def info(self) -> AccountInfo:
        """The account as it may be shown."""
        return AccountInfo(self.name, self.player, self.roles, self.created_at)

    def __repr__(self) -> str:
        return f"Account(name={self.name!r}, player={self.player!r}, hash=***)"

    __rich_repr__ = hidden_from_rich


class Kept(NamedTuple):
    """An account, and which state of it this is."""

    account: Account
    revision: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Account).decode


class AccountShelf:
    """The accounts of a server."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def find(self, name: str) -> Kept | None:
        """The account with this name, which is `folded`; None if there is none."""
        # Also for what can be nobody's name: it takes as long.
        record = await self._shelf.get(_key(name))
        return Kept(_decode(record.value), record.revision) if record is not None else None

    async def get(self, name: str) -> Kept:
        """The same for operators: `NotFound` if there is none."""
        kept = await self.find(folded(name))
        if kept is None:
            raise NotFound(f"there is no account {name!r}")
        return kept

    async def add(self, account: Account, *more: Change) -> None:
        """Keep a new one, and do more in the same breath."""
        await self._shelf.write(Change(_key(account.name), _encode(account), ABSENT), *more)

    async def put(self, account: Account, revision: int, *more: Change) -> None:
        """Keep it as it is now, in the place of that revision."""
        await self._shelf.write(Change(_key(account.name), _encode(account), revision), *more)

    async def delete(self, kept: Kept, *more: Change) -> None:
        """Forget one, and do more in the same breath."""
        await self._shelf.write(Change(_key(kept.account.name), None, kept.revision), *more)


def _key(name: str) -> str:
    return key_of("account", name)


def folded(name: str) -> str:
    """A name as it is compared, however its letters were typed: NFKC and case folding, without what nobody can see."""
    compared = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", compared))


def normalized(password: str) -> bytes:
    """A password as it is hashed: the same letters are the same bytes, from whichever keyboard."""
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")


def checked_name(name: str) -> str:
    """The name of a new account; `Invalid` if it cannot be one."""
    checked = folded(name)
    is_short = 0 < len(checked) <= NAME_CHARS_MAX
    if not is_short or not checked.isprintable() or ":" in checked or checked != checked.strip():
        raise Invalid(f"a name has 1 to {NAME_CHARS_MAX} letters, no colon, and no space at its ends")
    return checked


def check_password(password: str) -> None:
    """Refuse what nobody should use for a password, or could not send as one."""
    if not PASSWORD_CHARS_MIN <= len(password) <= PASSWORD_CHARS_MAX:
        raise Invalid(f"a password has {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters")


def checked_player(player_id: str) -> str:
    """The player of a new account, if it is to be this one; `Invalid` if that is no id."""
    if player_id and not is_player_id(player_id):
        raise Invalid("a player's id is one line of printable text, 128 characters at most")
    return player_id


def checked_roles(roles: Iterable[str]) -> list[str]:
    """Roles, each once and in order; `Invalid` if they are none."""
    checked = sorted(set(roles))
    if not are_roles(checked):
        raise Invalid("at most 32 roles, each of 1 to 64 printable characters")
    return checked


def taken(name: str) -> Conflict:
    """Somebody else has the name."""
    return Conflict(f"there is an account {name!r} already")
