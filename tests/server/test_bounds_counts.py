"""How many connections, sessions, rooms and requests there may be."""

import asyncio

import pytest

from holdfast import Auth, Limits, Outcome, Reason, SessionEnded, Throttled
from holdfast.core.limits import KIB
from holdfast.core.reasons import CLOSE_CODES
from holdfast.schemas.frames import Hello
from holdfast.testing import generous
from tests.server.world import Gate, World, chat, until_resumed


async def test_a_node_with_all_its_connections_is_busy_and_says_when_to_come_back(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(connections_max=1, hello_s=0.2))
    first = await world.raw(server)
    await first.sign_in()

    second = await world.raw(server)
    close = await second.closed()

    assert (close.code, close.reason) == (CLOSE_CODES[Reason.BUSY], Reason.BUSY)
    assert close.retry_after_s >= 0.2
    assert server.counters.connections_refused == 1
    await first.request("search")


async def test_a_client_that_finds_the_node_busy_gets_in_when_there_is_space(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(connections_max=1, hello_s=0.1))
    first = await world.connect(server)
    connecting = asyncio.create_task(world.connect(server))
    refused = server.counters.connections_refused
    while refused == 0:
        await first.search()
        refused = server.counters.connections_refused

    await first.close()
    second = await connecting

    assert second.outcome == Outcome("new")


async def test_a_node_with_all_its_sessions_is_busy_until_one_ends(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(sessions_max=1, hello_s=0.2))
    first = await world.connect(server)

    second = await world.raw(server)
    second.say(Hello(Auth()))
    close = await second.closed()
    await first.close()
    third = await world.connect(server)

    assert (close.reason, close.retry_after_s) == (Reason.BUSY, 0.2)
    assert third.outcome == Outcome("new")


async def test_a_dropped_session_counts_until_its_grace_ends(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=Limits(sessions_max=1))
    gate = Gate()
    away = await world.connect(server, dial=gate)
    await away.join_or_create("chat")
    gate.shut()
    away.cut()
    await kind.story.has("on_drop")

    stranger = await world.raw(server)
    stranger.say(Hello(Auth()))
    close = await stranger.closed()

    assert close.reason == Reason.BUSY
    assert (await until_resumed(away, gate.open)).kind == "resumed"


async def test_a_player_who_signs_in_too_often_loses_the_oldest_session(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(sessions_per_player_max=2))
    first = await world.connect(server)
    first_room = await first.join_or_create("chat")
    same = Auth("guest", first.credential)
    second = await world.connect(server, auth=same)

    third = await world.connect(server, auth=same)

    assert [message async for message in first_room] == []
    assert first_room.left is not None
    assert first_room.left.reason == Reason.SUPERSEDED
    with pytest.raises(SessionEnded) as ended:
        await first.search()
    assert ended.value.reason == Reason.SUPERSEDED
    assert {session.id for session in server.sessions} == {second.id, third.id}


async def test_a_player_who_signs_in_too_often_loses_a_dropped_session_first(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(sessions_per_player_max=2))
    first = await world.connect(server)
    same = Auth("guest", first.credential)
    gate = Gate()
    second = await world.connect(server, auth=same, dial=gate)
    dropped = asyncio.Event()
    server_session = server.sessions.get(second.id)
    assert server_session is not None
    server_session.on_disconnect = lambda _: dropped.set()
    gate.shut()
    second.cut()
    await dropped.wait()

    third = await world.connect(server, auth=same)

    assert {session.id for session in server.sessions} == {first.id, third.id}


async def test_a_node_has_no_more_rooms_than_its_limit(world: World) -> None:
    kind = chat()
    server = await world.serve(kind, limits=Limits(rooms_max=1))
    session = await world.connect(server)
    await session.create("chat")

    with pytest.raises(Throttled):
        await session.create("chat")

    assert len(server.rooms) == 1


async def test_a_client_with_too_many_unanswered_requests_is_stopped(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(requests_in_flight_max=4))
    client = await world.raw(server)
    await client.sign_in()

    for _ in range(12):
        client.ask("search")
    close = await client.closed()

    assert close.reason == Reason.SEQUENCE


async def test_a_client_asks_only_so_much_at_once_and_gets_every_answer(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(requests_in_flight_max=4))
    session = await world.connect(server)

    answers = await asyncio.gather(*(session.search() for _ in range(40)))

    assert answers == [[]] * 40
    assert session.drops == 0


async def test_a_client_that_asks_and_never_reads_is_cut(world: World) -> None:
    kind = chat()
    limits = Limits(window_bytes_max=16 * KIB, write_buffer_bytes_max=64 * KIB, replies_kept_max=4)
    server = await world.serve(kind, limits=generous(limits))
    host = await world.connect(server)
    for _ in range(20):
        await host.create("chat", properties={"a long story": "x" * 1900})
    greedy = await world.raw(server)
    welcome = await greedy.sign_in()
    dropped = asyncio.Event()
    server_session = server.sessions.get(welcome.session)
    assert server_session is not None
    server_session.on_disconnect = lambda _: dropped.set()
    greedy.link.pause_reading()

    while not dropped.is_set():
        greedy.ask("search")
        await host.search()

    assert server_session.status == "disconnected"
    assert host.drops == 0
