"""The node at a glance: numbers that are right, settings that are in force, kinds that say what they understand."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from holdfast import Limits, Message, Player, PlayerData, Room, WebSocket, on
from holdfast.schemas.node import EventInfo
from holdfast.server.operate.overview import OVERVIEW_S
from holdfast.testing import MemoryServer, run
from tests.server.world import Say, World, chat, hear, until_resumed


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


class Move(Message):
    to: Point
    fast: bool = False


class Odd(Message):
    what: Any = None


class Loadout(msgspec.Struct):
    weapon: str = "sword"


class Board(Room[PlayerData]):
    grace_s = 12.0
    join_options = Loadout
    sends = (Move, Odd)

    @on(Move)
    def move(self, player: Player[PlayerData], move: Move) -> None:
        """Go there."""

    @on(Odd, role="gm")
    def odd(self, player: Player[PlayerData], odd: Odd) -> None:
        """Whatever."""


async def test_the_overview_counts_who_is_here_and_what_happened(world: World) -> None:
    server = await world.serve(chat(), Board)
    ada, bob = await world.connect(server), await world.connect(server)
    room = await ada.join_or_create("chat")
    await room.send(Say("hello"))
    await hear(room, "hello")
    await until_resumed(ada, ada.cut)

    shown = await server.operate.overview.overview()

    assert shown.players == 2
    assert shown.sessions == {"preconnect": 0, "connected": 2, "disconnected": 0}
    assert shown.rooms == {"chat": 1, "board": 0}
    assert (shown.totals["messages_applied"], shown.totals["resumed"], shown.totals["drops"]) == (1, 1, 1)
    assert shown.drops == {"dropped": 1}
    assert shown.spreads["turn"].counts[-1] > 0
    assert len(shown.spreads["round_trip"].counts) == len(shown.spreads["round_trip"].bounds) + 1
    assert shown.node.sessions == 2
    assert bob.connected


async def test_a_player_with_two_sessions_is_one_player(world: World) -> None:
    server = await world.serve(chat())
    server.open_agent("bot")
    server.open_agent("bot")

    shown = await server.operate.overview.overview()

    assert (shown.players, shown.sessions["connected"]) == (1, 2)


async def test_a_limit_that_was_reached_is_shown_with_what_was_done(world: World) -> None:
    server = await world.serve(chat())
    server.parts.alarms.report("rooms_per_player_max", "refused", player="ada")

    # Of many in a row one event tells; the first is told at once.
    shown = await server.operate.overview.overview()

    assert [(hit.limit, hit.action, hit.times) for hit in shown.limits] == [("rooms_per_player_max", "refused", 1)]


async def test_who_watches_is_shown_the_numbers_again_and_again(world: World) -> None:
    server = await world.serve(chat())
    looks = server.operate.overview.watch()

    first = await anext(looks)
    server.open_agent("bot")
    opened, second = await anext(looks), await anext(looks)

    assert (first.id, first.type, first.body["players"]) == (1, "overview", 0)
    assert (opened.type, opened.body["player"]) == ("session.opened", "agent:bot")
    assert (second.id, second.type, second.body["players"]) == (2, "overview", 1)
    assert second.at - first.at >= OVERVIEW_S * 0.9


def test_all_who_watch_share_one_look() -> None:
    async def look() -> None:
        async with MemoryServer([Board]) as server:
            watch = server.operate.overview.watch
            first = await anext(watch())
            server.open_agent("bot")

            shared = await asyncio.gather(*(anext(watch()) for _ in range(3)))
            await asyncio.sleep(OVERVIEW_S)
            later = await anext(watch())

            assert [(look.id, look.at, look.body["players"]) for look in shared] == [(1, first.at, 0)] * 3
            assert later.body["players"] == 1

    run(look())


async def test_of_a_storm_who_watches_is_shown_the_newest(world: World) -> None:
    server = await world.serve(chat())
    looks = server.operate.overview.watch()
    await anext(looks)
    for number in range(300):
        server.open_agent(f"bot-{number:03}")

    seen = [event.body["player"] async for event in _until_overview(looks)]

    assert len(seen) == 100
    assert seen[-1] == "agent:bot-299"


async def _until_overview(looks: AsyncIterator[EventInfo]) -> AsyncIterator[EventInfo]:
    async for event in looks:
        if event.type == "overview":
            return
        yield event


async def test_settings_are_those_in_force_and_hold_no_secret(world: World) -> None:
    server = await world.serve(
        chat(),
        limits=Limits(messages_per_s=7.0),
        listen=[WebSocket(port=0, origins=["https://game.example"])],
        secret=b"very secret indeed " * 2,
    )

    shown = server.operate.node.settings()

    assert shown.urls == {"websocket": server.url}
    assert (shown.origins, shown.auth, shown.store) == (["https://game.example"], ["guest"], "")
    changed = [limit for limit in shown.limits if limit.value != limit.default]
    assert [(limit.name, limit.value, limit.default) for limit in changed] == [("messages_per_s", 7.0, 200.0)]
    assert "secret indeed" not in str(shown)


async def test_kinds_say_their_settings_and_the_messages_they_understand(world: World) -> None:
    server = await world.serve(chat(), Board, store="memory:")

    _, board = server.operate.node.kinds()

    assert (board.kind, board.settings["grace_s"], board.settings["max_players"]) == ("board", 12.0, 16)
    assert [(message.type, message.role) for message in board.messages] == [("move", ""), ("odd", "gm")]
    schema = board.messages[0].schema
    assert schema["$defs"]["Move"]["required"] == ["to"]
    assert schema["$defs"]["Point"]["properties"]["y"] == {"type": "number", "default": 0.0}
    assert server.operate.node.settings().store == "memory"
    # All of it can be told as JSON.
    told = msgspec.json.decode(msgspec.json.encode(board))
    assert (told["kind"], told["settings"]["sends"], told["settings"]["shares"]) == ("board", ["move", "odd"], [])
    assert told["options"]["$defs"]["Loadout"]["properties"]["weapon"] == {"type": "string", "default": "sword"}
