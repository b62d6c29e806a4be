import asyncio
import errno
import importlib
import math
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import (
    Auth,
    Invalid,
    NotSeated,
    Outcome,
    Parts,
    Player,
    PlayerData,
    Reason,
    Refused,
    Room,
    Server,
    SessionEnded,
    Storage,
    Tcp,
    WebSocket,
    connect,
)
from holdfast.core.codec import JSON, MSGPACK
from holdfast.core.reasons import CLOSE_CODES
from holdfast.schemas.frames import Data
from tests.deadlines import DEADLINE_S
from tests.log_lines import line_of
from tests.saved_sessions import storage_of, suspended
from tests.server.world import (
    Chat,
    Hero,
    NoJitter,
    Said,
    Say,
    World,
    chat,
    hear,
    player_in,
    texts_until,
    until_resumed,
    url_of,
)

SECRET = bytes(range(32))


# Start and stop


async def test_a_server_is_a_block(world: World) -> None:
    async with Server([chat()], listen=[WebSocket(port=0), Tcp(port=0)]) as server:
        assert set(server.addresses) == {"websocket", "tcp"}
        async with holdfast.connect(url_of(server), messages=[Said]) as session:
            room = await session.join_or_create("chat")
            await room.send(Say("hello"))
            assert await texts_until(room, "hello") == ["hello"]

    with pytest.raises(OSError, match=r"127\.0\.0\.1"):
        await holdfast.connect("ws://127.0.0.1:1")
    with pytest.raises(RuntimeError, match="start"):
        _ = server.sessions


async def test_two_servers_in_one_process_share_nothing(world: World) -> None:
    kind = chat()
    one, two = await world.serve(kind), await world.serve(kind)
    ada, bob = await world.connect(one), await world.connect(two)
    ada_room, bob_room = await ada.join_or_create("chat"), await bob.join_or_create("chat")

    await ada_room.send(Say("one"))
    await bob_room.send(Say("two"))

    assert await texts_until(ada_room, "one") == ["one"]
    assert await texts_until(bob_room, "two") == ["two"]
    assert [session.id for session in one.sessions] == [ada.id]
    assert [session.id for session in two.sessions] == [bob.id]
    assert (len(one.rooms), len(two.rooms)) == (1, 1)
    with pytest.raises(SessionEnded, match="not issued here"):
        await world.connect(two, auth=Auth("guest", ada.credential))
    await one.stop()
    await bob_room.send(Say("still two"))
    assert await texts_until(bob_room, "still two") == ["still two"]


@pytest.mark.parametrize("port", [WebSocket, Tcp])
async def test_a_port_that_is_taken_is_an_error_that_names_it(world: World, port: type[WebSocket] | type[Tcp]) -> None:
    first = await world.serve(chat())
    _, taken = first.addresses["websocket"]
    second = Server([chat()], listen=[port(port=taken)])

    with pytest.raises(OSError, match=str(taken)) as failure:
        await second.start()

    assert failure.value.errno == errno.EADDRINUSE
    await first.stop()
    await second.start()
    await second.stop()


async def test_a_server_may_be_started_again(world: World) -> None:
    server = Server([chat()], listen=[WebSocket(port=0)])

    for _ in range(2):
        await server.start()
        with pytest.raises(RuntimeError, match="already"):
            await server.start()
        session = await world.connect(server)
        await session.join_or_create("chat")
        await session.close()
        await server.stop()
        await server.stop()


