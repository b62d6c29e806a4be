"""The guides for those who come from elsewhere: every row of the tables leads to an example, and every example runs.
And what the directory's guide shows of searches and commands."""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast import PlayerData, Room, Server, WebSocket
from holdfast.http.api import ApiKey, HttpApi
from holdfast.search import parse_query
from tests.cases import every_case
from tests.docs.framed import Example, examples, frame

GUIDES = Path(__file__).parents[2] / "docs" / "guide"
# The first has a frame on real sockets, the others one in memory.
PAGES = {path.stem: path for path in (GUIDES / "migrating.md", *sorted((GUIDES / "migrating").glob("*.md")))}
TEXTS = {name: path.read_text() for name, path in PAGES.items()}
DIRECTORY = (GUIDES / "directory.md").read_text()
COMMANDS = re.findall(r"^```sh\n(.*?)^```", DIRECTORY, re.MULTILINE | re.DOTALL)
SEARCHES = re.findall(r"^    (.+)$", re.sub(r"```.*?```", "", DIRECTORY, flags=re.DOTALL), re.MULTILINE)
KEY = "a-key-for-tests-0123456789"
NEEDS_CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
# No example takes longer, however it fails.
EXAMPLE_S = 30.0

ROW = re.compile(r"^\| (.+) \| \[[^]]+\]\((?:\.\./(\w+)\.md)?#([^)]+)\) \|$", re.MULTILINE)
CALL = re.compile(r"`([\w.:@/]+)(?:<T>)?`")


def rows(page: str) -> list[tuple[str, str, str]]:
    """The cells of each row that leads to an example, and the page and heading that it leads to."""
    return [(cells, other or page, target) for cells, other, target in ROW.findall(TEXTS[page])]


EXAMPLES = [example for page in PAGES.values() for example in examples(page)]
ON_SOCKETS = [example for example in EXAMPLES if example.page == PAGES["migrating"]]
IN_MEMORY = [example for example in EXAMPLES if example.page != PAGES["migrating"]]
# What a game that comes from elsewhere calls, or is called with.
CALLS = {
    "migrating": """
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
    """,
    "colyseus": """
    defineRoom gameServer.define maxClients autoDispose onCreate onAuth onJoin onMessage onDrop allowReconnection
    onReconnect onLeave onDispose onBeforeShutdown onUncaughtException setSimulationInterval clock.setTimeout
    clock.setInterval setMetadata setPrivate lock unlock broadcast client.send client.leave disconnect patchRate state
    client.userData
    joinOrCreate create join joinById filterBy sortBy LobbyRoom room.send room.onMessage room.leave room.onLeave
    room.onDrop room.onReconnect client.reconnect room.onError matchMaker.query matchMaker.createRoom
    matchMaker.reserveSeatFor @colyseus/testing onStateChange
    """,
    "colyseus-schema": """
    Schema @type schema defineTypes setState MapSchema ArraySchema SetSchema CollectionSchema push splice shift sort set
    delete forEach number float32 uint8 null undefined @view StateView view.add view.remove client.view @filter
    @filterChildren patchRate broadcastPatch afterNextPatch clone assign toJSON allowReconnection
    room.state getStateCallbacks onAdd onRemove onChange listen onStateChange bindTo detach
    """,
    "nakama": """
    registerMatch matchInit matchJoinAttempt matchJoin matchLeave matchLoop matchSignal matchTerminate
    dispatcher.broadcastMessage dispatcher.matchKick dispatcher.matchLabelUpdate nk.matchCreate nk.matchList nk.matchGet
    nk.sessionDisconnect nk.sessionLogout registerRtBefore authenticateDevice authenticateEmail authenticateCustom
    sessionRefresh linkEmail createSocket socket.connect socket.ondisconnect socket.createMatch socket.joinMatch
    socket.leaveMatch socket.sendMatchState socket.onmatchdata socket.onmatchpresence listMatches socket.addMatchmaker
    socket.onnotification nk.notificationSend rpc updateAccount socket.createParty single_socket single_session
    writeStorageObjects
    """,
    "photon": """
    ConnectUsingSettings AuthValues CreateRoom RoomOptions MaxPlayers JoinRoom JoinOrCreateRoom JoinRandomRoom
    JoinRandomOrCreateRoom SqlLobbyFilter JoinLobby OnRoomListUpdate ExpectedUsers IsOpen IsVisible PlayerTtl
    EmptyRoomTtl LeaveRoom ReconnectAndRejoin RejoinRoom CloseConnection OpRaiseEvent RaiseEvent OnEvent ReceiverGroup
    TargetActors SendReliable SendUnreliable EventCaching OnPhotonSerializeView photonView.RPC RpcTarget
    SetCustomProperties OnRoomPropertiesUpdate expectedProperties OnPlayerPropertiesUpdate OnPlayerEnteredRoom
    OnPlayerLeftRoom IsInactive MasterClient SetMasterClient OnMasterClientSwitched TransferOwnership RequestOwnership
    GetPing SimulateConnectionLoss FindFriends InterestGroup OpChangeGroups NickName
    """,
    "overworld": """
    ow_session:start session_request session_new ow_session:id latency game_data ow_session:disconnect_callback
    ow_session:disconnect_timeout reconnect_token handle_reconnect ow_session:stop ow_session:disconnect
    ow_session:proxy session_ping session_pong session_beacon ow_zone:start init ow_zone:join handle_join ow_zone:part
    handle_part handle_disconnect disconnect/1 handle_tick tick_ms ow_zone:rpc ow_zone:call ow_zone:cast handle_info
    reply broadcast send noreply ow_zone:broadcast ow_zone:send ow_zone:stop rpc_client rpc_server encoder reliable
    unreliable unsequenced /client/manifest OW_WS_PORT OW_WSS_PORT OW_TLS_CERT OW_PEER_LIMIT OW_CHANNEL_LIMIT
    """,
    "moongate": """
    GetOrCreate TryGet GetAll Count State SetState AccountId AccountType CharacterId Character Disconnect DetachClient
    PlayerConnectedEvent PlayerDisconnectedEvent CharacterSelectedEvent PlayerCharacterLoggedInEvent
    PlayerEnteredRegion PlayerExitedRegion AccountAlreadyInUse AccountBlocked BroadcastFromServer SendMessageFromServer
    MoveSequence MoveCredit ProtocolViolations PendingBufferOverflows EnableCompression EnableEncryption PingSequence
    ExecuteBackgroundJob ExecuteMainThread MobilePositionChanged DatabaseSavingStart DatabaseSaved save_persistence
    /health /metrics /api/sessions/active /api/commands/execute CommandEntered
    """,
}


