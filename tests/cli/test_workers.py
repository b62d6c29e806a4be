"""`holdfast serve --workers`, with real processes: a supervisor, its workers and its NATS server."""

import asyncio
import os
import re
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

import holdfast
from holdfast import ClientRoom, ClientSession, Message
from tests.cli.served_games import write
from tests.deadlines import DEADLINE_S
from tests.e2e.serving import (
    ANY_PORTS,
    end_of,
    holdfast_process,
    http_address,
    read_until,
    result_of,
    websocket_address,
)
from tests.ports import free_ports

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

COUNTER = """
    import os
    import msgspec
    from holdfast import Message, PlayerData, Room, on

    class Add(Message):
        n: int

    class Sum(Message):
        seen: list[int]
        pid: int

    class Tally(msgspec.Struct):
        seen: list[int] = []

    class Counter(Room[PlayerData]):
        durability = "DURABILITY"
        max_players = 100
        state: Tally

        def on_create(self, config):
            self.state = Tally()

        @on(Add)
        def add(self, player, add):
            self.state.seen.append(add.n)
            self.broadcast(Sum(self.state.seen, os.getpid()))
"""


class Add(Message):
    n: int


class Sum(Message):
    seen: list[int]
    pid: int


class Group:
    """A running supervisor, and what it announced."""

    def __init__(self, process: Process, announcement: str) -> None:
        self.process = process
        self.announcement = announcement
        host, port = websocket_address(announcement)
        self.url = f"ws://{host}:{port}"
        self.pids: dict[str, int] = {name: int(pid) for name, pid in re.findall(r"(\S+) \(pid (\d+)\)", announcement)}

    @property
    def nats_pid(self) -> int:
        return next(pid for pid in self.children() if "nats-server" in command_of(pid))

    def children(self) -> list[int]:
        return [pid for pid in every_pid() if parent_of(pid) == self.process.pid]


