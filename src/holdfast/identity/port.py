"""The contract of an authenticator: who is this? Identity is proven, never merely claimed."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.core.errors import HoldfastError


class NotAuthentic(HoldfastError):
    """The credential proves nothing. The client hears only this sentence: make it say what to do."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A proven player, and the credential (a secret) to hand back to the client, if it was given a new one."""

    player_id: str
    roles: frozenset[str] = frozenset()
    credential: str = ""
    issued_at: float | None = None
    """When the credential was issued, in seconds since 1970, if it says so: an older one may have been revoked."""
    data: Any = None
    """For `session.data`: what the game wants to know of the player from the start."""

    def __repr__(self) -> str:
        return f"Identity({self.player_id!r}, roles={sorted(self.roles)})"


@dataclass(frozen=True, slots=True)
class Approach:
    """What is known of who wants in, beside the credential."""

    address: str = ""
    transport: str = ""
    is_encrypted: bool = False


class Authenticator(Protocol):
    """Proves the credentials of one scheme. May answer at once or take its time, up to `Limits.auth_s`."""

    @property
    def scheme(self) -> str:
        """The name clients ask for it by."""

    def authenticate(self, credential: str, approach: Approach) -> Identity | Awaitable[Identity]:
        """The identity that this credential proves; `NotAuthentic` if it proves none, `Refused` if they may not in."""
