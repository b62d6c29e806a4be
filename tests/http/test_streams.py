"""Server-sent events: told as they happen, resumed by id, bounded for each reader."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.http.api import HttpLimits
from holdfast.http.app import App
from holdfast.http.serving import HttpServer
from holdfast.schemas.node import EventInfo
from tests.deadlines import DEADLINE_S
from tests.http.reader import reading
from tests.http.world import World, problem_in

ASK = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def test_what_happens_is_told_as_it_happens(world: World) -> None:
    client = await world.client()

    async with reading(client) as reader:
        world.backend.publish("room_created", room="r", name="Ünï\nline")
        first = await reader.event()
        world.backend.publish("room_ended", room="r")
        second = await reader.event()

    assert reader.response.headers["content-type"] == "text/event-stream"
    assert first == (
        "1",
        {"id": 1, "type": "room_created", "at": 1_700_000_000.5, "body": {"room": "r", "name": "Ünï\nline"}}
        | {"node": "", "position": ""},
    )
    assert second is not None
    assert (second[0], second[1]["type"]) == ("2", "room_ended")


async def test_who_just_comes_hears_what_happens_from_now_on(world: World) -> None:
    world.backend.publish("before")
    client = await world.client()

    async with reading(client) as reader:
        world.backend.publish("after")
        event = await reader.event()

    assert event is not None
    assert event[1]["type"] == "after"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/events?after=2", {}),
        ("/v1/events", {"Last_Event_ID": "2"}),
        ("/v1/events?after=0", {"Last_Event_ID": "2"}),
    ],
    ids=["parameter", "header", "the header counts more"],
)
async def test_who_comes_back_goes_on_after_the_last_event_it_has_seen(
    world: World, path: str, headers: dict[str, str]
) -> None:
    for number in range(4):
        world.backend.publish(f"event_{number}")
    client = await world.client()

    async with reading(client, path, **headers) as reader:
        world.backend.publish("event_4")
        events = [await reader.event() for _ in range(3)]

    assert [event and event[0] for event in events] == ["3", "4", "5"]


async def test_everything_can_be_read_from_the_beginning(world: World) -> None:
    world.backend.publish("first")
    client = await world.client()

    async with reading(client, "/v1/events?after=0") as reader:
        event = await reader.event()

    assert event is not None
    assert event[0] == "1"


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "9" * 30, "null"])
async def test_an_id_that_is_none_is_refused(world: World, value: str) -> None:
    client = await world.client()

    by_header = await client.get("/v1/events", headers={"Last-Event-ID": value})
    by_parameter = await client.get("/v1/events", params={"after": value})

    assert problem_in(by_header, 400, "invalid")["errors"][0]["at"] == "Last-Event-ID"
    assert problem_in(by_parameter, 400, "invalid")["errors"][0]["at"] == "after"


async def test_a_reader_hears_that_the_node_lives_when_nothing_happens(world: World) -> None:
    client = await world.client(await world.serve(heartbeat_s=0.01))

    async with reading(client) as reader:
        heard = [await reader.line() for _ in range(5)]
        world.backend.publish("at_last")
        event = await reader.event()

    assert heard.count(": still here") >= 2
    assert event is not None
    assert event[1]["type"] == "at_last"


async def test_a_reader_that_leaves_is_forgotten(world: World) -> None:
    client = await world.client(await world.serve(streams_max=1))

    async with reading(client):
        assert world.backend.readers == 1
    async with asyncio.timeout(DEADLINE_S):
        await world.backend.reader_left.wait()

    assert world.backend.readers == 0
    async with reading(client):
        # There is a place for the next.
        pass


async def test_there_are_only_so_many_readers_at_a_time(world: World) -> None:
    client = await world.client(await world.serve(streams_max=2))

    async with reading(client), reading(client):
        refused = await client.get("/v1/events")
        others = await client.get("/livez")

    problem_in(refused, 429, "throttled")
    assert "retry-after" in refused.headers
    assert others.status_code == 200


@pytest.mark.parametrize("limits", [{"stream_events_max": 4}, {"stream_bytes_max": 100_000}], ids=["events", "bytes"])
async def test_a_reader_that_is_too_slow_is_cut_off_and_others_are_not(world: World, limits: dict[str, Any]) -> None:
    server = await world.serve(**limits)
    slow = await world.dial(server, buffer_bytes=2048)
    slow.say(ASK)
    await slow.hear("retry: 1000")
    client = await world.client(server)

    async with reading(client) as reader:
        published = 0
        async with asyncio.timeout(DEADLINE_S):
            while not world.backend.reader_left.is_set():
                world.backend.publish("big", text="x" * 50_000)
                published += 1
                event = await reader.event()
                assert event is not None
                assert event[0] == str(published)

    assert b"\r\n0\r\n\r\n" not in await slow.rest()


async def test_a_stream_ends_with_its_node(world: World) -> None:
    client = await world.client()

    async with reading(client) as reader:
        world.backend.publish("last_words")
        world.backend.stop()
        last = await reader.event()
        end = await reader.event()

    assert last is not None
    assert last[1]["type"] == "last_words"
    assert end is None


async def test_a_server_that_stops_ends_its_streams_at_once(world: World) -> None:
    server = HttpServer(App(world.backend.operations, limits=HttpLimits(stop_s=10 * DEADLINE_S)), port=0)
    await server.start()
    client = await world.client(server)

    async with reading(client) as first, reading(client) as second:
        async with asyncio.timeout(DEADLINE_S):
            await server.stop()
        ends = [await first.event(), await second.event()]

    assert ends == [None, None]
    assert world.backend.readers == 0


async def test_a_server_that_stops_does_not_wait_for_a_reader_that_does_not_read(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    limits = HttpLimits(stop_s=0.05, stream_bytes_max=10**9)
    server = HttpServer(App(world.backend.operations, limits=limits), port=0)
    await server.start()
    stuck = await world.dial(server, buffer_bytes=2048)
    stuck.say(ASK)
    await stuck.hear("retry: 1000")
    for _ in range(20):
        # Far more than sockets hold.
        world.backend.publish("big", text="x" * 1_000_000)

    async with asyncio.timeout(DEADLINE_S):
        await server.stop()

    assert world.backend.readers == 0
    # It got what was on its way, and nothing is kept for it.
    assert len(await stuck.rest()) < 15_000_000
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_events_that_break_off_end_the_stream_and_are_logged(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(after: int | None) -> AsyncIterator[EventInfo]:
        yield EventInfo(1, "first", 0.0, {})
        raise RuntimeError("broken")

    monkeypatch.setattr(world.backend, "events", broken)
    client = await world.client()

    async with reading(client) as reader:
        first = await reader.event()
        end = await reader.event()

    assert first is not None
    assert end is None
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "an event stream failed" in record.message