def every_pid() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def status_of(pid: int) -> list[str]:
    """What follows the name in the status: its state, its parent …; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def parent_of(pid: int) -> int:
    return int((status_of(pid) or ["", "0"])[1])


def is_running(pid: int) -> bool:
    return (status_of(pid) or ["Z"])[0] not in {"Z", "X"}


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def contents(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name != "__pycache__"]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - of processes that are not ours
            await asyncio.sleep(0.02)


@pytest.fixture
def game(tmp_path: Path) -> Path:
    return write(tmp_path, COUNTER.replace("DURABILITY", "commit"))


@asynccontextmanager
async def group(game: Path, *options: str, workers: int = 2) -> AsyncIterator[Group]:
    arguments = ("serve", game.name, *ANY_PORTS, "--workers", str(workers), *options)
    async with holdfast_process(*arguments, cwd=game.parent, environment={"TMPDIR": str(game.parent)}) as process:
        yield Group(process, await read_until(process, "Press Ctrl-C to stop"))


async def receive(room: ClientRoom) -> Sum:
    async with asyncio.timeout(DEADLINE_S):
        message = await room.receive()
    assert isinstance(message, Sum)
    return message


async def says(room: ClientRoom, n: int) -> Sum:
    await room.send(Add(n))
    while n not in (answer := await receive(room)).seen:
        pass
    return answer


async def said_by(process: Process, pattern: str) -> str:
    """What it logs, up to the first line that matches."""
    assert process.stderr is not None
    seen: str = ""
    async with asyncio.timeout(DEADLINE_S):
        while line := (await process.stderr.readline()).decode():
            seen += line
            if re.search(pattern, seen):
                return seen
    raise AssertionError(f"it ended, and said:\n{seen}")


async def connected(stack: AsyncExitStack, url: str) -> ClientSession:
    return await stack.enter_async_context(holdfast.connect(url, messages=[Sum]))


async def test_connections_are_spread_over_the_workers_and_each_makes_its_rooms_where_it_is(game: Path) -> None:
    pids: Counter[int] = Counter()
    async with group(game, workers=3) as running, AsyncExitStack() as stack:
        sessions = [await connected(stack, running.url) for _ in range(45)]
        for session in sessions:
            room = await session.join((await session.create("counter")).id)
            pids[(await says(room, 1)).pid] += 1

    # 15 each on average: that one has less than 4 happens once in 100,000 runs.
    assert set(pids) == set(running.pids.values())
    assert min(pids.values()) >= 4


async def test_the_datagrams_of_a_client_come_to_the_worker_that_its_stream_is_on(game: Path) -> None:
    async with group(game, "--udp-port", "0") as running, AsyncExitStack() as stack:
        sessions = [await connected(stack, running.url) for _ in range(8)]

        await until(lambda: all(session.latest_transport == "udp" for session in sessions))


async def test_players_on_different_workers_play_in_one_room(game: Path) -> None:
    async with group(game) as running, AsyncExitStack() as stack:
        sessions = [await connected(stack, running.url) for _ in range(8)]
        made = await sessions[0].create("counter")
        rooms = [await session.join(made.id) for session in sessions]

        for n, each in enumerate(rooms):
            await each.send(Add(n))
        # Every message of the room, once and in order, on every worker.
        sums = [[await receive(each) for _ in range(8)] for each in rooms]
        result = await end_of(running.process, by=signal.SIGINT)

    assert all(heard == sums[0] for heard in sums)
    assert [len(each.seen) for each in sums[0]] == list(range(1, 9))
    assert sorted(sums[0][-1].seen) == list(range(8))
    assert {each.pid for each in sums[0]} <= set(running.pids.values())
    assert result == (0, "Stopped.\n", "")


async def test_a_killed_worker_is_replaced_and_its_durable_rooms_go_on_elsewhere(game: Path) -> None:
    async with group(game) as running, AsyncExitStack() as stack:
        session = await connected(stack, running.url)
        room = await session.join((await session.create("counter")).id)
        first = await says(room, 1)

        os.kill(first.pid, signal.SIGKILL)
        after = await says(room, 2)
        log = await said_by(running.process, "a worker has been replaced")
        others = [await connected(stack, running.url) for _ in range(12)]

        assert after.seen == [1, 2]
        assert after.pid != first.pid
        assert len(others) == 12
        assert f"a worker has ended; another takes its place node={name_of(first.pid, running)}" in log
        assert "why='killed by SIGKILL'" in log
        await until(lambda: len(running.children()) == 3)


def name_of(pid: int, running: Group) -> str:
    return next(name for name, its in running.pids.items() if its == pid)


async def test_clients_get_in_while_a_worker_is_away(game: Path) -> None:
    async with group(game) as running, AsyncExitStack() as stack:
        stopped = running.pids["worker-2"]
        # Whatever replaces it stands still, too: only the other one can let anybody in.
        os.kill(stopped, signal.SIGKILL)
        sessions = [await connected(stack, running.url) for _ in range(20)]

    assert len(sessions) == 20


async def test_a_killed_nats_server_is_replaced_and_nothing_is_lost(game: Path) -> None:
    async with group(game) as running, AsyncExitStack() as stack:
        session = await connected(stack, running.url)
        room = await session.join((await session.create("counter")).id)
        await says(room, 1)
        killed = running.nats_pid

        os.kill(killed, signal.SIGKILL)
        after = await says(room, 2)

        assert after.seen == [1, 2]
        assert running.nats_pid != killed
        # No worker has ended.
        assert set(running.pids.values()) < set(running.children())


async def test_a_killed_supervisor_takes_its_children_with_it(game: Path) -> None:
    async with group(game) as running:
        children = running.children()
        assert len(children) == 3

        os.kill(running.process.pid, signal.SIGKILL)

        await until(lambda: not any(map(is_running, children)))


async def test_what_was_saved_is_there_at_the_next_start(game: Path) -> None:
    async with group(game) as running, AsyncExitStack() as stack:
        session = await connected(stack, running.url)
        room_id = (await session.create("counter")).id
        await says(await session.join(room_id), 1)
        stopped = await end_of(running.process, by=signal.SIGINT)
    async with group(game, workers=3) as running, AsyncExitStack() as stack:
        session = await connected(stack, running.url)
        after = await says(await session.join(room_id), 2)

    assert stopped == (0, "Stopped.\n", "")
    assert after.seen == [1, 2]
    assert (game.parent / "game.holdfast").stat().st_mode & 0o777 == 0o700


async def test_sigterm_drains_all_workers_and_hands_nothing_over(game: Path, tmp_path: Path) -> None:
    game = write(tmp_path, COUNTER.replace("DURABILITY", "memory"), "memory.py")
    async with group(game, "--drain", "60", "-v") as running, AsyncExitStack() as stack:
        session = await connected(stack, running.url)
        room = await session.join((await session.create("counter")).id)
        await says(room, 1)

        running.process.send_signal(signal.SIGTERM)
        said = await read_until(running.process, "1 room may go on for 60 s")
        after = await says(room, 2)
        await room.leave()
        result = await end_of(running.process)

    assert re.search(r"worker-\d drains: 1 room", said)
    assert after.seen == [1, 2]
    assert result.exit_code == 0
    assert result.stdout == "Stopped.\n"


async def test_a_game_in_memory_leaves_nothing_behind(game: Path, tmp_path: Path) -> None:
    game = write(tmp_path, COUNTER.replace("DURABILITY", "memory"))
    async with group(game) as running, AsyncExitStack() as stack:
        session = await connected(stack, running.url)
        await says(await session.join((await session.create("counter")).id), 1)
        await end_of(running.process, by=signal.SIGINT)

    assert "no room is durable, so nothing is saved" in running.announcement
    assert contents(tmp_path) == ["game.py"]


async def test_each_line_of_the_log_says_which_worker_it_is_of(game: Path) -> None:
    async with group(game, "-v", "--log-format", "json") as running:
        result = await end_of(running.process, by=signal.SIGINT)

    lines = [line for line in result.stderr.splitlines() if "node.ready" in line]
    assert sorted(re.findall(r'"node": "([^"]+)", "node_"', "".join(lines))) == ["worker-1", "worker-2"]


async def test_each_worker_has_metrics_of_its_own_and_any_of_them_answers_on_the_common_port(game: Path) -> None:
    first, _ = ports = next_to_each_other()
    async with group(game, "--worker-http-port", str(first)) as running, AsyncExitStack() as stack:
        sessions = [await connected(stack, running.url) for _ in range(12)]
        own = [connections_in(await fetched("127.0.0.1", port, "/metrics")) for port in ports]
        common = await fetched(*http_address(running.announcement), "/livez")

    assert f"at /metrics of the ports {first} to {first + 1}" in running.announcement
    assert sum(own) == len(sessions)
    assert min(own) > 0
    assert "200 OK" in common


def next_to_each_other() -> tuple[int, int]:
    for port in free_ports(50):
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("127.0.0.1", port + 1))
            return port, port + 1
    raise AssertionError("there are no two free ports")


async def fetched(host: str, port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(DEADLINE_S):
        answer = await reader.read()
    writer.close()
    return answer.decode()


def connections_in(metrics: str) -> int:
    """Those over WebSocket, that are open now."""
    return int(sum(float(value) for value in re.findall(r"(?m)^holdfast_connections\{[^}]*\} (\S+)", metrics)))


async def test_enet_clients_are_spread_too(game: Path) -> None:
    pids = set()
    async with group(game, "--enet-port", "0") as running, AsyncExitStack() as stack:
        found = re.search(r"enet://\S+", running.announcement)
        assert found is not None
        for _ in range(20):
            session = await connected(stack, found[0])
            pids.add((await says(await session.join((await session.create("counter")).id), 1)).pid)

    assert pids == set(running.pids.values())


async def test_the_code_changes_while_somebody_plays(game: Path) -> None:
    async with group(game, "--reload") as running, AsyncExitStack() as stack:
        session = await connected(stack, running.url)
        room = await session.join((await session.create("counter")).id)
        before = await says(room, 1)

        write(game.parent, COUNTER.replace("DURABILITY", "commit") + "\n    # changed\n")
        said = await read_until(running.process, "Press Ctrl-C to stop")
        after = await says(room, 2)
        result = await end_of(running.process, by=signal.SIGINT)

    assert "Restarting: game.py changed." in said
    assert "temporary, until this command ends; use --data to keep it" in said
    assert after.seen == [1, 2]
    assert after.pid != before.pid
    assert result == (0, "Stopped.\n", "")
    assert contents(game.parent) == ["game.py"]


async def test_a_port_in_use_is_named_also_if_the_other_one_shares_it(game: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])

        result = await result_of(*("serve", str(game), *ANY_PORTS, "--port", port, "--workers", "2"), cwd=game.parent)

    assert result.exit_code == 1
    assert f"127.0.0.1:{port} is in use" in result.stderr
    assert not (game.parent / "game.holdfast").exists()


async def test_a_second_group_does_not_use_the_same_folder(game: Path) -> None:
    async with group(game) as running:
        result = await result_of("serve", game.name, *ANY_PORTS, "--workers", "2", cwd=game.parent)

    assert result.exit_code == 1
    assert f"game.holdfast is in use by process {running.process.pid}" in result.stderr


@pytest.mark.parametrize(
    ("options", "exit_code", "words"),
    [
        (("--workers", "0"), 2, "'0' is not a number from 1 to 256, nor 'auto'."),
        (("--workers", "many"), 2, "'many' is not a number"),
        (("--workers", "2", "--store", "sqlite:game.db"), 2, "Remove --store, and name its folder with --data FOLDER"),
        (("--data", "folder"), 2, "--data is for --workers without a --cluster: use --store sqlite:game.db."),
        (("--advertise", "wss://node-a.example"), 2, "--advertise is for a node of a cluster with other machines"),
        (("--workers", "2", "--advertise", "wss://a"), 2, "--advertise is for a node of a cluster"),
        (("--cluster", "nats://127.0.0.1:1/x", "--advertise", "node-a"), 1, "clients need an address such as wss://"),
        (("--workers", "2", "--takeover"), 1, "--takeover is for a --store"),
        (("--workers", "2", "--host", "0.0.0.0"), 1, "would not be encrypted"),  # noqa: S104 - it is refused
        (("--workers", "2", "--http-host", "0.0.0.0"), 1, "the HTTP API would be open"),  # noqa: S104 - it is refused
        (("--workers", "2", "--cluster", "sqlite:x"), 1, "a cluster needs the address of a NATS server"),
    ],
)
async def test_options_that_do_not_fit_are_refused(
    game: Path, options: tuple[str, ...], exit_code: int, words: str
) -> None:
    result = await result_of("serve", game.name, *ANY_PORTS, *options, cwd=game.parent)

    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert words in " ".join(result.stderr.split())
    assert result.stderr.count("Error") == 1
    assert contents(game.parent) == ["game.py"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "from holdfast import Room, Server\nclass Own(Room): ...\nserver = Server([Own])",
            "makes its own server, which is one process",
        ),
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
        ("", "has no rooms"),
    ],
)
async def test_a_game_that_cannot_be_served_is_complained_of_once(tmp_path: Path, text: str, words: str) -> None:
    game = write(tmp_path, text)

    result = await result_of("serve", game.name, *ANY_PORTS, "--workers", "3", cwd=tmp_path)

    assert result.exit_code == 1
    assert result.stderr.count(words) == 1
    assert contents(tmp_path) == ["game.py"]
