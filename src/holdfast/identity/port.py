"""The contract of an authenticator: identity is proven, never merely claimed.

An authenticator needs a scheme and `authenticate`, no more. It offers more by having the methods of one of the small
protocols below: `Preparing`, `Closing`, `Linkable`.
"""

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Any, Protocol, runtime_checkable

from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.limits import Limits
from holdfast.core.tokens import printable
from holdfast.schemas.player import AGENT_PREFIX, PLAYER_CHARS_MAX
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
    account: str = ""
    """The name of the player's account, for operators and `session.account`; empty without one."""

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


class AuthNews:
    """What the authenticators of all nodes of a cluster tell each other at once; without a cluster, nobody hears it."""

    def __init__(self) -> None:
        self.send: Callable[[str, bytes], None] = lambda _name, _body: None
        """Tells the other nodes; set where the server is composed."""
        self._heard: dict[str, Callable[[bytes], None]] = {}

    def tell(self, name: str, body: bytes) -> None:
        """Tell all other nodes."""
        self.send(name, body)

    def hear(self, name: str, heard: Callable[[bytes], None]) -> None:
        """Call this with what other nodes tell by this name."""
        self._heard[name] = heard

    def heard(self, name: str, body: bytes) -> None:
        """Another node has told this."""
        if (heard := self._heard.get(name)) is not None:
            heard(body)


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
    is_shared: bool = False
    """Whether other nodes use the same store: this one is a node of a cluster."""
    news: AuthNews = field(default_factory=AuthNews)


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


# Player ids and roles

ROLES_MAX = 32
ROLE_CHARS_MAX = 64
ACCOUNT_CHARS_MAX = 128

# The beginnings of the ids that the server generates.
_GUEST, _PLAYER = "guest-", "player-"
_ID_BYTES = 9
_ID_CHARS = len(printable(bytes(_ID_BYTES)))


def new_guest_id(random: Random) -> str:
    """The id of a guest who has never been here."""
    return _GUEST + printable(random.randbytes(_ID_BYTES))


def new_player_id(random: Random) -> str:
    """The id of a player with an account."""
    return _PLAYER + printable(random.randbytes(_ID_BYTES))


def is_guest(player_id: str) -> bool:
    """Whether this is, or once was, a guest: such ids are generated by the server."""
    return player_id.startswith(_GUEST)


def is_generated(player_id: str) -> bool:
    """Whether this looks like an id that the server generates: an outside identity must not be called so."""
    return is_guest(player_id) or (player_id.startswith(_PLAYER) and len(player_id) == len(_PLAYER) + _ID_CHARS)


def is_player_id(text: str) -> bool:
    """Whether an authenticator may issue this player id: one line of printable text, shown in logs and lists.

    It is also part of URLs, in which "." and ".." are folded away, however they are written. Ids of agents, in any
    case of their letters, are not issued to people.
    """
    is_text = 0 < len(text) <= PLAYER_CHARS_MAX and text.isprintable() and text not in {".", ".."}
    return is_text and not text.casefold().startswith(AGENT_PREFIX)


def is_account_name(text: str) -> bool:
    """Whether this can be the name of an account, or none (empty): it is shown and saved with the session."""
    return len(text) <= ACCOUNT_CHARS_MAX and (text.isprintable() or not text)


def are_roles(roles: list[str]) -> bool:
    """Whether these can be a player's roles."""
    return len(roles) <= ROLES_MAX and all(0 < len(role) <= ROLE_CHARS_MAX and role.isprintable() for role in roles)


def checked_identity(answer: object, scheme: str) -> Identity:
    """What an authenticator has answered, if that can be a player; if not, it is a bug of the authenticator."""
    if not isinstance(answer, Identity):
        raise TypeError(f"the authenticator of {scheme!r} must answer with an Identity; a hook may with a player's id")
    player_id: object = answer.player_id
    if not isinstance(player_id, str) or not is_player_id(player_id) or not are_roles([*answer.roles]):
        raise ValueError(f"the authenticator of {scheme!r} answered with what cannot be a player's id or roles")
    account: object = answer.account
    if not isinstance(account, str) or not is_account_name(account):
        raise ValueError(f"the authenticator of {scheme!r} answered with what cannot be an account's name")
    return answer


def checked_player(player_id: str) -> str:
    """The player id for a new account, or none (empty); `Invalid` if it is not a player id."""
    if player_id and not is_player_id(player_id):
        raise Invalid(f"a player's id is one line of printable text, 128 characters at most; not {AGENT_PREFIX!r}…")
    return player_id


def checked_roles(roles: Iterable[str]) -> list[str]:
    """Roles, sorted and without duplicates; `Invalid` if one is not a role."""
    checked = sorted(set(roles))
    if not are_roles(checked):
        raise Invalid("at most 32 roles, each of 1 to 64 printable characters")
    return checked
