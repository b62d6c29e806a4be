"""The server: where it listens, what it leaves alone, whom it cuts off, how it stops."""

import asyncio
import errno
import logging
import signal

import msgspec
import pytest

from holdfast.http.api import HttpLimits
from holdfast.http.app import App
from holdfast.http.serving import HttpServer
from tests.deadlines import DEADLINE_S
from tests.http.backend import FakeBackend
from tests.http.world import World

ASK = "GET /livez HTTP/1.1\r\nHost: localhost\r\n"


async def test_the_system_chooses_a_port_and_the_server_tells_it(world: World) -> None:
    server = await world.serve()
    client = await world.client(server)

    host, port = server.address

    assert (host, port > 0) == ("127.0.0.1", True)
    assert (await client.get("/livez")).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_it_listens_by_name_and_by_address(world: World, host: str) -> None:
    server = HttpServer(App(world.backend.operations), host, 0)
    await server.start()

    try:
        answer = await (await world.client(server)).get("/livez")
    finally:
        await server.stop()

    assert answer.status_code == 200


async def test_a_port_that_is_taken_is_an_error_that_says_so(world: World) -> None:
    taken = (await world.serve()).address

    with pytest.raises(OSError, match=r"in use") as refused:
        await HttpServer(App(world.backend.operations), *taken).start()

    assert refused.value.errno == errno.EADDRINUSE
    assert str(taken) in str(refused.value)


async def test_a_name_that_means_nothing_is_an_error(world: World) -> None:
    with pytest.raises(ValueError, match="API key"):
        HttpServer(App(world.backend.operations), "no-such-host.invalid", 0)


async def test_two_servers_live_side_by_side_with_nodes_of_their_own(world: World) -> None:
    here = await world.client()
    world.backend.add_room("r")
    world.backend = FakeBackend()
    there = await world.client()

    assert (await here.get("/v1/rooms/r")).status_code == 200
    assert (await there.get("/v1/rooms/r")).status_code == 404


async def test_signals_and_logging_are_left_as_they_are(world: World) -> None:
    def settings() -> list[object]:
        loggers = [logging.getLogger(name) for name in ("", "uvicorn", "uvicorn.access", "uvicorn.error", "litestar")]
        return [
            [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
            [(logger.level, list(logger.handlers), logger.propagate, logger.disabled) for logger in loggers],
            asyncio.get_event_loop_policy().__class__,
        ]

    before = settings()
    client = await world.client()
    await client.get("/livez")

    assert settings() == before


async def test_requests_are_not_logged_and_the_server_does_not_say_what_it_is(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    client = await world.client()

    with caplog.at_level(logging.DEBUG):
        answer = await client.get("/livez")

    assert "server" not in answer.headers
    assert "date" in answer.headers
    assert [record for record in caplog.records if record.name.startswith(("uvicorn", "litestar", "holdfast"))] == []


async def test_it_can_stop_twice_and_start_again(world: World) -> None:
    server = HttpServer(App(world.backend.operations), port=0)
    await server.stop()
    await server.start()
    first = server.address
    await server.stop()
    await server.stop()

    await server.start()
    answer = await (await world.client(server)).get("/livez")
    await server.stop()

    assert answer.status_code == 200
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*first)


async def test_an_answer_that_is_under_way_is_sent_before_it_stops(world: World) -> None:
    world.backend.gate = asyncio.Event()
    server = HttpServer(App(world.backend.operations, limits=HttpLimits(stop_s=10 * DEADLINE_S)), port=0)
    await server.start()
    client = await world.client(server)
    making = asyncio.create_task(client.post("/v1/rooms", json={"kind": "arena"}))
    async with asyncio.timeout(DEADLINE_S):
        await world.backend.asked_for_a_room.wait()

    stopping = asyncio.create_task(server.stop())
    await asyncio.sleep(0)
    world.backend.gate.set()
    async with asyncio.timeout(DEADLINE_S):
        answer, _ = await asyncio.gather(making, stopping)

    assert answer.status_code == 201


async def test_an_answer_that_takes_too_long_is_given_up_when_it_stops(world: World) -> None:
    world.backend.gate = asyncio.Event()
    server = HttpServer(App(world.backend.operations, limits=HttpLimits(stop_s=0.01)), port=0)
    await server.start()
    asker = await world.dial(server)
    body = '{"kind": "arena"}'
    head = "POST /v1/rooms HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    asker.say(f"{head}Content-Length: {len(body)}\r\n\r\n{body}")
    async with asyncio.timeout(DEADLINE_S):
        await world.backend.asked_for_a_room.wait()

    async with asyncio.timeout(DEADLINE_S):
        await server.stop()

    assert b"201" not in await asker.rest()
    assert world.backend.rooms == {}


@pytest.mark.parametrize(
    "words",
    [
        "",
        "GET /livez HT",
        ASK,
        "POST /v1/rooms HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    ],
    ids=["silent", "half a line", "half a head", "half a body"],
)
async def test_who_does_not_finish_a_request_is_cut_off(world: World, words: str) -> None:
    asker = await world.dial(await world.serve(request_s=0.05))

    asker.say(words)

    assert await asker.rest() == b""
    assert world.backend.told == []


async def test_who_does_not_finish_a_second_request_is_cut_off_too(world: World) -> None:
    asker = await world.dial(await world.serve(request_s=0.05))
    asker.say(ASK + "\r\n")
    await asker.hear('{"status":"live"}')

    asker.say(ASK)

    assert await asker.rest() == b""


async def test_a_stream_that_is_read_is_not_cut_off_for_its_age(world: World) -> None:
    asker = await world.dial(await world.serve(request_s=0.02, heartbeat_s=0.01))

    asker.say("GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for _ in range(10):
        await asker.hear(": still here")


@pytest.mark.parametrize(
    "words",
    [
        "hello\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + "x" * 100_000,
        "POST /v1/rooms HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n",
    ],
    ids=["no HTTP", "no host", "two hosts", "a zero", "too large", "no length"],
)
async def test_what_is_not_http_is_a_problem_too(world: World, words: str) -> None:
    asker = await world.dial(await world.serve())

    asker.say(words)
    head, _, body = (await asker.rest()).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert b'"code":"invalid"' in body


async def test_a_body_that_turns_into_rubbish_ends_the_connection(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    asker = await world.dial(await world.serve())
    head = (
        "POST /v1/rooms HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    )

    asker.say(f"{head}\r\nnot a chunk\r\n\r\n")
    heard = await asker.rest()

    assert heard == b""
    assert world.backend.rooms == {}
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_connection_answers_several_requests(world: World) -> None:
    server = await world.serve()
    asker = await world.dial(server)

    for _ in range(3):
        asker.say(ASK + "\r\n")
        await asker.hear('{"status":"live"}')
    asker.say(ASK + "Connection: close\r\n\r\n")
    last = await asker.rest()

    assert msgspec.json.decode(last.partition(b"\r\n\r\n")[2]) == {"status": "live"}
