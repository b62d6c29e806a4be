"""Password hashing: argon2id in a few threads, with a bounded queue and a bound for each address.

One check takes 19 MiB and about 50 ms of a core: nothing that an unauthenticated client can ask for costs more. So
the checks that run and those that wait are limited, and further ones are refused with a time to retry.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

from holdfast.core.addresses import address_group
from holdfast.core.limits import KIB, Limits
from holdfast.identity.port import Busy

if TYPE_CHECKING:
    from argon2 import PasswordHasher

T = TypeVar("T")

# A check is quick, but many wait.
_RETRY_AFTER_S = 2.0
_ADDRESS_RETRY_AFTER_S = 1.0


class Hashing(Protocol):
    """Hashes passwords. Each may raise `Busy`."""

    async def hash(self, password: bytes) -> str:
        """A new hash, salted, for a record."""

    async def verify(self, known: str, password: bytes) -> bool:
        """Whether this is the password; an empty hash takes as long and matches none."""

    def is_outdated(self, known: str) -> bool:
        """Whether the hash was made with other settings than ours."""

    def close(self) -> None:
        """Give up threads and memory until the next password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argon2Settings:
    """What a hash costs. The defaults are OWASP's least: 19 MiB, two passes, one lane."""

    memory_kib: int = 19 * KIB
    passes: int = 2
    lanes: int = 1

    def __post_init__(self) -> None:
        if self.passes < 1 or self.lanes < 1 or self.memory_kib < 8 * self.lanes:
            raise ValueError("argon2 needs a pass, a lane, and 8 KiB of memory for each lane")


class Argon2Hashing:
    """Hashes with argon2id in threads."""

    def __init__(self, settings: Argon2Settings, limits: Limits) -> None:
        self._settings = settings
        self._in_all_max = limits.password_checks_max + limits.password_checks_waiting_max
        self._in_all = 0
        self._threads_max = limits.password_checks_max
        self._threads: ThreadPoolExecutor | None = None

    @cached_property
    def _hasher(self) -> "PasswordHasher":
        # Imported for the first password: most programs never check one.
        from argon2 import PasswordHasher  # noqa: PLC0415

        settings = self._settings
        return PasswordHasher(time_cost=settings.passes, memory_cost=settings.memory_kib, parallelism=settings.lanes)

    @cached_property
    def _nobodys(self) -> str:
        """Unknown names are checked against this: as much work, and no password matches."""
        settings = self._settings
        sizes = (self._hasher.salt_len, self._hasher.hash_len)
        salt, digest = (b64encode(bytes(size)).rstrip(b"=").decode() for size in sizes)
        return f"$argon2id$v=19$m={settings.memory_kib},t={settings.passes},p={settings.lanes}${salt}${digest}"

    async def hash(self, password: bytes) -> str:
        return await self._in_thread(lambda: self._hasher.hash(password))

    async def verify(self, known: str, password: bytes) -> bool:
        return await self._in_thread(lambda: self._is(known or self._nobodys, password)) and bool(known)

    def _is(self, known: str, password: bytes) -> bool:
        from argon2.exceptions import InvalidHashError, VerificationError  # noqa: PLC0415 - as above

        try:
            return self._hasher.verify(known, password)
        except (VerificationError, InvalidHashError):
            return False

    def is_outdated(self, known: str) -> bool:
        from argon2.exceptions import InvalidHashError  # noqa: PLC0415 - as above

        try:
            return self._hasher.check_needs_rehash(known)
        except InvalidHashError:
            return True

    def close(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            # They end when they are done with what they do.
            threads.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._in_all >= self._in_all_max:
            raise Busy("too many passwords are being checked at the moment", _RETRY_AFTER_S)
        self._in_all += 1
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._threads_max, "holdfast passwords")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._in_all -= 1


class ChecksPerAddress:
    """Limits how many checks run at a time for one address (IPv6: one /64 network)."""

    def __init__(self, checks_max: int) -> None:
        self._checks_max = checks_max
        self._running: dict[str, int] = {}

    @contextmanager
    def one(self, address: str) -> Iterator[None]:
        """Count one check of this address until it is done; `Busy` if it has too many."""
        network = address_group(address)
        running = self._running.get(network, 0)
        if running >= self._checks_max:
            raise Busy("too many passwords are being checked for this address at the moment", _ADDRESS_RETRY_AFTER_S)
        self._running[network] = running + 1
        try:
            yield
        finally:
            self._running[network] -= 1
            if not self._running[network]:
                del self._running[network]
