"""Players who came to another worker than their room's end with their connection there, and never notice."""

import asyncio
import os
import re
import secrets
import signal
import sys
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random

import pytest

from holdfast import ClientRoom, ClientSession
from tests.cli.served_games import write
from tests.cli.test_workers import COUNTER, Add, Group, Sum, connected, group, until
from tests.deadlines import DEADLINE_S
from tests.e2e.serving import end_of, http_address, result_of
from tests.nats_server import shared_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

QUICK = ("--limit", "relay_settled_s=0.01")
TOLD = """
        def on_drop(self, player):
            self.state.seen.append(-1)
"""


@pytest.fixture
def game(tmp_path: Path) -> Path:
    return write(tmp_path, COUNTER.replace("DURABILITY", "commit") + TOLD)


def connections_of(running: Group) -> Counter[int]:
    """How many clients each worker is connected to."""
    port = int(running.url.rpartition(":")[2])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    inodes = {row[9] for row in rows if int(row[1].partition(":")[2], 16) == port and row[3] == "01"}
    found: Counter[int] = Counter()
    for pid in running.pids.values():
        with suppress(FileNotFoundError):
            for each in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(FileNotFoundError):
                    found[pid] += re.sub(r"\D", "", str(each.readlink())) in inodes
    return +found


class Talker:
    """A player who says numbers, hears sums, and notes drops."""

    def __init__(self, session: ClientSession, room: ClientRoom) -> None:
        self.session = session
        self.room = room
        self.drops = 0
        self.last = Sum([], 0)
        session.on_drop(self._dropped)
        self._hearing = asyncio.create_task(self._hear())

    def _dropped(self, *_: object) -> None:
        self.drops += 1

    async def _hear(self) -> None:
        async for message in self.room:
            assert isinstance(message, Sum)
            self.last = message

    async def say(self, n: int) -> Sum:
        await self.room.send(Add(n))
        await until(lambda: n in self.last.seen)
        return self.last

    def stop(self) -> None:
        self._hearing.cancel()


async def talkers(stack: AsyncExitStack, running: Group, count: int) -> list[Talker]:
    sessions = [await connected(stack, running.url) for _ in range(count)]
    room_id = (await sessions[0].create("counter")).id
    found = [Talker(session, await session.join(room_id)) for session in sessions]
    for each in found:
        stack.callback(each.stop)
    return found


async def settled(running: Group, players: list[Talker]) -> int:
    """Until all are connected to their room's worker, which is returned."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            pid = (await players[0].say(min(players[0].last.seen, default=0) - 2)).pid
            for player in players:
                # A word of theirs is a place to pass the connection.
                await player.room.send(Add(pid))
            if connections_of(running) == {pid: len(players)}:
                return pid
            await asyncio.sleep(0.02)


async def test_all_players_of_a_room_end_on_its_worker_and_nobody_drops(game: Path) -> None:
    async with group(game, *QUICK, workers=3) as running, AsyncExitStack() as stack:
        players = await talkers(stack, running, 12)

        pid = await settled(running, players)
        for n, player in enumerate(players, 1_000_000):
            await player.say(n)
        # Who came to another worker needs it no more.
        for other in set(running.pids.values()) - {pid}:
            os.kill(other, signal.SIGKILL)
        for n, player in enumerate(players, 2_000_000):
            assert (await player.say(n)).pid == pid

        assert [player.drops for player in players] == [0] * 12
        assert -1 not in players[0].last.seen
        assert [n for n in players[0].last.seen if n >= 1_000_000] == [
            *range(1_000_000, 1_000_012),
            *range(2_000_000, 2_000_012),
        ]


async def test_workers_that_are_killed_while_connections_are_passed_lose_and_double_nothing(game: Path) -> None:
    random = Random(5)
    async with group(game, *QUICK, "--limit", "relay_passing_s=0.5", workers=2) as running, AsyncExitStack() as stack:
        players = await talkers(stack, running, 6)
        said = []
        for turn in range(5):
            for number in range(20):
                for seat, player in enumerate(players):
                    said.append(1 + seat + 10 * number + 1000 * turn)
                    await player.room.send(Add(said[-1]))
                await asyncio.sleep(random.random() * 0.01)
            if turn < 4:
                victim = random.choice([pid for pid in running.children() if pid != running.nats_pid])
                os.kill(victim, signal.SIGKILL)
        await until(lambda: set(said) <= set(players[0].last.seen))

        heard = [n for n in players[0].last.seen if n > 0]
        assert sorted(heard) == sorted(said)
        for seat in range(6):
            own = [n for n in heard if n % 10 == seat + 1]
            assert own == sorted(own)


async def test_workers_of_a_cluster_with_other_machines_pass_connections_among_themselves(game: Path) -> None:
    cluster = ("--cluster", f"{shared_server().url}/{secrets.token_hex(8)}")
    async with (
        group(game, *QUICK, *cluster, "--name", "one") as one,
        group(game, *QUICK, *cluster, "--name", "two") as two,
        AsyncExitStack() as stack,
    ):
        players = await talkers(stack, one, 6)
        guest = await connected(stack, two.url)
        from_elsewhere = Talker(guest, await guest.join(players[0].room.id))
        stack.callback(from_elsewhere.stop)

        pid = await settled(one, players)
        assert (await from_elsewhere.say(9_000_000)).pid == pid
        assert (await players[0].say(9_000_001)).seen.count(9_000_000) == 1

        assert sorted(one.pids) == ["one-1", "one-2"]
        # Sockets cannot go to another machine: it is relayed.
        assert connections_of(two).total() == 1
        assert [player.drops for player in (*players, from_elsewhere)] == [0] * 7


async def test_a_room_that_moves_to_and_fro_takes_its_players_along(game: Path) -> None:
    async with group(game, *QUICK, workers=2) as running, AsyncExitStack() as stack:
        players = await talkers(stack, running, 4)
        pid = await settled(running, players)
        host, port = http_address(running.announcement)
        names = {its: name for name, its in running.pids.items()}

        for _ in range(4):
            [other] = set(running.pids.values()) - {pid}
            moved = await result_of(
                *("rooms", "move", players[0].room.id, "--to", names[other], "--url", f"http://{host}:{port}"),
                cwd=game.parent,
            )
            assert moved.exit_code == 0, moved.stderr
            pid = await settled(running, players)
            assert pid == other

        assert [player.drops for player in players] == [0] * 4
        assert -1 not in players[0].last.seen
        assert (await end_of(running.process, by=signal.SIGINT)).exit_code == 0
