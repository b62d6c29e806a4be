"""A node of the clusters that are measured, as a program; it ends with its standard input.

    python -m benchmarks.cluster_node <cluster, or "" for a server alone> <name> <port>

On its standard output it says, in lines of JSON: ["ready", its room in memory], then ["has", room, time] when a durable
room is saved here for the first time, and the answers to what its standard input asks for: "move ROOM NODE" (["moved",
room, why not]), "drain" (["drained", seconds]), "pauses" (["pauses", seconds of each room that it has handed over]).
"""

import asyncio
import logging
import os
import sys
import time
from threading import Thread
from typing import Any

import msgspec

import holdfast
from benchmarks.serving import Say
from holdfast import Message, Player, PlayerData, Refused, Room, Server, WebSocket, on
from holdfast.server.cluster.migration import Migration
from holdfast.testing import UNLIMITED


class Count(Message):
    """A client's next number."""

    number: int


class Counted(Message):
    """The answer: so many of its numbers were counted."""

    number: int
    count: int


class Sum(msgspec.Struct):
    """What a room remembers: how many numbers of each player it has counted."""

    counted: dict[str, int] = {}


class Arena(Room[PlayerData]):
    """Sends messages back; in memory. Each node has one."""

    max_players = 10_000
    empty_ttl_s = 3600.0

    @on(Say)
    def say(self, player: Player[PlayerData], message: Say) -> None:
        player.send(message)


class Ledger(Room[PlayerData]):
    """Counts what it is told, and forgets nothing of it."""

    max_players = 50
    durability = "commit"
    grace_s = 600.0
    empty_ttl_s = 600.0
    state: Sum

    def on_create(self, config: object) -> None:
        self.state = Sum()

    @on(Count)
    def count(self, player: Player[PlayerData], message: Count) -> None:
        counted = self.state.counted
        counted[player.id] = counted.get(player.id, 0) + 1
        player.send(Counted(message.number, counted[player.id]))


def say(*words: Any) -> None:
    """A line for whoever started this node; whole, also if it is long."""
    line = msgspec.json.encode(words) + b"\n"
    while line:
        line = line[os.write(1, line) :]


class Obedient:
    """Does what the standard input asks for."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._here: set[str] = set()
        committer = server.parts.committer
        if committer is not None:
            committer.on_committed.append(self._committed)
            committer.on_removed.append(self._here.discard)
        Thread(target=self._listen, daemon=True).start()
        self._begin(self._open())

    async def _open(self) -> None:
        arena = await self._server.create_room("arena")
        say("ready", arena.id)

    def _committed(self, room: str) -> None:
        if room not in self._here:
            self._here.add(room)
            say("has", room, time.monotonic())

    def _listen(self) -> None:
        for line in sys.stdin:
            self._loop.call_soon_threadsafe(self._obey, line.split())
        os._exit(0)

    def _obey(self, words: list[str]) -> None:
        match words:
            case "move", room, to:
                self._begin(self._move(room, to))
            case ("drain",):
                self._begin(self._drain())
            case ("pauses",):
                say("pauses", self._migration.pauses_s)
            case _:
                raise ValueError(f"a node does not understand {words}")

    def _begin(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def _migration(self) -> Migration:
        cluster = self._server.parts.cluster
        assert cluster is not None
        return cluster.migration

    async def _move(self, room: str, to: str) -> None:
        try:
            await self._migration.move(room, to)
        except Refused as error:
            say("moved", room, str(error))
        else:
            say("moved", room, "")

    async def _drain(self) -> None:
        began_at = time.monotonic()
        await self._server.drain()
        say("drained", time.monotonic() - began_at)


def main(cluster: str, name: str, port: int) -> None:
    """Serve until the standard input ends."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    server = Server(
        [Arena, Ledger] if cluster else [Arena],
        name=name,
        listen=[WebSocket(port=port)],
        cluster=cluster or None,
        limits=UNLIMITED,
    )
    obedient: list[Obedient] = []

    holdfast.run(server, ready=lambda server: obedient.append(Obedient(server)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
