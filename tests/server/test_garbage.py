"""The garbage collector: what has ended is freed without it, and its collections look at what is new."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from holdfast import Player, Reason, Tcp, WebSocket
from holdfast.core.limits import Limits
from holdfast.core.session import Seat, Session, seat_of
from holdfast.server.connection.connection import LiveConnection
from holdfast.server.garbage import GarbageTuning
from tests.server.world import Chat, Said, Say, World, chat, hear, url_of

OURS = (Session, Seat, LiveConnection)


def left() -> list[object]:
    """The objects of sessions that exist in this process."""
    return [each for each in gc.get_objects() if isinstance(each, OURS)]


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(
    ("transport", "codec", "options"),
    [
        ("websocket", "holdfast.v1.msgpack", {}),
        ("websocket", "holdfast.v1.json", {}),
        ("websocket", "holdfast.v1.msgpack", {"listen": [WebSocket(port=0, compression=True)]}),
        ("tcp", "holdfast.v1.msgpack", {"listen": [Tcp(port=0)]}),
    ],
)
async def test_a_session_that_has_ended_is_freed_without_the_collector(
    world: World, transport: str, codec: str, options: dict[str, Any]
) -> None:
    before = len(left())
    # A timer holds a connection until its hello is due.
    server = await world.serve(chat(grace_s=0.05), limits=Limits(hello_s=0.5), **options)
    for number in range(3):
        async with holdfast.connect(url_of(server, transport), codec=codec, messages=[Said]) as session:
            room = await session.join_or_create("chat")
            await room.send(Say(f"{number}"))
            await hear(room, f"{number}")
    assert len(left()) > before

    async with asyncio.timeout(20):
        while len(left()) > before:  # noqa: ASYNC110 - nothing tells of an object that is freed
            await asyncio.sleep(0.02)


async def test_a_player_whom_a_game_keeps_still_answers_after_they_left(world: World) -> None:
    kept: list[Player[Any]] = []

    class Album(Chat):
        def on_leave(self, player: Player[Any], reason: Reason) -> None:
            kept.append(player)

    server = await world.serve(chat(Album))
    session = await world.connect(server)
    room = await session.join_or_create("chat")
    await room.leave()
    async with asyncio.timeout(20):
        while not kept or left_its_seat(kept[0]):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)

    [player] = kept
    player.kick()

    assert (player.id, player.connected, player.owned) == (session.player_id, False, frozenset())
    assert player.session.player_id == session.player_id
    assert repr(player) == f"<Player {player.id} freed>"


def left_its_seat(player: Player[Any]) -> bool:
    """Whether the room still has something to say about it."""
    return hasattr(seat_of(player), "member")


class Ring:
    """An object in a cycle."""

    def __init__(self) -> None:
        self.itself = self


async def test_what_survives_a_full_collection_is_not_looked_at_again() -> None:
    tuning = GarbageTuning(lambda: 0)
    try:
        kept: list[list[int]] = [[n] for n in range(50_000)]
        gc.collect()
        looked_at = len(gc.get_objects())

        assert len(kept) == 50_000
        assert looked_at < 25_000
    finally:
        tuning.restore()


async def test_cycles_among_what_survived_are_found_once_objects_have_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.server.garbage._COUNT_S", 0.0)
    tuning = GarbageTuning(lambda: 0)
    try:
        rings = [Ring() for _ in range(gc.get_freeze_count() + 50_000)]
        gc.collect()
        rings.clear()

        async with asyncio.timeout(20):
            while gc.get_freeze_count() + len(gc.get_objects()) > 2 * tuning._at_start:  # noqa: SLF001
                gc.collect()
                await asyncio.sleep(0.01)
    finally:
        tuning.restore()
