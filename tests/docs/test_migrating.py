"""The guides to the directory. For those who come from elsewhere: every row of the tables leads to an example, and
every example runs. For all: searches can be read, and commands are answered."""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

import pytest

from holdfast import PlayerData, Room, Server, WebSocket
from holdfast.http.api import ApiKey, HttpApi
from holdfast.search import parse_query
from tests.cases import every_case

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "migrating.md"
TEXT = PAGE.read_text()
DIRECTORY = (PAGE.parent / "directory.md").read_text()
COMMANDS = re.findall(r"^```sh\n(.*?)^```", DIRECTORY, re.MULTILINE | re.DOTALL)
SEARCHES = re.findall(r"^    (.+)$", re.sub(r"```.*?```", "", DIRECTORY, flags=re.DOTALL), re.MULTILINE)
KEY = "a-key-for-tests-0123456789"
NEEDS_CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
# No example takes longer, however it fails.
EXAMPLE_S = 30.0

HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
BLOCK = re.compile(r"^```python example\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (.+) \| \[[^]]+\]\(#([^)]+)\) \|$", re.MULTILINE)
CALL = re.compile(r"`(\w+)(?:<T>)?`")


class Example(NamedTuple):
    anchor: str
    line: int
    code: str


def anchor(heading: str) -> str:
    """What a link to a heading says."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def examples() -> list[Example]:
    """Each with the heading that it stands under."""
    found = []
    for block in BLOCK.finditer(TEXT):
        *_, heading = HEADING.finditer(TEXT, 0, block.start())
        found.append(Example(anchor(heading[1]), TEXT.count("\n", 0, block.start(1)), block[1]))
    return found


def frame() -> dict[str, Any]:
    """What the page says stands around its examples."""
    block = re.search(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {"__name__": "frame"}
    exec(block[1], names)  # noqa: S102 - the page is ours
    return names


EXAMPLES = examples()
ROWS = ROW.findall(TEXT)
# What a game that comes from elsewhere calls, or is called with.
CALLS = """
    CreateGameSession SearchGameSessions DescribeGameSessions UpdateGameSession TerminateGameSession IdempotencyToken
    FilterExpression SortExpression NextToken PlayerSessionCreationPolicy CreatePlayerSession CreatePlayerSessions
    hasAvailablePlayerSessions maximumSessions creationTimeMillis
    AcceptPlayerSession RemovePlayerSession DescribePlayerSessions StartGameSessionPlacement
    DescribeGameSessionPlacement StopGameSessionPlacement CreateGameSessionQueue PlayerLatencyPolicies
    ProcessReady HealthCheck OnProcessTerminate ProcessEnding OnStartGameSession ActivateGameSession OnUpdateGameSession

    CreateSession SearchSessions JoinSession LeaveSession CreateSessionAsync SearchSessionsAsync JoinSessionAsync
    LeaveSessionAsync ValidatePlayerJoinSession HandlePlayerLeaveSession HandleDestroySession OnSessionHealthCheck
    OnCreateSessionBegin OnCreateSessionEnd OnUpdateSessionBegin OnUpdateSessionEnd OnDestroySessionBegin
    OnDestroySessionEnd

    CreateSessionAsync CreateOrJoinSessionAsync JoinSessionByIdAsync JoinSessionByCodeAsync QuerySessionsAsync
    MatchmakeSessionAsync ReconnectToSessionAsync GetJoinedSessionIdsAsync LeaveAsync RemovePlayerAsync DeleteAsync
    SetProperty SavePropertiesAsync RefreshAsync IsPrivate IsLocked Password
    SessionHostChanged PlayerJoined PlayerHasLeft

    SessionManager OnSessionStarted OnSessionEnded SetupConnectingPlayerSessionData DisconnectClient
"""


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.anchor for example in EXAMPLES])
async def test_an_example_runs_in_the_frame_of_the_page(example: Example) -> None:
    names = frame()
    source = "async def example(server, ada, bob, backend):\n" + indent(example.code, "    ")
    # So that a failure names the page's own line.
    code = compile("\n" * (example.line - 1) + source, PAGE, "exec")
    exec(code, names)  # noqa: S102 - the page is ours

    async with asyncio.timeout(EXAMPLE_S):
        await names["run"](names["example"])


@every_case("example", EXAMPLES, ids=[example.anchor for example in EXAMPLES])
def test_an_example_claims_something(example: Example) -> None:
    assert "assert " in example.code


def test_every_row_leads_to_an_example_and_every_example_is_led_to() -> None:
    assert {target for _, target in ROWS} == {example.anchor for example in EXAMPLES}
    assert len(EXAMPLES) == len({example.anchor for example in EXAMPLES})


def test_every_row_of_a_table_with_examples_has_one() -> None:
    tables = re.findall(r"^\|.*\| example \|\n\|[-|]+\|\n((?:\|.*\n)+)", TEXT, re.MULTILINE)

    assert tables
    for line in "".join(tables).splitlines():
        assert ROW.fullmatch(line), line


def test_no_call_of_theirs_was_forgotten() -> None:
    named = {call for cells, _ in ROWS for call in CALL.findall(cells)}

    assert set(CALLS.split()) <= named


def test_links_within_the_page_lead_to_a_heading() -> None:
    targets = set(re.findall(r"\]\(#([^)]+)\)", TEXT))

    assert targets <= {anchor(heading) for heading in HEADING.findall(TEXT)}


# The other page: what it shows of searches and commands


def test_the_searches_of_the_directorys_guide_can_be_read() -> None:
    assert SEARCHES
    for where in SEARCHES:
        parse_query(where, ())


class Arena(Room[PlayerData]):
    max_players = 8


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    api = HttpApi(port=0, keys=[ApiKey(KEY, ["admin"])])
    async with Server([Arena], listen=[WebSocket(port=0)], http=api) as server:
        yield server


async def shell(script: str, server: Server, **variables: str) -> asyncio.subprocess.Process:
    """Run a script that speaks to a node, and fails with the first answer that is a refusal."""
    host, port = server.addresses["http"]
    return await asyncio.create_subprocess_exec(
        "bash",
        "-ec",
        'curl() { command curl --silent --show-error --fail-with-body "$@"; }\n'
        + script.replace("http://127.0.0.1:7778", f"http://{host}:{port}"),
        env={**os.environ, "no_proxy": "*", "HOLDFAST_API_KEY": KEY, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@NEEDS_CURL
async def test_the_commands_of_the_directorys_guide_are_answered(server: Server) -> None:
    room = await server.create_room("arena")

    async with asyncio.timeout(EXAMPLE_S):
        process = await shell(COMMANDS[0], server, ROOM=room.id)
        output, errors = await process.communicate()

    assert process.returncode == 0, (output, errors)
    assert [each.name for each in server.rooms] == ["Friday night"]


@NEEDS_CURL
async def test_the_events_of_the_directorys_guide_are_told_as_they_happen(server: Server) -> None:
    process = await shell("exec " + COMMANDS[1], server)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(EXAMPLE_S):
            while b"node.ready" not in await process.stdout.readline():
                pass
            await server.create_room("arena")
            while b"room.created" not in await process.stdout.readline():
                pass
    finally:
        process.kill()
        await process.communicate()