@pytest.mark.parametrize("example", ON_SOCKETS, ids=[example.anchor for example in ON_SOCKETS])
async def test_an_example_runs_in_the_frame_of_the_page(example: Example) -> None:
    names = frame(example.page)
    exec(example.compiled("server, ada, bob, backend"), names)  # noqa: S102 - the page is ours

    async with asyncio.timeout(EXAMPLE_S):
        await names["run"](names["example"])


@pytest.mark.parametrize("example", IN_MEMORY, ids=[example.id for example in IN_MEMORY])
def test_an_example_runs_in_the_frame_of_its_page_in_memory(example: Example) -> None:
    example.run_in_memory()


@every_case("example", EXAMPLES, ids=[example.id for example in EXAMPLES])
def test_an_example_claims_something(example: Example) -> None:
    assert "assert " in example.code


@every_case("page", PAGES)
def test_every_row_leads_to_an_example_and_every_example_is_led_to(page: str) -> None:
    known = {(example.page.stem, example.anchor) for example in EXAMPLES}
    targets = {(other, target) for _, other, target in rows(page)}

    assert targets <= known | {(page, "setup")}
    assert {each for each in known if each[0] == page} <= targets


@every_case("page", PAGES)
def test_every_row_of_a_table_with_examples_has_one(page: str) -> None:
    tables = re.findall(r"^\|.*\| example \|\n\|[-|]+\|\n((?:\|.*\n)+)", TEXTS[page], re.MULTILINE)

    assert tables
    for line in "".join(tables).splitlines():
        assert ROW.fullmatch(line), line


@every_case("page", PAGES)
def test_no_call_of_theirs_was_forgotten(page: str) -> None:
    named = {call for cells, _, _ in rows(page) for call in CALL.findall(cells)}

    assert set(CALLS[page].split()) - named == set()


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
