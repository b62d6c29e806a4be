"""A short game on real sockets, with everything in it that an operator would like to hear of, and what its node shows.

Run once for all tests: before and after its players have left.
"""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

import holdfast
from holdfast import ClientSession, HoldfastError, Limits, Message, Player, PlayerData, Room, Server, Tcp, WebSocket, on
from holdfast.http.api import HttpApi, HttpLimits
from tests.deadlines import DEADLINE_S
from tests.server.world import NoJitter


class Say(Message):
    text: str


class Arena(Room[PlayerData]):
    tick_hz = 50

    @on(Say)
    def said(self, player: Player[PlayerData], say: Say) -> None:
        self.broadcast(say)


class Vault(Arena):
    durability = "commit"
    tick_hz = 0


class Ruin(Room[PlayerData]):
    def on_create(self, config: dict[str, Any]) -> None:
        raise RuntimeError("it falls down")


@dataclass(frozen=True)
class Family:
    """One metric as it was scraped: its series by their full names, with the labels and values of each."""

    name: str
    type: str
    help: str
    series: dict[str, dict[frozenset[tuple[str, str]], float]]

    def labels(self, series: str) -> set[str]:
        return {label for labels in self.series[series] for label, _ in labels}


class Scrape:
    """What was read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families: dict[str, Family] = {}
        for found in text_string_to_metric_families(text):
            series: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
            for sample in found.samples:
                series.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
            self.families[found.name] = Family(found.name, found.type, found.documentation, series)
        self.by_series = {name: family for family in self.families.values() for name in family.series}

    def typed(self) -> Iterator[tuple[str, str]]:
        """The name and the type in every TYPE line, as they are written."""
        yield from re.findall(r"^# TYPE (\S+) (\S+)$", self.text, re.MULTILINE)


@dataclass(frozen=True)
class Game:
    """What was scraped at its height and after each player who left, and what belonged to single players."""

    scrapes: list[Scrape]
    players: list[str]
    sessions: list[str]


async def play(folder: Path) -> Game:
    """Play it."""
    limits = Limits(ping_s=0.2, messages_burst=30, messages_per_s=5.0, violations_warned_max=5)
    api = HttpApi(port=0, limits=HttpLimits(metrics_sessions_max=2))
    server = Server(
        [Arena, Vault, Ruin],
        listen=[WebSocket(port=0), Tcp(port=0)],
        store=f"sqlite:{folder / 'game.db'}",
        limits=limits,
        http=api,
    )
    scrapes: list[Scrape] = []
    async with asyncio.timeout(DEADLINE_S), server, contextlib.AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=_url(server), trust_env=False))

        async def look() -> None:
            response = await http.get("/metrics")
            scrapes.append(Scrape(response.raise_for_status().text))

        players = [await stack.enter_async_context(_connect(server)) for _ in range(4)]
        for number, player in enumerate(players):
            room = await player.join_or_create(("arena", "vault")[number % 2])
            await room.send(Say("hello"))
            while (await room.receive()) != Say("hello"):
                pass
        with contextlib.suppress(HoldfastError):
            await players[0].create("ruin")
        await look()
        await _drop_and_return(server, players[0])
        await _flood(players[2])
        await _until_pinged(http)
        await look()
        for player in players:
            await player.close()
            await look()
    mine = [each for player in players for each in (player.player_id, player.credential)]
    return Game(scrapes, mine, [player.id for player in players])


def _connect(server: Server) -> Any:
    return holdfast.connect(server.url, messages=[Say], random=NoJitter())


def _url(server: Server) -> str:
    host, port = server.addresses["http"]
    return f"http://{host}:{port}"


async def _drop_and_return(server: Server, player: ClientSession) -> None:
    back = asyncio.Event()
    player.on_resume(lambda _: back.set())
    there = server.sessions.get(player.id)
    assert there is not None
    there.disconnect("a test")
    await back.wait()


async def _until_pinged(http: httpx.AsyncClient) -> None:
    while "holdfast_round_trip_seconds_count 0.0" in (await http.get("/metrics")).text:
        pass


async def _flood(player: ClientSession) -> None:
    """Say more than anybody may."""
    assert player.room is not None
    for _ in range(60):
        await player.room.send(Say("spam"))
    while (await player.room.receive()) != Say("spam"):
        pass
