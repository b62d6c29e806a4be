"""The keys of an issuer: given from the start, or fetched from it, with a limit on how often.

Anybody can send a token that names a key which does not exist. So an unknown key causes a fetch only once in a while,
one at a time, in a thread; if that fails, the known keys stay valid. A site that answers byte by byte blocks that
thread only: neither those who sign in nor the end of the process.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.client import HTTPException, HTTPMessage
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, Protocol
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from holdfast.core.limits import Limits
from holdfast.identity.port import AuthContext, Busy
from holdfast.logs import get_logger

if TYPE_CHECKING:
    from holdfast.identity.signatures import Key

log = get_logger("holdfast.identity")

_CHUNK_BYTES = 16 * 1024


class IssuerKeys(Protocol):
    """Where a `Jwt` looks for keys."""

    async def prepare(self, context: AuthContext) -> None:
        """The server starts."""

    async def close(self) -> None:
        """The server has stopped."""

    async def find(self, kid: str, algorithm: str) -> "list[Key]":
        """The keys for a token that names this key, or none (empty); `Busy` if no keys are known yet."""


def _fitting(keys: "Sequence[Key]", kid: str, algorithm: str) -> "list[Key]":
    return [key for key in keys if key.fits(algorithm) and (not kid or kid == key.kid)]


class KnownKeys:
    """Keys that were given. They have no names, so the `kid` of a token is ignored."""

    def __init__(self, keys: "Sequence[Key]") -> None:
        self._keys = keys

    async def prepare(self, context: AuthContext) -> None:
        """There is nothing to do."""

    async def close(self) -> None:
        """There is nothing to do."""

    async def find(self, kid: str, algorithm: str) -> "list[Key]":
        """All that fit."""
        return _fitting(self._keys, "", algorithm)


class FetchedKeys:
    """Keys that are read from somewhere else, which may change."""

    def __init__(self, where: str, load: "Callable[[Limits], list[Key]]") -> None:
        self._where = where
        self._load = load
        self._reset(AuthContext())

    def _reset(self, context: AuthContext) -> None:
        self._context = context
        self._keys: list[Key] = []
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._fetch: asyncio.Task[None] | None = None

    async def prepare(self, context: AuthContext) -> None:
        """Fetch them once. If that fails, the server starts all the same."""
        await self.close()
        self._reset(context)
        await self._refresh()

    async def close(self) -> None:
        """Fetch no more."""
        if self._fetch is not None:
            self._fetch.cancel()
            self._fetch = None

    async def find(self, kid: str, algorithm: str) -> "list[Key]":
        """The known keys that fit; if there are none, those after another fetch."""
        found = _fitting(self._keys, kid, algorithm)
        if found:
            if self._is_old:
                self._begin()
            return found
        await self._refresh()
        if self._fetched_at is None:
            raise Busy("the keys of the issuer are not known at the moment", self._context.limits.issuer_keys_pause_s)
        return _fitting(self._keys, kid, algorithm)

    @property
    def _is_old(self) -> bool:
        limits, now = self._context.limits, self._context.now()
        return self._fetched_at is None or now - self._fetched_at >= limits.issuer_keys_s

    async def _refresh(self) -> None:
        fetch = self._begin()
        if fetch is not None:
            # It is for all who wait, and goes on if one of them does not any more.
            await asyncio.wait([fetch], timeout=self._context.limits.issuer_keys_timeout_s)

    def _begin(self) -> asyncio.Task[None] | None:
        """The fetch that is under way, or a new one; None if the last was a short while ago."""
        if self._fetch is not None and not self._fetch.done():
            return self._fetch
        now = self._context.now()
        if self._tried_at is not None and now - self._tried_at < self._context.limits.issuer_keys_pause_s:
            return None
        self._tried_at = now
        self._fetch = asyncio.create_task(self._fetch_once(), name=f"keys from {self._where}")
        return self._fetch

    async def _fetch_once(self) -> None:
        loaded: asyncio.Future[list[Key]] = asyncio.get_running_loop().create_future()
        Thread(target=self._load_into, args=(loaded,), name=f"keys from {self._where}", daemon=True).start()
        try:
            keys = await loaded
        except (OSError, ValueError, HTTPException) as error:
            log.warning("the keys of an issuer could not be fetched", where=self._where, error=error)
            return
        if not keys:
            log.warning("an issuer has no key that is of use", where=self._where)
            return
        self._keys = keys
        self._fetched_at = self._context.now()

    def _load_into(self, loaded: "asyncio.Future[list[Key]]") -> None:
        """In the thread. The caller may be gone when it is done, and the event loop too."""
        keys: list[Key] | Exception
        try:
            keys = self._load(self._context.limits)
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            keys = error
        with suppress(RuntimeError):
            loaded.get_loop().call_soon_threadsafe(_tell, loaded, keys)


def _tell(loaded: "asyncio.Future[list[Key]]", keys: "list[Key] | Exception") -> None:
    if loaded.done():
        return
    if isinstance(keys, Exception):
        loaded.set_exception(keys)
    else:
        loaded.set_result(keys)


# Where from


def check_url(url: str) -> None:
    """`ValueError` unless keys are fetched over https, or from this machine."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError(f"{url!r} is not a URL of keys")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the URL of keys must not contain a user name or a password")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname)):
        raise ValueError(f"keys are fetched over https, or from this machine: {url!r}")


def shown(url: str) -> str:
    """An address as it may be logged: what follows the path may be secret."""
    return url.partition("?")[0]


def _is_loopback(hostname: str) -> bool:
    try:
        return ip_address(hostname).is_loopback
    except ValueError:
        return hostname == "localhost"


class _StayHere(HTTPRedirectHandler):
    """Follows no redirects: another URL would have to be checked like the first."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _opener(url: str) -> OpenerDirector:
    # Unencrypted requests stay on this machine: no proxy may see or change them.
    return build_opener(_StayHere, *([] if url.startswith("https:") else [ProxyHandler({})]))


def fetch_url(url: str, limits: Limits) -> bytes:
    """What is at an address, within a time and a size; `OSError`, `HTTPException` or `ValueError` otherwise."""
    ends_at = time.monotonic() + limits.issuer_keys_timeout_s
    request = Request(url, headers={"Accept": "application/json"})  # noqa: S310 - see `check_url`
    try:
        with _opener(url).open(request, timeout=limits.issuer_keys_timeout_s) as response:
            document = b""
            while chunk := response.read1(_CHUNK_BYTES):
                document += chunk
                check_size(document, limits)
                if time.monotonic() > ends_at:
                    raise TimeoutError(f"not all of it came within {limits.issuer_keys_timeout_s:g} s")
            return document
    except HTTPError as error:
        error.close()
        raise


def read_file(path: Path, limits: Limits) -> bytes:
    """What is in a file."""
    with path.open("rb") as file:
        document = file.read(limits.issuer_keys_bytes_max + 1)
    check_size(document, limits)
    return document


def check_size(document: bytes, limits: Limits) -> None:
    """Refuse what is larger than a set of keys can be."""
    if len(document) > limits.issuer_keys_bytes_max:
        raise ValueError(f"there are more than {limits.issuer_keys_bytes_max} bytes")
