"""Handlers of the game, which are told what happens: what they may do, and what it does to the rest."""

import asyncio
from typing import Any

import pytest

from holdfast import Limits, Message, Reason, Server
from holdfast.schemas.events import (
    Dropped,
    Ended,
    Event,
    RoomCreated,
    SessionEvent,
    SessionOpened,
)
from holdfast.schemas.requests import Create
from holdfast.testing import MemoryServer
from tests.observability.scene import PATIENT, hall, scene
from tests.server.durability.bench import in_virtual_time
from tests.server.live import live_connection
from tests.server.world import chat


class Ring(Message):
    pass


@in_virtual_time
async def test_a_handler_may_end_the_session_that_it_is_told_of() -> None:
    async with scene() as play:
        heard: list[str] = []

        @play.server.on(Dropped)
        def give_up(event: Dropped) -> None:
            heard.append("dropped")
            session = play.server.sessions.get(event.session)
            assert session is not None
            session.end("no second chances")

        play.server.on(Ended, lambda event: heard.append(event.reason))
        ada = await play.seated()
        ada.client.cut()
        await play.settled()

        assert heard == ["dropped", Reason.KICKED]
        assert len(play.server.sessions) == 0
        assert play.server.counters.internal_errors == 0


@in_virtual_time
async def test_a_handler_that_fails_is_an_error_of_the_game_and_nothing_else_happens() -> None:
    async with scene(allow_errors=ValueError) as play:

        @play.server.on(SessionEvent)
        async def fail(event: SessionEvent) -> None:
            raise ValueError("a bug of the game")

        ada = await play.seated()
        await ada.client.request("leave")

        assert play.server.counters.internal_errors == 4
        assert play.session(ada).status == "connected"


@in_virtual_time
async def test_two_servers_in_one_process_tell_each_of_its_own() -> None:
    async with scene() as one, scene() as other:
        heard: list[str] = []
        one.server.on(SessionOpened, lambda event: heard.append(f"one {event.player}"))
        other.server.on(SessionOpened, lambda event: heard.append(f"other {event.player}"))

        await one.enter("ada")
        await other.enter("bob")
        await one.settled()

        assert heard == ["one ada", "other bob"]


@in_virtual_time
async def test_handlers_are_kept_for_the_next_start_and_taken_off_for_good() -> None:
    server = MemoryServer([hall()], limits=Limits(**PATIENT))
    heard: list[str] = []

    def remember(event: SessionOpened) -> None:
        heard.append(event.player)

    server.on(SessionOpened, remember)
    async with server:
        await server.connect("ada")
    async with server:
        await server.connect("bob")
        server.off(SessionOpened, remember)
        await server.connect("cyd")
    async with server:
        await server.connect("dan")

    assert heard == ["ada", "bob"]
    with pytest.raises(ValueError, match="was not given"):
        server.off(SessionOpened, remember)


@in_virtual_time
async def test_a_server_that_stops_waits_for_its_handlers_but_not_for_ever() -> None:
    async with scene(close_s=2.0) as play:
        saved: list[str] = []

        @play.server.on(Ended)
        async def save(event: Ended) -> None:
            await asyncio.sleep(1.0 if event.player == "ada" else 3600.0)
            saved.append(event.player)

        await play.enter("ada")
        await play.enter("bob")
        before = asyncio.get_running_loop().time()
        await play.server.stop()

        assert saved == ["ada"]
        assert asyncio.get_running_loop().time() - before < 10.0


@in_virtual_time
async def test_rooms_are_told_of_when_somebody_else_makes_them() -> None:
    async with scene() as play:
        await play.server.machine.do(play.server.parts.rooms.create(Create("hall"), "ada"))

        assert [(each.kind, each.creator) for each in play.of(RoomCreated)] == [("hall", "ada")]


@in_virtual_time
async def test_the_first_reason_counts_when_a_connection_is_ended_twice_in_one_breath() -> None:
    async with scene() as play:
        ada = await play.enter()
        session = play.session(ada)

        def cut_and_disconnect() -> None:
            connection = live_connection(session)
            assert connection is not None
            connection.cut(Reason.SILENT)
            session.disconnect("too late")

        play.call(cut_and_disconnect)
        await play.settled()

        assert [dropped.reason for dropped in play.of(Dropped)] == [Reason.SILENT]


@in_virtual_time
async def test_a_reason_stands_also_if_there_was_no_space_left_to_tell_it() -> None:
    async with scene(window_bytes_max=100, write_buffer_bytes_max=1_000) as play:
        ada = await play.enter()
        play.link(ada).stop_reading("client")
        for number in range(20):
            ada.client.ask("search", kind=f"{number:060}")
        await play.settled()
        assert play.of(Dropped) == []

        play.call(play.session(ada).disconnect, "x" * 1_000)
        await play.settled()

        assert [dropped.reason for dropped in play.of(Dropped)] == [Reason.DISCONNECTED]
        assert (await play.back(ada)).welcome.outcome.drop_reason == Reason.DISCONNECTED


# What `server.on` takes


def handler(event: Event) -> None:
    """Never called."""


@pytest.mark.parametrize(
    "wrong", [handler, Server, int, "session.dropped", Dropped | int, None], ids=lambda wrong: repr(wrong)[:20]
)
def test_what_is_no_type_of_event_is_refused_at_once(wrong: Any) -> None:
    server = Server([chat()])

    # `@server.on` without its parentheses, among others: it would never be told of anything.
    with pytest.raises(TypeError, match=r"server\.on takes a type of event: @server\.on\(Dropped\)"):
        server.on(wrong)
    with pytest.raises(TypeError, match="takes a type of event"):
        server.on(wrong, handler)


def test_a_handler_stays_what_it_was() -> None:
    server = Server([chat()])

    assert server.on(Dropped)(handler) is handler
    assert server.on(Event, handler) is handler
