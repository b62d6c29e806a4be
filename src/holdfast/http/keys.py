"""API keys and their scopes. A key itself is never kept, logged or compared; its hash is."""

import hashlib
import hmac
import re
from collections.abc import Iterable
from enum import Enum

KEY_CHARS_MIN = 16
# What RFC 6750 allows in a header.
_SENDABLE = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class Scope(Enum):
    """What a key may do. Each includes those before it."""

    READ = "read"
    """Read everything: rooms and their codes, sessions, players."""
    ROOMS = "rooms"
    """Create, change and end rooms; reserve seats; start and stop placements."""
    ADMIN = "admin"
    """Kick players, end sessions, ban and sign out: whatever takes something from a player. Accounts and tickets."""

    def includes(self, other: "Scope") -> bool:
        """Whether a key with this scope may do what the other allows."""
        order = list(Scope)
        return order.index(self) >= order.index(other)


class ApiKey:
    """A key and its scopes, as in `ApiKey(secret, ["read"])`."""

    __slots__ = ("digest", "scopes")

    def __init__(self, secret: str, scopes: Iterable[Scope | str]) -> None:
        if len(secret) < KEY_CHARS_MIN:
            raise ValueError(
                f"an API key needs at least {KEY_CHARS_MIN} characters; got {len(secret)}. "
                'Make one with: python -c "import secrets; print(secrets.token_urlsafe())"'
            )
        if not _SENDABLE.fullmatch(secret):
            raise ValueError("an API key consists of letters, digits and - . _ ~ + / (and = at its end)")
        self.digest = _digest(secret)
        # A single word would be taken for its letters.
        self.scopes = frozenset(_scope(scope) for scope in ([scopes] if isinstance(scopes, str) else scopes))
        if not self.scopes:
            raise ValueError(f"an API key needs a scope: {_known()}")

    def __repr__(self) -> str:
        return f"ApiKey(***, {sorted(scope.value for scope in self.scopes)})"

    def opens(self, scope: Scope) -> bool:
        """Whether this key may do what needs that scope."""
        return any(own.includes(scope) for own in self.scopes)


def find_key(keys: Iterable[ApiKey], secret: str) -> ApiKey | None:
    """The key with this secret. All are compared, so that the time tells nothing."""
    digest = _digest(secret)
    found = None
    for key in keys:
        if hmac.compare_digest(key.digest, digest):
            found = key
    return found


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _scope(scope: Scope | str) -> Scope:
    try:
        return Scope(scope)
    except ValueError:
        raise ValueError(f"there is no scope {scope!r}: {_known()}") from None


def _known() -> str:
    return ", ".join(scope.value for scope in Scope)
