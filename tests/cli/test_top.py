"""`holdfast top`: the numbers of a server, or of all nodes, as they change; it ends as it should."""

import asyncio
import errno
import os
import pty
import re
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from io import StringIO

import pytest
from rich.console import Console

import holdfast
from holdfast import HttpApi, Message, Player, PlayerData, Room, Server, WebSocket, on
from holdfast.cli.top import NodeRow, TopView, view
from tests.cli.operator import Operator
from tests.deadlines import DEADLINE_S
from tests.nats_server import shared_server


class Say(Message):
    text: str


class Hall(Room[PlayerData]):
    @on(Say)
    def say(self, player: Player[PlayerData], say: Say) -> None: ...


class Vault(Hall):
    durability = "commit"


@pytest.fixture
async def alone() -> AsyncIterator[Server]:
    async with Server([Hall], listen=[WebSocket(port=0)], http=HttpApi(port=0)) as server:
        yield server


@pytest.fixture
async def three() -> AsyncIterator[dict[str, Server]]:
    place = f"{shared_server().url}/top-{secrets.token_hex(4)}"
    async with AsyncExitStack() as stack:
        servers = {
            name: Server([Vault], cluster=place, name=name, listen=[WebSocket(port=0)], http=HttpApi(port=0))
            for name in "abc"
        }
        await asyncio.gather(*map(stack.enter_async_context, servers.values()))
        yield servers


async def talk(room: holdfast.ClientRoom) -> None:
    while True:
        await room.send(Say("hello"))
        await asyncio.sleep(0.01)


# What it shows


async def test_one_server_is_one_line_with_what_happens_on_it(alone: Server) -> None:
    async with holdfast.connect(alone.url) as session:
        room = await session.join_or_create("hall")
        talking = asyncio.create_task(talk(room))

        shown = await Operator(alone).json("top", "--interval", "1")
        printed = await Operator(alone).output("top", "--once", "--interval", "1")

        talking.cancel()
    [node] = shown["nodes"]
    assert (node["name"], node["state"], node["rooms"], node["connected"]) == (alone.parts.name, "alive", 1, 1)
    assert node["messages_per_s"] > 5
    assert node["load"] is None
    assert (shown["players"], shown["rooms"]) == (1, {"hall": 1})
    assert "1 player · rooms: 1 hall" in printed
    assert alone.parts.name in printed
    assert "load" not in printed
    assert "all" not in re.findall(r"^\w+", printed, re.MULTILINE)


async def test_any_node_shows_all_of_them_and_their_sum(three: dict[str, Server]) -> None:
    async with holdfast.connect(three["b"].url) as session:
        room = await session.join_or_create("vault")
        talking = asyncio.create_task(talk(room))

        shown = await Operator(three["c"]).json("top", "--interval", "1")
        printed = await Operator(three["a"]).output("top", "--once", "--interval", "1")

        talking.cancel()
    assert [(each["name"], each["rooms"], each["connected"]) for each in shown["nodes"]] == [
        ("a", 0, 0),
        ("b", 1, 1),
        ("c", 0, 0),
    ]
    assert shown["nodes"][1]["messages_per_s"] > 5
    assert shown["nodes"][0]["messages_per_s"] == 0
    assert re.findall(r"^(a|b|c|all)\b", printed, re.MULTILINE) == ["a", "b", "c", "all"]
    assert "load" in printed


async def test_a_node_that_does_not_answer_has_a_line_that_says_so(three: dict[str, Server]) -> None:
    cluster = three["b"].parts.cluster
    assert cluster is not None
    # As if it had another version.
    cluster.node.questions._handlers.pop("overview")  # noqa: SLF001 - there is no other way not to answer

    result = await Operator(three["a"]).run("top", "--once", "--interval", "1")

    assert re.search(r"^b +no answer", result.stdout, re.MULTILINE)
    assert result.stderr == ""


async def test_a_server_that_is_not_there_is_an_error_that_says_what_to_do(alone: Server) -> None:
    result = await Operator(alone).run("top", "--once", "--url", "http://127.0.0.1:1")

    assert result.exit_code == 1
    assert "No node answers at http://127.0.0.1:1" in result.stderr
    assert "--url" in result.stderr


async def test_the_help_says_what_it_is(alone: Server) -> None:
    said = await Operator(alone).output("top", "--help")

    assert "all nodes of its cluster" in said
    assert "--interval" in said


# The view


