"""`holdfast sessions explain` and `holdfast players explain`, against a real server: a cable is cut, and it is said."""

import asyncio
from collections.abc import AsyncIterator

import pytest

import holdfast
from holdfast import PlayerData, Room, Server, WebSocket
from holdfast.events import Dropped, Ended, Event
from holdfast.http.api import HttpApi
from tests.cli.operator import Operator
from tests.deadlines import DEADLINE_S
from tests.saved_sessions import suspended


class Hall(Room[PlayerData]):
    """A room."""

    kind = "hall"


class Desk(Operator):
    """An operator who follows what happens on the server."""

    def __init__(self, server: Server, news: "asyncio.Queue[Event]") -> None:
        super().__init__(server)
        self.news = news

    async def hears_of(self, kind: type[Event]) -> None:
        """Wait until this has happened."""
        async with asyncio.timeout(DEADLINE_S):
            while not isinstance(await self.news.get(), kind):
                pass


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with Server([Hall], listen=[WebSocket(port=0)], http=HttpApi(port=0), grace_s=0.2) as server:
        news: asyncio.Queue[Event] = asyncio.Queue()
        server.on(Event, news.put_nowait)
        yield Desk(server, news)


async def test_a_drop_is_explained_in_words_and_for_programs(desk: Desk) -> None:
    session = await holdfast.connect(desk.server.url)
    await session.join_or_create("hall")
    state = await suspended(session)
    assert state
    await desk.hears_of(Dropped)

    said = await desk.run("sessions", "explain", session.id)
    told = await desk.json("sessions", "explain", session.id)

    assert said.exit_code == 0, said.stderr
    first, *_ = said.stdout.splitlines()
    assert first == f"Session {session.id} of player {session.player_id}: disconnected"
    assert "The client's page or app was closed" in said.stdout
    assert "What you can do" in said.stdout
    assert "What happened (UTC)" in said.stdout
    assert "took a seat in room" in said.stdout
    assert all(len(line) <= 80 for line in said.stdout.splitlines())
    assert (told["status"], told["reason"]) == ("disconnected", "dropped")
    assert [entry["type"] for entry in told["entries"]][-1] == "session.dropped"


async def test_a_player_who_is_gone_is_explained_by_name(desk: Desk) -> None:
    session = await holdfast.connect(desk.server.url)
    session.cut()
    await desk.hears_of(Dropped)
    await session.close()
    await desk.hears_of(Ended)

    by_player = await desk.run("players", "explain", session.player_id)
    by_session = await desk.run("sessions", "explain", session.id)

    assert by_player.stdout == by_session.stdout
    assert by_player.stdout.startswith(f"Session {session.id} of player {session.player_id}: ended")


async def test_what_is_not_known_is_an_error_that_says_so(desk: Desk) -> None:
    nobody = await desk.run("sessions", "explain", "nobody")
    nor_them = await desk.run("players", "explain", "nobody")

    assert nobody.exit_code == nor_them.exit_code == 1
    assert "unknown session 'nobody'" in nobody.stderr
    assert "player 'nobody' has no session on this node" in nor_them.stderr


async def test_what_was_said_cannot_steer_the_operator_s_terminal(desk: Desk) -> None:
    session = await holdfast.connect(desk.server.url)
    found = desk.server.sessions.get(session.id)
    assert found is not None
    found.end("\x1b[2Jhaha\x07")
    await desk.hears_of(Ended)

    said = (await desk.run("sessions", "explain", session.id)).stdout

    assert "\x1b" not in said
    assert "haha" in said
    await session.close()