async def test_a_server_that_stops_tells_its_clients_to_come_back_and_when(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    client = await world.raw(server)
    await client.sign_in()
    await client.join()
    stranger = await world.raw(server)

    await server.stop()

    for each in (client, stranger):
        close = await each.closed()
        assert (close.code, close.reason) == (CLOSE_CODES[Reason.STOPPING], Reason.STOPPING)
        assert close.retry_after_s > 0
    assert [line[0] for line in kind.story.lines[-3:]] == ["on_leave", "on_destroy", "on_destroyed"]


async def test_clients_of_a_server_that_was_restarted_are_the_same_players_in_new_sessions(world: World) -> None:
    first = await world.serve(chat(), secret=SECRET)
    _, port = first.addresses["websocket"]
    session = await world.connect(first)
    room = await session.join_or_create("chat")
    player_id, session_id = session.player_id, session.id
    resuming = asyncio.create_task(until_resumed(session, lambda: None))

    await first.stop()
    second = await world.serve(chat(), secret=SECRET, listen=[WebSocket(port=port)])
    outcome = await resuming

    assert outcome == Outcome("reset", reason=Reason.EXPIRED)
    assert (session.player_id, session.room) == (player_id, None)
    assert session.id != session_id
    assert [message async for message in room] == []
    assert room.left is not None
    again = await session.join_or_create("chat")
    await again.send(Say("we go on"))
    assert await texts_until(again, "we go on") == ["we go on"]
    assert [each.id for each in second.sessions] == [session.id]


async def test_guests_are_unknown_after_a_restart_without_the_secret(world: World) -> None:
    first = await world.serve(chat())
    session = await world.connect(first)
    state = await suspended(session)
    await first.stop()
    second = await world.serve(chat())

    with pytest.raises(SessionEnded, match="not issued here") as ended:
        await world.connect(second, saved=storage_of(state))

    assert ended.value.reason == Reason.AUTH_FAILED


class Slowly(Chat):
    """Takes its time to say goodbye, as one does who saves a game."""

    async def on_leave(self, player: Player[Hero], reason: Reason) -> None:
        await asyncio.sleep(0.02)
        super().on_leave(player, reason)

    async def on_destroy(self) -> None:
        await asyncio.sleep(0.02)
        super().on_destroy()

    async def on_destroyed(self) -> None:
        await asyncio.sleep(0.02)
        super().on_destroyed()


async def test_a_server_that_stops_waits_for_the_last_hooks_of_its_rooms(world: World) -> None:
    kind = chat(Slowly)
    server = await world.serve(kind)
    await server.create_room("chat")
    npc = server.open_agent("npc")
    await npc.join(next(iter(server.rooms)).id)

    await server.stop()

    assert [line[0] for line in kind.story.lines[-3:]] == ["on_leave", "on_destroy", "on_destroyed"]


async def test_the_last_hooks_of_a_room_may_still_look_at_the_server(world: World) -> None:
    servers: list[Server] = []

    class Curious(Chat):
        def on_destroyed(self) -> None:
            self.story.tell("on_destroyed", servers[0].counters.rooms_created)

    kind = chat(Curious)
    servers.append(await world.serve(kind))
    await servers[0].create_room("chat")

    await servers[0].stop()

    assert kind.story.lines[-1] == ("on_destroyed", 1)


async def test_a_server_that_stops_takes_no_new_rooms(world: World) -> None:
    """What a client does that is told that its room has closed: it looks for another one."""
    kind = chat(Slowly)
    server = await world.serve(kind)
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    stopping = asyncio.create_task(server.stop())
    assert [message async for message in room] == []

    with pytest.raises((Refused, SessionEnded)):
        await session.join_or_create("chat")
    await stopping

    assert len(kind.story.of("on_create")) == len(kind.story.of("on_destroyed")) == 1


async def test_a_server_stops_in_time_whatever_its_rooms_and_clients_do(world: World) -> None:
    class Stuck(Chat):
        async def on_leave(self, player: Player[Hero], reason: Reason) -> None:
            await asyncio.Event().wait()

    server = await world.serve(chat(Stuck), limits=holdfast.Limits(close_s=0.1))
    deaf = await world.raw(server)
    await deaf.sign_in()
    await deaf.join()
    deaf.link.pause_reading()

    async with asyncio.timeout(DEADLINE_S):
        await server.stop()


# Settings


class Undefaulted(PlayerData):
    name: str


class NoDefaults(Room[Undefaulted]):
    pass


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("disconnect", "medium", "soft, hard"),
        ("duplicate", "ignore", "takeover, reject, allow"),
        ("durability", "for ever", "memory, checkpoint, commit"),
        ("durability", "checkpoint", r'no store.*Server\(store="sqlite:game\.db"\)'),
        ("durability", "commit", r'no store.*Server\(store="sqlite:game\.db"\)'),
        ("orphans", "adopt", "destroy, server, heir"),
        ("max_players", 0, "at least 1"),
        ("max_players", "many", "at least 1"),
        ("max_players", True, "at least 1"),
        ("grace_s", -1, "at least 0"),
        ("grace_s", math.nan, "at least 0"),
        ("grace_s", math.inf, "at least 0"),
        ("empty_ttl_s", None, "at least 0"),
        ("tick_hz", -20, "at least 0"),
        ("checkpoint_s", 0, r"at least 0\.05"),
        ("save_s", -1, "at least 0"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_an_error_that_says_what_to_write(
    setting: str, value: Any, words: str
) -> None:
    kind = chat(**{setting: value})

    with pytest.raises(ValueError, match=rf"Chat\.{setting}.*{words}"):
        Server([kind])


def test_player_data_without_defaults_is_an_error_before_anybody_joins() -> None:
    with pytest.raises(ValueError, match="Undefaulted needs a default for every field"):
        Server([NoDefaults])


@pytest.mark.parametrize("durability", ["checkpoint", "commit"])
async def test_with_a_store_a_room_may_be_durable(durability: str) -> None:
    async with Server([chat(durability=durability)], listen=[WebSocket(port=0)], store="memory:") as server:
        room = await server.create_room("chat")

        assert room.durability == durability


class Socket:
    """Something that cannot be saved."""


class Inner(msgspec.Struct):
    chunks: Parts[int] = msgspec.field(default_factory=Parts)


class Sockets(msgspec.Struct):
    open: Parts[Socket] = msgspec.field(default_factory=Parts)


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(int | Socket, id="one of two"),
        pytest.param(Socket, id="a class"),
        pytest.param(dict[str, Socket], id="a class inside"),
        pytest.param(Parts[Socket], id="parts that are not of a Struct"),
        pytest.param(dict[str, Inner], id="parts too deep inside"),
        pytest.param(
            Sockets,
            id="parts of a class",
        ),
    ],
)
def test_a_durable_room_whose_state_could_not_be_read_again_is_an_error_at_the_start(state: Any) -> None:
    kind = chat(durability="commit", __annotations__={"state": state})

    with pytest.raises(ValueError, match="Chat is durable, but its state cannot be restored"):
        Server([kind], store="memory:")


