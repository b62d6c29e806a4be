"""A client process is killed at any instruction, and another goes on from what it saved: nothing twice or lost."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast import Server, SessionEnded, WebSocket
from holdfast.client.connect import dial
from holdfast.client.journal import SessionJournal
from holdfast.sync import connect
from holdfast.testing import MemoryServer, run
from tests.client.mortal import Count, Disk, Life, Notebook, Tally, mortal
from tests.deadlines import DEADLINE_S

LAST = 6
EVERYTHING = list(range(1, LAST + 1))

Play = Callable[[Disk, Notebook, Life], Awaitable[None]]
"""One life of a program: it goes on where it was, whatever that is."""


async def every_kill(play: Play, got: Callable[[], dict[str, list[int]]]) -> int:
    """Kill in the first write, in the second, and so on, until there is no such write; how many there were."""
    number = 0
    while True:
        number += 1
        disk, notebook = Disk(), Notebook(f"player {number}")
        first = Life(number)
        for life in (first, Life(None)):
            disk.life = notebook.life = life
            try:
                await play(disk, notebook, life)
            except (SessionEnded, OSError):
                # What is left of a process that cannot do anything any more.
                if not life.is_over:
                    raise
            if not life.is_over or notebook.is_done:
                break
        came = got().get(notebook.player)
        assert (came, notebook.heard, notebook.forgotten) == (EVERYTHING, EVERYTHING, []), f"killed in write {number}"
        if not first.is_over:
            return number - 1


def every_kill_in_memory() -> int:
    async def story() -> int:
        async with MemoryServer([Tally]) as server:

            async def play(disk: Disk, notebook: Notebook, life: Life) -> None:
                way = mortal(server.network.dialer("mortal"), life)
                session = await server.connect(notebook.name, dial=way, saved=disk, messages=[Count])
                room = session.room or await session.join_or_create("tally")
                notebook.begins(session.player_id, room.sent)
                while len(notebook.heard) < LAST and not life.is_over:
                    if room.sent < LAST:
                        notebook.sent(await room.send(Count(room.sent + 1)))
                    message = await room.receive()
                    notebook.handles(room.received, message)
                await room.flush()
                notebook.done()
                assert life.is_over or (room.sent, room.accepted, room.unconfirmed) == (LAST, LAST, [])
                await session.close()

            return await every_kill(play, lambda: got_by(server))

    return run(story())


def got_by(server: MemoryServer | Server) -> dict[str, list[int]]:
    return {player: numbers for room in server.rooms if isinstance(room, Tally) for player, numbers in room.got.items()}


def test_a_client_killed_in_any_write_sends_nothing_twice_and_loses_nothing() -> None:
    assert every_kill_in_memory() > 3 * LAST


def play_blocking(url: str, disk: Disk, notebook: Notebook, life: Life) -> None:
    with connect(url, dial=mortal(dial, life), saved=disk, messages=[Count]) as session:
        room = session.room or session.join_or_create("tally")
        notebook.begins(session.player_id, room.sent)
        while len(notebook.heard) < LAST and not life.is_over:
            if room.sent < LAST:
                notebook.sent(room.send(Count(room.sent + 1)))
            message = room.receive(timeout=DEADLINE_S)
            notebook.handles(room.received, message)
        room.flush()
        notebook.done()
        assert life.is_over or (room.sent, room.accepted, room.unconfirmed) == (LAST, LAST, [])


async def test_the_blocking_client_killed_in_any_write_sends_nothing_twice_and_loses_nothing() -> None:
    async with Server([Tally], listen=[WebSocket(port=0)]) as server:

        async def play(disk: Disk, notebook: Notebook, life: Life) -> None:
            await asyncio.to_thread(play_blocking, server.url, disk, notebook, life)

        assert await every_kill(play, lambda: got_by(server)) > 3 * LAST


@pytest.mark.parametrize("lazy", ["sent", "keep"])
def test_a_client_that_stores_late_is_found_out(lazy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: what is sent, or how far we got, is not stored before the server hears of it."""
    monkeypatch.setattr(SessionJournal, lazy, lambda *_: None)

    with pytest.raises(AssertionError):
        every_kill_in_memory()
