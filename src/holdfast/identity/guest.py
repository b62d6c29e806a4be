"""Guests: the server makes up the player id and a secret that proves it; the id alone proves nothing.

The secret is a keyed hash of the id, so nothing is kept per guest. Give every node the same key, and keep it across
restarts, if guests are to be known again.
"""

import hashlib
import hmac
from random import Random

from holdfast.core.tokens import TOKEN_BYTES, printable
from holdfast.identity.port import Approach, Identity, NotAuthentic

_ID_BYTES = 9


class Guest:
    """The authenticator for players without an account."""

    scheme = "guest"

    def __init__(self, key: bytes, random: Random) -> None:
        if len(key) < TOKEN_BYTES:
            raise ValueError(f"the key for guests needs at least {TOKEN_BYTES} bytes; got {len(key)}")
        self._key = key
        self._random = random

    def authenticate(self, credential: str, approach: Approach) -> Identity:
        """A new guest for an empty credential, else the guest it was issued to."""
        if not credential:
            player_id = "guest-" + printable(self._random.randbytes(_ID_BYTES))
            return Identity(player_id, credential=f"{player_id}.{self._secret(player_id)}")
        player_id, _, secret = credential.rpartition(".")
        if not player_id or not hmac.compare_digest(_bytes(secret), _bytes(self._secret(player_id))):
            raise NotAuthentic("this guest credential was not issued here; sign in without one to become a new guest")
        return Identity(player_id, credential=credential)

    def _secret(self, player_id: str) -> str:
        return printable(hmac.digest(self._key, _bytes(player_id), hashlib.sha256))


def _bytes(text: str) -> bytes:
    # Also for text that is no Unicode: it is refused like any other that was not issued.
    return text.encode("utf-8", "surrogatepass")
