"""Guests: the server generates the player id and a secret that proves it; the id alone proves nothing.

The secret is a keyed hash of the id, so nothing is stored per guest, except a mark when a guest is linked to an
account: from then on they sign in with that.
"""

import hashlib
import hmac
from collections.abc import Awaitable
from random import Random

from holdfast.core.tokens import TOKEN_BYTES, printable
from holdfast.identity.accounts import GuestLinks
from holdfast.identity.port import Approach, AuthContext, Identity, NotAuthentic, new_guest_id


class Guest:
    """The authenticator for players without an account.

    `key` (at least 32 bytes) proves who a guest is; without one the server's own is used, which it keeps in its store,
    if it has one. Give every node the same, and keep it across restarts, if guests are to be recognised.
    """

    scheme = "guest"

    def __init__(self, key: bytes | None = None, random: Random | None = None) -> None:
        if key is not None and len(key) < TOKEN_BYTES:
            raise ValueError(f"the key for guests needs at least {TOKEN_BYTES} bytes; got {len(key)}")
        self._own_key = key
        self._own_random = random
        self._context = AuthContext()
        self._links: GuestLinks | None = None

    async def prepare(self, context: AuthContext) -> None:
        self._context = context
        self._links = GuestLinks(context.store)

    def authenticate(self, credential: str, approach: Approach) -> Identity | Awaitable[Identity]:
        """A new guest for an empty credential, else the guest it was issued to, unless they have an account now."""
        identity = self.prove(credential)
        if not credential or self._links is None:
            return identity
        return self._unless_linked(identity, self._links)

    def prove(self, credential: str) -> Identity:
        """The same by the credential alone: whether the guest has an account is not looked up."""
        if not credential:
            player_id = new_guest_id(self._own_random or self._context.random)
            return Identity(player_id, credential=f"{player_id}.{self._secret(player_id)}")
        player_id, _, secret = credential.rpartition(".")
        if not player_id or not hmac.compare_digest(_bytes(secret), _bytes(self._secret(player_id))):
            raise NotAuthentic("this guest credential was not issued here; sign in without one to become a new guest")
        return Identity(player_id, credential=credential)

    async def _unless_linked(self, identity: Identity, links: GuestLinks) -> Identity:
        if await links.is_linked(identity.player_id):
            raise NotAuthentic("this guest has an account now; sign in with that")
        return identity

    def _secret(self, player_id: str) -> str:
        key = self._own_key or self._context.secret
        if not key:
            raise RuntimeError("guests need a key: Guest(key), or a server, which has its own")
        return printable(hmac.digest(key, _bytes(player_id), hashlib.sha256))


def _bytes(text: str) -> bytes:
    # Surrogates are encoded too: such text is refused like any other that was not issued.
    return text.encode("utf-8", "surrogatepass")