def test_an_unknown_pace_of_recovery_is_an_error_that_says_which_there_are() -> None:
    with pytest.raises(ValueError, match="eager, lazy"):
        Server([chat()], store=Storage("memory:", recovery="slowly"))  # type: ignore[arg-type]  # the mistake


async def test_two_kinds_of_rooms_with_one_name_are_an_error(world: World) -> None:
    with pytest.raises(ValueError, match="'chat'"):
        await world.serve(chat(), chat())


async def test_the_servers_own_rooms_and_the_clients_are_found_alike(world: World) -> None:
    server = await world.serve(chat(max_players=4))
    session = await world.connect(server)
    ours = await server.create_room("chat", properties={"map": "castle"}, max_players=2)
    theirs = await session.create("chat", properties={"map": "forest"}, max_players=3)

    found = await session.search("chat")

    assert [(room.id, room.properties, room.max_players) for room in found] == [
        (ours.id, {"map": "castle"}, 2),
        (theirs.id, {"map": "forest"}, 3),
    ]
    assert await session.search("chess") == []
    assert [room.id for room in await session.search(limit=1)] == [ours.id]


# Codecs


@pytest.mark.parametrize("transport", ["websocket", "tcp"])
async def test_json_does_all_that_msgpack_does(world: World, transport: str) -> None:
    kind = chat()
    server = await world.serve(kind, listen=[WebSocket(port=0), Tcp(port=0)])
    session = await world.connect(server, transport=transport, codec=JSON.name)
    other = await world.connect(server)
    room, other_room = await session.join_or_create("chat"), await other.join_or_create("chat")

    await room.send(Say("grüße ☃"))
    await until_resumed(session, session.cut)
    await other_room.send(Say("from msgpack"))

    assert await texts_until(room, "from msgpack") == ["grüße ☃", "from msgpack"]
    assert await texts_until(other_room, "from msgpack") == ["grüße ☃", "from msgpack"]
    player = player_in(server, room, session)
    assert player.session.codec is JSON
    player.kick("raus")
    assert [message async for message in room] == []
    assert room.left is not None
    assert room.left.message == "raus"


