"""The contract of an authenticator: who is this? Identity is proven, never merely claimed.

An authenticator needs no more than a scheme and `authenticate`. What else it can do, it says by having the methods of
a small protocol: `Preparing` (ground.py), and below `Closing`, `Linkable`, `Accounts`, `Issuing`.
"""

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from holdfast.core.errors import HoldfastError
from holdfast.schemas.account import AccountInfo, TicketInfo


class NotAuthentic(HoldfastError):
    """The credential proves nothing. The client hears only this sentence: make it say what to do."""


class Busy(HoldfastError):
    """Whether the credential proves anything cannot be found out now: the client is told when to come back."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


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
        """The identity that this credential proves.

        `NotAuthentic` if it proves none, `Refused` if they may not in, `Busy` if that cannot be found out now.
        """


@runtime_checkable
class Closing(Protocol):
    """An authenticator that holds something that must be let go: threads, connections."""

    async def close(self) -> None:
        """The server has stopped; it may start again."""


@runtime_checkable
class Linkable(Protocol):
    """An authenticator whose credentials a guest can be linked to, to be the same player with an account."""

    async def link(self, credential: str, approach: Approach, player_id: str) -> Identity:
        """Let this credential prove the guest from now on. Doing it again changes nothing.

        `NotAuthentic` if it proves nothing, `Conflict` if it proves another player already, or the guest was linked
        before. The guest's mark (`Links.mark`) must be written in the same breath.
        """


@runtime_checkable
class Accounts(Protocol):
    """An authenticator that keeps accounts. Refusals: `Invalid`, `NotFound`, `Conflict`; and `Busy`."""

    async def create_account(self, name: str, password: str, *, player_id: str, roles: Iterable[str]) -> AccountInfo:
        """Make one; without a player it gets one when it is first used."""

    async def get_account(self, name: str) -> AccountInfo:
        """Look at one."""

    async def set_password(self, name: str, password: str) -> AccountInfo:
        """Change its password."""

    async def delete_account(self, name: str) -> AccountInfo:
        """Delete it; what it was."""


@runtime_checkable
class Issuing(Protocol):
    """An authenticator that issues credentials."""

    def issue_ticket(self, player_id: str, *, roles: Iterable[str], ttl_s: float | None) -> TicketInfo:
        """A credential for this player, good for so long; `Invalid` if it cannot be made."""
