"""Several nodes of a cluster in one process and virtual time, and a game that says where it is played."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import wraps
from random import Random
from typing import Any, Self

import msgspec

from holdfast import Message, Player, PlayerData, Room, on
from holdfast.client.session import ClientSession
from holdfast.core.limits import Limits
from holdfast.schemas.cluster import Question
from holdfast.server.cluster.edge import Edge
from holdfast.server.cluster.migration import Migration
from holdfast.testing import run
from holdfast.testing.bus import BusNetwork, MemoryBus
from holdfast.testing.network import Network
from holdfast.testing.server import MemoryServer, generous
from holdfast.testing.store import Disk, FaultyStore


class Say(Message):
    text: str


class Said(Message):
    text: str
    number: int


class Hero(PlayerData):
    count: int = 0


class Board(msgspec.Struct):
    said: list[str] = []


class Table(Room[Hero]):
    """Numbers what everybody says, and repeats it to all."""

    durability = "commit"
    max_players = 8
    messages = (Said,)
    state: Board
    story: list[str]

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Board()

    def on_drop(self, player: Player[Hero]) -> None:
        self.state.said.append(f"drop {player.id}")

    @on(Say)
    def say(self, player: Player[Hero], say: Say) -> None:
        player.data.count += 1
        self.state.said.append(f"{player.id}:{say.text}")
        self.broadcast(Said(f"{player.id}:{say.text}", len(self.state.said)))


class Lounge(Table):
    """The same in memory: it ends with its node."""

    kind = "lounge"
    durability = "memory"  # type: ignore[assignment]  # of a literal that is narrower there


class Nodes:
    """A cluster: `nodes.a`, `nodes.b` … are its servers."""

    def __init__(self, names: str = "abc", *, seed: int = 0, limits: Limits | None = None, **options: Any) -> None:
        self.network = Network(Random(f"{seed}/network"))
        self.buses = BusNetwork()
        self.disk = Disk()
        self.limits = limits or generous()
        self._seed = seed
        self._options = options
        self._stack = AsyncExitStack()
        self.servers = {name: self.server(name) for name in names}

    def server(self, name: str) -> MemoryServer:
        options: dict[str, Any] = {"limits": self.limits, **self._options}
        if callable(auth := options.pop("auth", None)):
            # Each node has authenticators of its own.
            options["auth"] = auth()
        if callable(region := options.pop("region", None)):
            options["region"] = region(name)
        if callable(advertise := options.pop("advertise", None)):
            options["advertise"] = advertise(name)
        return MemoryServer(
            options.pop("rooms", (Table, Lounge)),
            seed=self._seed,
            network=self.network,
            name=name,
            cluster=self.buses,
            store=self.store(),
            **options,
        )

    def store(self) -> FaultyStore:
        """The store that all nodes have."""
        return FaultyStore(self.disk)

    def __getattr__(self, name: str) -> MemoryServer:
        return self.servers[name]

    async def __aenter__(self) -> Self:
        await asyncio.gather(*(server.start() for server in self.servers.values()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self.servers.values():
            for client in server.clients:
                await client.close()
        for server in self.servers.values():
            if server.is_running:
                await server.stop()

    async def connect(self, player: str, *names: str) -> ClientSession:
        """A client that knows the addresses of these nodes, and tries the first one first."""
        urls = [self.servers[name].address for name in names or self.servers]
        return await self.servers[(names or tuple(self.servers))[0]].connect(
            player, url=urls if len(urls) > 1 else urls[0], messages=[Said]
        )

    def where(self, room_id: str) -> list[str]:
        """The names of the nodes that have a room."""
        return [
            name for name, server in self.servers.items() if server.is_running and server.rooms.get(room_id) is not None
        ]

    def bus(self, name: str) -> MemoryBus:
        """The link of a node to the others."""
        cluster = self.servers[name].parts.cluster
        assert cluster is not None
        assert isinstance(cluster.node.bus, MemoryBus)
        return cluster.node.bus

    def edge(self, name: str) -> Edge:
        """What relays the clients that come to a node."""
        cluster = self.servers[name].parts.cluster
        assert cluster is not None
        return cluster.edge

    def migration(self, name: str) -> Migration:
        """What moves the rooms of a node."""
        cluster = self.servers[name].parts.cluster
        assert cluster is not None
        return cluster.migration

    def where_session(self, session_id: str) -> list[str]:
        return [
            name
            for name, server in self.servers.items()
            if server.is_running and server.sessions.get(session_id) is not None
        ]


def store_of(nodes: Nodes, name: str) -> FaultyStore:
    """A node's way to the disk of all."""
    committer = nodes.servers[name].parts.committer
    assert committer is not None
    assert isinstance(committer.store, FaultyStore)
    return committer.store


def in_virtual_time(test: Callable[..., Any]) -> Callable[..., Any]:
    """Run a test in virtual time."""

    @wraps(test)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return run(test(*args, **kwargs))

    return wrapped


async def until(holds: Callable[[], bool], within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.01)


async def soon(holds: Callable[[], bool]) -> None:
    """Wait until something holds, within this moment."""
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never held")


def asks(name: str) -> Callable[[bytes], bool]:
    """Whether a question between nodes has this name."""
    return lambda payload: payload.startswith(b"\x92") and msgspec.msgpack.decode(payload, type=Question).name == name
