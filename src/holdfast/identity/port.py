"""The contract of an authenticator: identity is proven, never merely claimed.

An authenticator needs a scheme and `authenticate`, no more. It offers more by having the methods of one of the small
protocols below: `Preparing`, `Closing`, `Linkable`, `Accounts`, `Issuing`.
"""

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Any, Protocol, runtime_checkable

from holdfast.core.errors import HoldfastError
from holdfast.core.limits import Limits
from holdfast.schemas.account import AccountInfo, TicketInfo
from holdfast.stores.memory import MemoryData, MemoryStore
from holdfast.stores.port import Store


class NotAuthentic(HoldfastError):
    """The credential proves nothing. The client is told this message only: say in it what to do."""


class Busy(HoldfastError):
    """The credential cannot be checked now; the client is told when to try again."""

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
    """When the credential was issued, in seconds since 1970, if known: credentials issued earlier may be revoked."""
    data: Any = None
    """For `session.data`: what the game wants to know of the player from the start."""

    def __repr__(self) -> str:
        return f"Identity({self.player_id!r}, roles={sorted(self.roles)})"


@dataclass(frozen=True, slots=True)
class Approach:
    """What is known of a client that signs in, beside its credential."""

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

        `NotAuthentic` if it proves none, `Refused` if the player may not enter, `Busy` if it cannot be checked now. An
        error of the context's store (`StoreError`) counts as `Busy`.
        """


def memory_store(limits: Limits) -> Store:
    """An open store in memory for authenticators of a server without a store; it has `records_in_memory_max`."""
    return MemoryStore(MemoryData(entries_max=limits.records_in_memory_max), is_open=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthContext:
    """What a server gives its authenticators when it starts. The defaults are for use without a server."""

    secret: bytes = field(default=b"", repr=False)
    """The server's own, the same after a restart if it has a store; empty without a server."""
    random: Random = field(default_factory=SystemRandom)
    now: Callable[[], float] = time.monotonic
    """For waits: it never jumps."""
    wall_clock: Callable[[], float] = time.time
    """Seconds since 1970."""
    limits: Limits = field(default_factory=Limits)
    store: Store = field(default_factory=lambda: memory_store(Limits()))
    """For records: the server's store, or a bounded one in memory."""


@runtime_checkable
class Preparing(Protocol):
    """An authenticator that uses something of the server."""

    async def prepare(self, context: AuthContext) -> None:
        """Called at each start of the server."""


@runtime_checkable
class Closing(Protocol):
    """An authenticator that holds threads or connections and must release them."""

    async def close(self) -> None:
        """The server has stopped; it may start again."""


@runtime_checkable
class Linkable(Protocol):
    """An authenticator whose credentials a guest can be linked to, to be the same player with an account."""

    async def link(self, credential: str, approach: Approach, player_id: str) -> Identity:
        """Let this credential prove the guest from now on. Doing it again changes nothing.

        `NotAuthentic` if it proves nothing, `Conflict` if it proves another player already, or the guest was linked
        before. The mark that the guest is linked (`GuestLinks.mark`) must be written in the same commit.
        """


@runtime_checkable
class Accounts(Protocol):
    """An authenticator that keeps accounts. Refusals: `Invalid`, `NotFound`, `Conflict`; and `Busy`."""

    async def create_account(self, name: str, password: str, *, player_id: str, roles: Iterable[str]) -> AccountInfo:
        """Create one; without a player id it gets one when it is first used."""

    async def get_account(self, name: str) -> AccountInfo:
        """Look one up."""

    async def set_password(self, name: str, password: str) -> AccountInfo:
        """Change its password."""

    async def delete_account(self, name: str) -> AccountInfo:
        """Delete it, and return what it was."""


@runtime_checkable
class Issuing(Protocol):
    """An authenticator that issues credentials."""

    def issue_ticket(self, player_id: str, *, roles: Iterable[str], ttl_s: float | None) -> TicketInfo:
        """A credential for this player, valid for so long; `Invalid` if it cannot be issued."""
