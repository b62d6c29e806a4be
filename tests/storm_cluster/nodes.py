"""The nodes as places: in each of them one life follows the other, at the same address."""

import asyncio
import signal
from pathlib import Path

from tests.ports import free_ports
from tests.storm.history import Writer
from tests.storm.life import Life, start
from tests.storm_cluster.network import NODES, Loopback, Namespaces

# How far the wall clock of each place is ahead of the right one.
CLOCKS_S = (0.0, 3600.0, -3600.0)


class NodeLife(Life):
    """One life of a node."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, news: asyncio.Event, history: Writer) -> None:
        self._history = history
        self.moves: dict[str, str] = {}
        """By room: how a move ended."""
        self.rooms: set[str] | None = None
        """What it has, once it has answered."""
        super().__init__(number, process, news)

    def said(self, word: str, rest: str) -> None:
        if word == "rooms":
            self.rooms = set(rest.split())
        elif word in {"moved", "stayed"}:
            room, _, why = rest.partition(" ")
            self.moves[room] = f"{word} {why}".strip()
        else:
            if word == "ready":
                self._history.note("ready", self.number)
            super().said(word, rest)


class Nodes:
    """Starts the nodes, and sends them signals."""

    def __init__(
        self,
        folder: Path,
        url: str,
        network: Loopback | Namespaces,
        history: Writer,
        news: asyncio.Event,
    ) -> None:
        self._folder = folder
        self._url = url
        self._network = network
        self._history = history
        self._news = news
        self._ports = free_ports(NODES)
        self.all: list[NodeLife] = []
        self.lives: dict[int, NodeLife] = {}
        """The last one at each place."""

    @property
    def urls(self) -> str:
        """Where clients reach them, with commas between."""
        return ",".join(f"ws://{self._network.host(n)}:{port}" for n, port in enumerate(self._ports))

    @staticmethod
    def name(place: int) -> str:
        """What a node is called."""
        return f"node{place}"

    async def start(self, place: int, *, python: str) -> NodeLife:
        """A new life at this place, run by this Python."""
        number = len(self.all)
        self._history.note("start", number, self.name(place))
        process = await start(
            "tests.storm_cluster.node",
            *(self._url, self._folder, number, self.name(place), self._network.host(place), self._ports[place]),
            CLOCKS_S[place],
            log=self._folder / f"life-{number}.log",
            python=(*self._network.prefix(place), python),
        )
        life = NodeLife(number, process, self._news, self._history)
        self.all.append(life)
        self.lives[place] = life
        return life

    def kill(self, place: int) -> None:
        """SIGKILL."""
        life = self.lives[place]
        life.signal(signal.SIGKILL)
        self._history.note("kill", life.number)

    def fell(self, place: int) -> None:
        """It has killed itself, as it was told to."""
        self._history.note("kill", self.lives[place].number)

    def stop(self, place: int) -> None:
        """SIGSTOP, until `go_on`."""
        life = self.lives[place]
        life.signal(signal.SIGSTOP)
        self._history.note("stop", life.number)

    def go_on(self, place: int) -> None:
        """SIGCONT."""
        life = self.lives[place]
        self._history.note("continue", life.number)
        life.signal(signal.SIGCONT)

    def ready(self, place: int) -> bool:
        """Whether the last life there listens, and has not ended."""
        life = self.lives[place]
        return life.port is not None and life.code is None

    async def end(self) -> None:
        """Kill what is left."""
        for life in self.all:
            if life.code is None:
                life.signal(signal.SIGCONT)
                life.signal(signal.SIGKILL)
            await life.ended()
