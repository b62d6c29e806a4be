"""The HTTP API as a setting of a server: its address, API keys and limits. This module imports neither Litestar nor
uvicorn, which take half a second: they are imported when the API opens, and never if it does not."""

import asyncio
import hashlib
import hmac
import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.addresses import is_loopback
from holdfast.core.limits import KIB, MIB
from holdfast.core.removed import removed
from holdfast.http.static import Folder
from holdfast.transports.listening import bind_to

if TYPE_CHECKING:
    # Not at run time: a command line that only needs the defaults would import the server.
    from holdfast.server.operations import Operations
    from holdfast.transports.listeners import Tls

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7778
KEY_CHARS_MIN = 16
_NAME_CHARS_MAX = 64
# What RFC 6750 allows in a header.
_SENDABLE = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of one API; pass a changed copy to widen or narrow them."""

    # A request is a few hundred bytes; the largest carries the latencies of a whole party.
    body_bytes_max: int = 64 * KIB
    # A room's id and a player's id, every letter of them escaped. The router remembers the last 1024 paths.
    path_bytes_max: int = 4 * KIB
    # The request line and the headers: the longest search with every letter escaped, and a browser's headers.
    head_bytes_max: int = 32 * KIB
    # From an open socket, or the first byte of a request, to its last byte; a slow-loris attack takes longer.
    request_s: float = 10.0
    # An idle connection is kept open for this long.
    idle_s: int = 5
    # Of backends and operators, not of players: in all, and from one address (or IPv6 network of 64 bits), so that no
    # address can take all of them. An idle connection is closed when a new one needs its place.
    connections_max: int = 512
    connections_per_address_max: int = 128

    # Event streams: how many there may be, how far each may fall behind, and how often a silent one is sent a comment.
    streams_max: int = 64
    stream_events_max: int = 4096
    stream_bytes_max: int = 1 * MIB
    heartbeat_s: float = 15.0

    # Sessions that GET /metrics shows one by one, chosen at random: each makes five series, which the database that
    # scrapes them keeps long after the session has ended.
    metrics_sessions_max: int = 0

    # How long a stop waits for responses that are being sent.
    stop_s: float = 2.0


# API keys: a key itself is never kept, logged or compared; its hash is.


class Scope(Enum):
    """What a key may do. Each includes those before it."""

    READ = "read"
    """Read everything: rooms and their codes, sessions, players."""
    ROOMS = "rooms"
    """Create, change and end rooms; reserve seats; start and stop placements."""
    ADMIN = "admin"
    """Kick players, end and limit sessions, ban, sign out, change roles: whatever gives a player something or takes it.
    Accounts and tickets."""

    def includes(self, other: "Scope") -> bool:
        """Whether a key with this scope may do what the other allows."""
        order = list(Scope)
        return order.index(self) >= order.index(other)


class ApiKey:
    """A key and its scopes, as in `ApiKey(secret, ["read"])`; its name says in events who did something."""

    __slots__ = ("digest", "name", "scopes")

    def __init__(self, secret: str, scopes: Iterable[Scope | str], *, name: str = "") -> None:
        if len(secret) < KEY_CHARS_MIN:
            raise ValueError(
                f"an API key needs at least {KEY_CHARS_MIN} characters; got {len(secret)}. "
                'Make one with: python -c "import secrets; print(secrets.token_urlsafe())"'
            )
        if not _SENDABLE.fullmatch(secret):
            raise ValueError("an API key consists of letters, digits and - . _ ~ + / (and = at its end)")
        if len(name) > _NAME_CHARS_MAX or not (name.isprintable() or not name):
            raise ValueError(f"the name of an API key has at most {_NAME_CHARS_MAX} printable characters")
        if secret in name:
            raise ValueError("the name of an API key is shown in events and logs: it must not contain the key")
        self.name = name
        self.digest = _digest(secret)
        # A single word would be taken for its letters.
        self.scopes = frozenset(_scope(scope) for scope in ([scopes] if isinstance(scopes, str) else scopes))
        if not self.scopes:
            raise ValueError(f"an API key needs a scope: {_known()}")

    def __repr__(self) -> str:
        name = f", name={self.name!r}" if self.name else ""
        return f"ApiKey(***, {sorted(scope.value for scope in self.scopes)}{name})"

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


# The API


def check_binding(host: str, *, has_keys: bool) -> None:
    """Raise `ValueError` if the API would be open to everybody: without a key, only this machine may use it."""
    if not has_keys and not is_loopback(host):
        raise ValueError(
            f"the HTTP API would be open to everybody at {host or 'every address'}: give it an API key, as in "
            'ApiKey(secrets.token_urlsafe(), ["admin"]), or let it listen at 127.0.0.1'
        )


async def bind(host: str, port: int, *, has_keys: bool) -> socket.socket:
    """A socket for the API, which does not listen yet; raises `OSError` if the address is taken."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    # Only now is it known which address a name stands for.
    check_binding(str(address[0]), has_keys=has_keys)
    sock = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix" and sys.platform != "cygwin":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        bind_to(sock, address)
    except OSError:
        sock.close()
        raise
    return sock


class HttpApi:
    """The address to listen on, and the keys; raises `ValueError` if it would be open to everybody."""

    @removed(ssl='give it the certificate itself, as in HttpApi(tls=Tls("cert.pem", "key.pem"))')
    def __init__(
        self,
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        *,
        keys: Sequence[ApiKey] = (),
        limits: HttpLimits | None = None,
        tls: "Tls | None" = None,
        web: Path | None = None,
        sockets: Sequence[socket.socket] = (),
    ) -> None:
        """With a certificate it serves https://; it may be that of the game's own ports.

        `sockets` are bound already, instead of one at `host` and `port`: several processes may have them.
        `web` is a folder with a game's own pages, shown under /play to this machine only.
        """
        check_binding(host, has_keys=bool(keys))
        if web is not None and not is_loopback(host):
            raise ValueError(
                f"the pages in {web} would have the same origin as the API: listen on 127.0.0.1, and put them on"
                " a web server for others"
            )
        self._host = host
        self._port = port
        self._keys = tuple(keys)
        self._limits = limits
        self.tls = tls
        """Its certificate, which the server renews with those of its ports."""
        self.web = web
        self._sockets = tuple(sockets)
        self._stops: list[Callable[[], Awaitable[None]]] = []

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"

    async def open(self, operations: "Operations") -> tuple[str, int]:
        """Start serving; returns the address. Raises `OSError` if it is in use."""
        folder = None
        if self.web is not None:
            folder = Folder(self.web, game_url=lambda: operations.node.settings().urls.get("websocket", ""))
        # By name, so that they are imported now, and not with this module.
        app = import_module("holdfast.http.app").App(operations, self._keys, self._limits, folder=folder)
        ssl = None if self.tls is None else self.tls.context
        addresses: list[tuple[str, int]] = []
        for listening in self._sockets or (None,):
            server = import_module("holdfast.http.serving").HttpServer(
                app, self._host, self._port, ssl=ssl, listening=listening
            )
            await server.start()
            self._stops.append(server.stop)
            addresses.append(server.address)
        return addresses[0]

    async def close(self) -> None:
        """Stop serving; streams end, and responses in progress get a moment."""
        stops, self._stops = self._stops, []
        for stop in stops:
            await stop()
