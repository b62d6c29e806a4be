"""The message log of a room: both ways, without secrets, bounded, and nothing at all while nobody watches."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import Limits, Message, NotFound, Player, Server, on
from holdfast.observability import log_lines, message_log
from holdfast.observability.packet_text import masked_view
from holdfast.schemas.node import EventInfo
from tests.deadlines import DEADLINE_S
from tests.server.live import live_connection
from tests.server.world import Chat, Hero, Say, World, chat, hear, server_side


class Unlock(Message):
    door: str
    password: str


class Vault(Chat):
    @on(Unlock)
    def try_door(self, player: Player[Hero], unlock: Unlock) -> None:
        """Only said."""


class Watcher:
    """Reads on while others talk."""

    def __init__(self) -> None:
        self.events: list[EventInfo] = []
        self._changed = asyncio.Event()

    async def read(self, messages: AsyncIterator[EventInfo]) -> None:
        async for event in messages:
            self.events.append(event)
            self._changed.set()

    async def saw(self, count: int) -> list[dict[str, Any]]:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.events) < count:
                self._changed.clear()
                await self._changed.wait()
        return [event.body for event in self.events]


@asynccontextmanager
async def watching(server: Server, room_id: str) -> AsyncIterator[Watcher]:
    watcher = Watcher()
    task = asyncio.create_task(watcher.read(server.operate.rooms.messages(room_id)))
    # It watches from its first turn on.
    await asyncio.sleep(0)
    try:
        yield watcher
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_what_is_said_in_a_room_is_seen_both_ways_and_of_no_other_room(world: World) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server)
    room, other = await ada.join_or_create("chat"), await bob.create("chat")
    elsewhere = await bob.join(other.id)

    async with watching(server, room.id) as watcher:
        await elsewhere.send(Say("unseen"))
        await hear(elsewhere, "unseen")
        await room.send(Say("seen"))
        await hear(room, "seen")
        said, answer = await watcher.saw(2)

    shown = {name: said[name] for name in ("direction", "player", "type", "body")}
    assert shown == {"direction": "in", "player": ada.player_id, "type": "say", "body": {"text": "seen"}}
    assert (answer["direction"], answer["type"]) == ("out", "said")
    assert answer["body"] == {"who": ada.player_id, "text": "seen"}
    assert [event.id for event in watcher.events] == [1, 2]


async def test_a_secret_in_a_message_is_not_shown(world: World) -> None:
    server = await world.serve(chat(Vault))
    ada = await world.connect(server)
    room = await ada.join_or_create("chat")

    async with watching(server, room.id) as watcher:
        await room.send(Unlock("front", "hunter2"))
        [said] = await watcher.saw(1)

    assert said["body"]["door"] == "front"
    assert "hunter2" not in str(said)


async def test_while_nobody_watches_no_connection_has_a_tap(world: World) -> None:
    server = await world.serve(chat())
    ada = await world.connect(server)
    room = await ada.join_or_create("chat")
    connection = live_connection(server_side(server, ada))
    assert connection is not None

    async with watching(server, room.id):
        during = connection.tap
        bob = await world.connect(server)
        late = live_connection(server_side(server, bob))
        assert late is not None
        late_during = late.tap

    assert None not in {during, late_during}
    assert (connection.tap, late.tap) == (None, None)


async def test_the_packet_log_goes_on_beside_it(world: World, caplog: pytest.LogCaptureFixture) -> None:
    server = await world.serve(chat())
    ada = await world.connect(server)
    room = await ada.join_or_create("chat")
    server.packet_log(session=ada.id)

    async with watching(server, room.id) as watcher:
        await room.send(Say("both"))
        await hear(room, "both")
        await watcher.saw(2)
    await room.send(Say("one"))
    await hear(room, "one")

    logged = caplog.text
    assert "both" in logged
    assert "one" in logged
    assert len(watcher.events) == 2


async def test_too_many_messages_are_left_out_and_counted(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(packet_lines_per_s=3))
    ada = await world.connect(server)
    room = await ada.join_or_create("chat")

    async with watching(server, room.id) as watcher:
        for number in range(20):
            await room.send(Say(str(number)))
        await hear(room, "19")
        async with asyncio.timeout(DEADLINE_S):
            while not any(event.type == "gap" for event in watcher.events):
                await watcher.saw(len(watcher.events) + 1)

    shown = sum(event.type == "message" for event in watcher.events)
    left_out = sum(event.body["left_out"] for event in watcher.events if event.type == "gap")
    assert shown < 40
    assert left_out > 0


async def test_a_busy_room_takes_nothing_from_who_watches_a_quiet_one(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(packet_lines_per_s=3))
    ada, bob = await world.connect(server), await world.connect(server)
    busy, quiet = await ada.join((await ada.create("chat")).id), await bob.join((await bob.create("chat")).id)

    async with watching(server, busy.id), watching(server, quiet.id) as watcher:
        for number in range(20):
            await busy.send(Say(str(number)))
        await hear(busy, "19")
        await quiet.send(Say("hello"))
        await hear(quiet, "hello")
        said, answer = await watcher.saw(2)

    assert (said["type"], answer["type"]) == ("say", "said")


async def test_what_is_too_much_to_show_is_not_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []

    def spy(frames: Any, *args: Any, **kwargs: Any) -> Any:
        read.append(frames)
        return masked_view(frames, *args, **kwargs)

    monkeypatch.setattr(message_log, "masked_view", spy)
    # Its second never ends: nothing is shown after the first three.
    monkeypatch.setattr(log_lines, "_WINDOW_S", 3600.0)
    server = await world.serve(chat(), limits=Limits(packet_lines_per_s=3))
    ada = await world.connect(server)
    room = await ada.join_or_create("chat")

    async with watching(server, room.id) as watcher:
        for number in range(3):
            await room.send(Say(str(number)))
        await hear(room, "2")
        await watcher.saw(3)
        read.clear()
        for number in range(3, 20):
            await room.send(Say(str(number)))
        await hear(room, "19")

    assert read == []


async def test_a_watch_ends_with_its_room(world: World) -> None:
    server = await world.serve(chat())
    ada = await world.connect(server)
    room = await ada.join_or_create("chat")
    operator = server.operate
    watcher = Watcher()
    reading = asyncio.create_task(watcher.read(operator.rooms.messages(room.id)))
    await asyncio.sleep(0)
    await room.send(Say("last words"))
    await hear(room, "last words")

    await operator.rooms.end(room.id, "")

    async with asyncio.timeout(DEADLINE_S):
        await reading
    assert [event.type for event in watcher.events] == ["message", "message"]
    connection = live_connection(server_side(server, ada))
    assert connection is not None
    assert connection.tap is None


async def test_a_payload_that_is_too_long_is_shown_by_its_length(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(message_shown_bytes_max=100))
    ada = await world.connect(server)
    room = await ada.join_or_create("chat")

    async with watching(server, room.id) as watcher:
        await room.send(Say("x" * 500))
        [long, *_] = await watcher.saw(1)

    assert (long["type"], long["body"]) == ("", None)
    assert long["bytes"] > 500


async def test_a_room_that_is_not_there_cannot_be_watched(world: World) -> None:
    server = await world.serve(chat())

    with pytest.raises(NotFound):
        server.operate.rooms.messages("nothing")
