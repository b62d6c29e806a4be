"""Inside rooms: their state as data, a word to everybody in them, and a connection that an operator drops."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from holdfast import Failed, Invalid, Limits, NotFound, Parts, Player, PlayerData, Refused, Room, Untyped
from holdfast.server.operate.operator import Operator
from tests.server.world import Chat, Say, World, chat, hear, until_resumed


class Hand(PlayerData):
    cards: tuple[int, ...] = ()


class Table(msgspec.Struct):
    round: int
    chunks: Parts[int]


class Odd:
    """Nothing that can be shown as data."""

    def __repr__(self) -> str:
        return "an odd thing"


class Cards(Room[Hand]):
    empty_ttl_s = 600.0

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Table(3, Parts({"a": 1}))
        self.odd = Odd()
        self.since = datetime(2026, 1, 1, tzinfo=UTC)
        self.by_place = {(1, 2): "x"}
        self._hidden = "not for anybody"

    def on_join(self, player: Player[Hand]) -> None:
        player.data.cards = (1, 2)
        self.own(player, "deck")


async def test_a_room_is_shown_with_its_state_its_attributes_and_its_players(world: World) -> None:
    server = await world.serve(Cards)
    agent = server.open_agent("ada")
    room = await server.create_room("cards")
    await agent.join(room.id)

    shown = Operator(server.node).room_state(room.id)

    assert shown.state == {"round": 3, "chunks": {"a": 1}}
    assert shown.attributes["odd"] == "an odd thing"
    assert shown.attributes["since"] == "2026-01-01T00:00:00Z"
    assert shown.attributes["by_place"].startswith("(dict: cannot be shown")
    assert shown.attributes.keys() == {"odd", "since", "by_place"}
    [player] = shown.players
    assert (player.id, player.seat, player.data, player.owned) == ("ada", "taken", {"cards": (1, 2)}, ["deck"])
    assert msgspec.json.encode(shown)


async def test_a_state_that_is_too_large_or_cannot_be_taken_is_refused(world: World) -> None:
    class Broken(Chat):
        def snapshot(self) -> Any:
            raise RuntimeError("no picture")

    server = await world.serve(Cards, chat(Broken), limits=Limits(state_shown_bytes_max=40))
    cards, broken = await server.create_room("cards"), await server.create_room("chat")
    operator = Operator(server.node)

    with pytest.raises(Refused, match="at most 40 are shown"):
        operator.room_state(cards.id)
    with pytest.raises(Failed, match="snapshot"):
        operator.room_state(broken.id)
    with pytest.raises(NotFound):
        operator.room_state("nothing")


async def test_a_broadcast_reaches_everybody_in_the_room_in_order(world: World) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server, dialect="holdfast.v1.json")
    rooms = [await ada.join_or_create("chat"), await bob.join_or_create("chat")]

    told = await Operator(server.node).broadcast(rooms[0].id, "notice", {"text": "soon", "in-minutes": 5, "of": [1]})

    assert told == 2
    for room in rooms:
        notice = await room.receive()
        assert isinstance(notice, Untyped)
        assert (notice.type, notice.body) == ("notice", {"text": "soon", "in-minutes": 5, "of": [1]})


async def test_a_broadcast_may_not_pretend_to_be_holdfast(world: World) -> None:
    server = await world.serve(chat())
    room = await server.create_room("chat")
    operator = Operator(server.node)

    with pytest.raises(Invalid, match="Holdfast's own"):
        await operator.broadcast(room.id, "holdfast.left", {"reason": "kicked"})
    with pytest.raises(NotFound):
        await operator.broadcast("nothing", "notice", {})
    assert await operator.broadcast(room.id, "notice", {}) == 0


async def test_a_session_whose_connection_is_dropped_comes_back(world: World) -> None:
    server = await world.serve(chat())
    ada = await world.connect(server)
    room = await ada.join_or_create("chat")
    operator = Operator(server.node)

    outcome = await until_resumed(ada, lambda: operator.drop_session(ada.id, "a test"))

    assert outcome.kind == "resumed"
    await room.send(Say("still here"))
    await hear(room, "still here")
    with pytest.raises(NotFound):
        operator.drop_session("nobody", "")


async def test_sessions_and_players_are_found_by_a_part_of_their_ids(world: World) -> None:
    server = await world.serve(chat())
    agents = [server.open_agent(name) for name in ("ada-lovelace", "ada-byron", "bob-marley")]
    room = await server.create_room("chat")
    await agents[2].join(room.id)
    operator = Operator(server.node)

    def found(**query: str) -> set[str]:
        page = operator.list_sessions(player="", limit=10, cursor="", **query)
        return {session.player for session in page.sessions}

    assert found(search="ada-") == {"ada-lovelace", "ada-byron"}
    assert found(search=room.id) == {"bob-marley"}
    assert found(search=agents[0].session.id) == {"ada-lovelace"}
    assert found(status="disconnected") == set()
    assert found(status="connected", search="ob-mar") == {"bob-marley"}
    assert [player.id for player in operator.list_players(limit=10, cursor="", search="da-by").players] == ["ada-byron"]