def row(name: str, **numbers: int) -> NodeRow:
    totals = {"messages_applied": 0, "frames_received": 0, "frames_sent": 0, "drops": 0, "resumed": 0} | numbers
    return NodeRow(name, f"life of {name}", "alive", 0.5, 10, 100, 5, totals)


def look(at: float, *rows: NodeRow) -> TopView:
    return TopView(at, 7, {"arena": 20}, [each._replace(at=at) for each in rows], is_cluster=True, problems=[])


def drawn(before: TopView | None, now: TopView, *, width: int = 120, height: int = 40, problem: str = "") -> list[str]:
    console = Console(width=width, height=height, file=StringIO(), record=True)
    console.print(view(before, now, title="Holdfast", width=width, height=height, problem=problem))
    return console.export_text().splitlines()


def test_rates_are_the_difference_of_two_looks_by_the_second() -> None:
    before = look(10.0, row("a", messages_applied=100, drops=3), row("b", messages_applied=1000))
    now = look(12.0, row("a", messages_applied=150, drops=4), row("b", messages_applied=9000))

    lines = drawn(before, now)

    cells = {line.split()[0]: line.split() for line in lines if line.strip()}
    assert (cells["a"][7], cells["a"][-2]) == ("25", "0.5")
    assert cells["b"][7] == "4.0k"
    assert cells["all"][1:4] == ["20", "200", "10"]


def test_what_was_not_seen_before_has_no_rate() -> None:
    lines = drawn(look(10.0, row("a")), look(11.0, row("a", messages_applied=5), row("new", messages_applied=99_999)))

    cells = {line.split()[0]: line.split() for line in lines if line.strip()}
    assert cells["a"][7] == "5.0"
    assert set(cells["new"][7:]) == {"–"}


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_narrow_terminal_has_fewer_columns_and_no_broken_line(width: int) -> None:
    now = look(10.0, row("node-1"), row("node-2"))

    lines = drawn(now, now, width=width)

    assert all(len(line) <= width for line in lines)
    assert [line.split()[0] for line in lines if line.startswith("node-")] == ["node-1", "node-2"]
    head = next(line for line in lines if line.startswith("node "))
    assert "messages/s" in head
    assert ("returns/s" in head) is (width >= 90)


def test_a_low_terminal_says_how_many_nodes_it_does_not_show() -> None:
    now = look(10.0, *(row(f"node-{number}") for number in range(30)))

    lines = drawn(now, now, height=24)

    assert len(lines) <= 24
    assert "and 15 more nodes" in lines


def test_names_of_nodes_do_not_control_the_terminal() -> None:
    now = look(10.0, row("a"))._replace(problems=["b: \x1b[2J"])

    assert "\x1b" not in "".join(drawn(now, now))


# In a terminal


@asynccontextmanager
async def in_a_terminal(url: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24", "HOLDFAST_URL": url}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "top", "--interval", "1"),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
    )
    os.close(slave)
    try:
        yield process, master
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(master)


async def screen(terminal: int, until: str = "") -> str:
    """What is drawn until this appears, or until the process ends."""

    def read() -> str:
        seen = b""
        while not (until and until in seen.decode(errors="replace")):
            try:
                more = os.read(terminal, 65_536)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                break
            if not more:
                break
            seen += more
        return seen.decode(errors="replace")

    async with asyncio.timeout(DEADLINE_S):
        return await asyncio.to_thread(read)


async def test_it_is_drawn_anew_until_ctrl_c_and_outlives_a_restart_of_the_server() -> None:
    server = Server([Hall], listen=[WebSocket(port=0)], http=HttpApi(port=0))
    await server.start()
    host, port = server.addresses["http"]
    async with in_a_terminal(f"http://{host}:{port}") as (process, terminal):
        await screen(terminal, until="0 players")
        async with holdfast.connect(server.url) as session:
            await session.join_or_create("hall")
            await screen(terminal, until="1 player · rooms: 1 hall")
        await server.stop()
        await screen(terminal, until="No node answers")
        again = Server([Hall], listen=[], http=HttpApi(port=port))
        await again.start()
        await screen(terminal, until="0 players")
        process.send_signal(signal.SIGINT)
        rest = await screen(terminal)
        await again.stop()

        assert await process.wait() == 0
    assert "Traceback" not in rest
    assert "Aborted" not in rest
    # The terminal is as it was: its own screen, with a cursor.
    assert rest.endswith(("\x1b[?1049l\x1b[?25h", "\x1b[?25h\x1b[?1049l")) or "\x1b[?1049l" in rest