async def test_a_saved_json_session_goes_on_in_json(world: World) -> None:
    server = await world.serve(chat())
    first = await world.connect(server, codec=JSON.name)
    await first.join_or_create("chat")

    second = await world.connect(server, saved=storage_of(await suspended(first)))

    assert second.outcome == Outcome("resumed")
    assert second.room is not None
    await second.room.send(Say("hello"))
    assert await texts_until(second.room, "hello") == ["hello"]


async def test_a_session_cannot_change_its_codec(world: World) -> None:
    kind = chat()
    server = await world.serve(kind)
    client = await world.raw(server, codec=MSGPACK)
    welcome = await client.sign_in()
    await client.join()

    other = await world.raw(server, codec=JSON)
    other.ask_to_resume(welcome)
    close = await other.closed()

    assert close.reason == Reason.PROTOCOL
    assert "holdfast.v1.msgpack" in close.message
    client.send(1, Say("undisturbed"))
    await client.hear(Data)
    assert kind.story.of("on_drop") == []


async def test_an_unknown_codec_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(Invalid, match=r"holdfast\.v1\.msgpack, holdfast\.v1\.json"):
        holdfast.connect("ws://127.0.0.1:7777", codec="holdfast.v9.xml", random=NoJitter())


# One write, many ears


async def test_everybody_hears_a_room_in_the_same_order(world: World) -> None:
    server = await world.serve(chat())
    sessions = [await world.connect(server) for _ in range(5)]
    rooms = [await session.join_or_create("chat") for session in sessions]

    for number in range(20):
        await asyncio.gather(*(room.send(Say(str(number))) for room in rooms))
    for room in rooms:
        await room.flush()
    await rooms[0].send(Say("the end"))
    heard = [await hear(room, "the end") for room in rooms]

    assert len(heard[0]) == 101
    assert all(others == heard[0] for others in heard)


@pytest.mark.parametrize(("secrets", "end"), [((b"s" * 32, b"s" * 32), "reset"), ((None, None), "auth_failed")])
async def test_a_guest_is_known_after_a_restart_only_if_the_server_kept_its_secret(
    secrets: tuple[bytes | None, bytes | None], end: str
) -> None:
    before = Server([chat()], listen=[WebSocket(port=0)], secret=secrets[0])
    await before.start()
    port = before.addresses["websocket"][1]
    session = await connect(before.url)
    player_id, ends = session.player_id, asyncio.Queue[str]()
    session.on_resume(lambda outcome: ends.put_nowait(outcome.kind))
    room = await session.join_or_create("chat")

    await before.stop()
    async with Server([chat()], listen=[WebSocket(port=port)], secret=secrets[1]), asyncio.timeout(30):
        try:
            while True:
                await room.receive()
        except NotSeated:
            pass
        if end == "reset":
            assert await ends.get() == "reset"
            assert session.player_id == player_id
        else:
            with pytest.raises(SessionEnded) as ended:
                await session.search()
            assert ended.value.reason == end
        await session.close()


async def test_shared_histograms_are_said_at_the_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Imported before: the library decides then where it counts, for the whole process.
    importlib.import_module("prometheus_client")
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/nowhere")

    async with Server([Chat], listen=[]):
        pass

    said = [line_of(record)[0] for record in caplog.records]
    assert sum("PROMETHEUS_MULTIPROC_DIR is set" in line for line in said) == 1
