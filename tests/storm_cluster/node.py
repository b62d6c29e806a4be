"""One life of a node, as a program, with a wall clock that is so many seconds ahead:

    python -m tests.storm_cluster.node <url> <folder> <life> <name> <host> <port> <seconds>

It says on its standard output where it listens, and which rooms it has lost to another node. It does what its standard
input asks for: "move ROOM NODE", answered by "moved ROOM" or "stayed ROOM WHY"; "rooms", answered by "rooms ID…"; "slow
SECONDS", from then on for each commit; "die STEP WHEN", by SIGKILL if a move comes to that step here, until "live".
"""

import asyncio
import logging
import os
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Thread

import holdfast
from holdfast import Refused, Server, WebSocket
from holdfast.cluster.setting import open_cluster
from holdfast.server.context import Environment
from holdfast.testing import UNLIMITED
from tests.storm.audit import AuditStore
from tests.storm.game import Stage, Storm
from tests.storm.history import Writer
from tests.storm.server import Cashier, say


class Obedient:
    """A node that does what it is told on its standard input, and ends with it."""

    def __init__(self, server: Server, store: AuditStore) -> None:
        self._server = server
        self._store = store
        self._armed = ExitStack()
        self._loop = asyncio.get_running_loop()
        self._moves: set[asyncio.Task[None]] = set()
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            self._loop.call_soon_threadsafe(self._obey, line.split())
        os._exit(1)

    def _obey(self, words: list[str]) -> None:
        match words:
            case "move", room, to:
                task = self._loop.create_task(self._move(room, to))
                self._moves.add(task)
                task.add_done_callback(self._moves.discard)
            case "slow", seconds:
                self._store.delay_s = float(seconds)
            case "die", step, when:
                self._die_at(int(step), when)
            case ("live",):
                self._armed.close()
            case ("rooms",):
                say(" ".join(("rooms", *(room.id for room in self._server.rooms))))
            case _:
                raise ValueError(f"a node does not understand {words}")

    def _die_at(self, step: int, when: str) -> None:
        # Only here: a node of another version may have other steps.
        from tests.migration_steps import STEPS, once_at  # noqa: PLC0415

        self._armed.enter_context(once_at(STEPS[step], when, lambda: os.kill(os.getpid(), signal.SIGKILL)))

    async def _move(self, room: str, to: str) -> None:
        cluster = self._server.parts.cluster
        assert cluster is not None
        try:
            await cluster.migration.move(room, to)
        except Refused as error:
            say(f"stayed {room} {error}")
        else:
            say(f"moved {room}")


def main(url: str, folder: Path, life: int, name: str, host: str, port: int, ahead_s: float) -> None:
    """Serve until the standard input ends."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    trail = Writer(folder / f"audit-{life}.jsonl")
    cluster = open_cluster(url)
    store = AuditStore(cluster.store, trail, say=say)
    server = Server(
        [Storm, Stage],
        name=name,
        listen=[WebSocket(host=host, port=port, insecure=True)],
        cluster=replace(cluster, store=store),
        effects={"pay": Cashier(folder / "effects.jsonl").pay},
        limits=UNLIMITED,
        _environment=Environment(wall_clock=lambda: time.time() + ahead_s),
    )
    obedient: list[Obedient] = []

    def ready(server: Server) -> None:
        obedient.append(Obedient(server, store))
        say(f"ready {server.addresses['websocket'][1]}")

    holdfast.run(server, ready=ready)


if __name__ == "__main__":
    main(
        sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5], int(sys.argv[6]), float(sys.argv[7])
    )
