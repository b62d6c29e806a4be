"""A whole server and its clients in one process, with no socket: the real classes on a network that can be broken."""

import asyncio
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from holdfast.client.session import ClientSession, connect
from holdfast.core.frames import Auth
from holdfast.core.limits import Limits
from holdfast.core.room import Room
from holdfast.identity.port import Authenticator, Identity, NotAuthentic
from holdfast.server.server import DIALECTS, Server, transport_limits
from holdfast.testing.network import Dialer, Link, Network
from holdfast.transports.port import Listener

URL = "memory://server"
"""The one address of a test's network."""

# The key of the guests, the same in every run.
_SECRET = bytes(32)


class Named:
    """An authenticator that believes a name, so that a test can say who is who. Never let the public in with it."""

    scheme = "name"

    def authenticate(self, credential: str) -> Identity:
        """The player with this name."""
        if not credential:
            raise NotAuthentic("a name is needed: server.connect('ada')")
        return Identity(credential)


class MemoryServer(Server):
    """A server for tests. `connect` makes clients of it; leaving the block closes them, then the server."""

    def __init__(  # noqa: PLR0913 - settings, all by keyword
        self,
        rooms: Iterable[type[Room[Any]]],
        *,
        seed: int | str = 0,
        network: Network | None = None,
        auth: Sequence[Authenticator] = (Named(),),
        grace_s: float = 30.0,
        limits: Limits | None = None,
    ) -> None:
        """Everything that is left to chance follows from `seed`: ids, tokens, jitter, the network."""
        random = Random(f"{seed}/server")
        super().__init__(
            rooms,
            port=None,
            tcp_port=None,
            auth=auth,
            secret=_SECRET,
            grace_s=grace_s,
            limits=limits,
            random=random,
            now=lambda: asyncio.get_running_loop().time(),
        )
        self.limits = limits or Limits()
        self.network = network or Network(Random(f"{seed}/network"))
        self._seed = seed
        self._dialers: dict[ClientSession, Dialer] = {}
        self._door: Listener | None = None

    async def start(self) -> None:
        """Open the door in the network."""
        await super().start()
        self._door = await self.network.listen(
            self.node.accept, URL, dialects=DIALECTS, limits=transport_limits(self.limits)
        )

    async def stop(self) -> None:
        """Close the clients that are left, then the server."""
        for client in self.clients:
            await client.close()
        if self._door is not None:
            await self._door.close()
        await super().stop()

    async def __aenter__(self) -> "MemoryServer":
        await self.start()
        return self

    async def connect(self, name: str = "", **options: Any) -> ClientSession:
        """A client for the player with this name; the options are those of `holdfast.connect`."""
        number = len(self._dialers)
        dialer = options.setdefault("dial", self.network.dialer(name or f"client {number}"))
        options.setdefault("auth", Auth(Named.scheme, name) if name else None)
        options.setdefault("random", Random(f"{self._seed}/client/{number}"))
        options.setdefault("limits", self.limits)
        client = await connect(URL, **options)
        self._dialers[client] = dialer
        return client

    @property
    def clients(self) -> list[ClientSession]:
        """Every client that was ever connected, oldest first."""
        return list(self._dialers)

    def dialer(self, client: ClientSession) -> Dialer:
        """A client's way into the network."""
        return self._dialers[client]

    def link(self, client: ClientSession) -> Link:
        """A client's newest link: the thing to break."""
        return self._dialers[client].link
