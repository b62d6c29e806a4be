"""Links: which player a proven subject is — one of its own, or the guest it was linked to.

A subject is remembered when it first signs in, with a player of its own: from then on it cannot be linked to a guest,
for that would leave the other player behind without a word. A guest who was linked has a mark: the credential of the
guest does not sign in any more.
"""

import msgspec
from msgspec import Struct

from holdfast.core.errors import Conflict
from holdfast.identity.port import Busy
from holdfast.identity.shelf import ABSENT, Change, Overtaken, Shelf, ShelfFull, key_of

# Somebody else is faster once, perhaps twice; more often it is not the same records that two of us want.
TRIES = 5
TRY_AGAIN_S = 1.0


class Link(Struct, frozen=True):
    """A subject of a scheme, and the player it is."""

    scheme: str
    subject: str
    player: str


class Mark(Struct, frozen=True):
    """A guest who has an account, or had one."""

    player: str
    scheme: str
    """Empty if the account was deleted."""


_encode = msgspec.msgpack.Encoder().encode
_decode_link = msgspec.msgpack.Decoder(Link).decode
_decode_mark = msgspec.msgpack.Decoder(Mark).decode


def contended() -> Busy:
    """Others were faster again and again."""
    return Busy("too many want the same at once; try again", TRY_AGAIN_S)


class Links:
    """The links of all schemes."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def player_of(self, scheme: str, subject: str, own: str) -> str:
        """Who a subject signs in as: `own`, unless it was linked."""
        key = key_of("link", scheme, subject)
        for _ in range(TRIES):
            known = await self._shelf.get(key)
            if known is not None:
                return _decode_link(known.value).player
            try:
                await self._shelf.write(Change(key, _encode(Link(scheme, subject, own)), ABSENT))
            except Overtaken:
                continue
            except ShelfFull:
                # It could be linked later although it has played. That is better than to turn it away.
                pass
            return own
        raise contended()

    async def link(self, scheme: str, subject: str, guest: str) -> None:
        """A subject that was never here is this guest from now on. Doing it again changes nothing."""
        key = key_of("link", scheme, subject)
        for _ in range(TRIES):
            known = await self._shelf.get(key)
            if known is not None:
                check_same(_decode_link(known.value).player, guest)
                return
            try:
                await self._shelf.write(
                    Change(key, _encode(Link(scheme, subject, guest)), ABSENT), await self.mark(guest, scheme)
                )
            except Overtaken:
                continue
            return
        raise contended()

    async def mark(self, guest: str, scheme: str) -> Change:
        """What must be written together with a guest's link; `Conflict` if they have another already."""
        key = key_of("linked", guest)
        known = await self._shelf.get(key)
        if known is not None and _decode_mark(known.value).scheme:
            raise Conflict("this guest has an account already")
        return Change(key, _encode(Mark(guest, scheme)), known.revision if known is not None else ABSENT)

    async def unlinked(self, player_id: str) -> list[Change]:
        """What must be written when the account of a player is deleted: if it was a guest's, they may have another."""
        key = key_of("linked", player_id)
        known = await self._shelf.get(key)
        return [Change(key, _encode(Mark(player_id, "")), known.revision)] if known is not None else []

    async def is_linked(self, guest: str) -> bool:
        """Whether a guest has, or had, an account: their own credential is dead for good."""
        return await self._shelf.get(key_of("linked", guest)) is not None


def check_same(player_id: str, guest: str) -> None:
    """Refuse to link what is another player's."""
    if player_id != guest:
        raise Conflict("this account has a player already: sign in with it instead of linking it")
