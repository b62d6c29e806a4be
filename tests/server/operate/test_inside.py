"""Inside rooms: their state as data, a word to everybody in them, and a connection that an operator drops."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from holdfast import (
    Announcement,
    Failed,
    Invalid,
    Limits,
    NotFound,
    Parts,
    Player,
    PlayerData,
    Refused,
    Room,
    Throttled,
    Untyped,
)
from holdfast.events import BroadcastSent
from tests.cases import every_case
from tests.server.durability.bench import until
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

    shown = server.operate.rooms.state(room.id)

    assert shown.state == {"round": 3, "chunks": {"a": 1}}
    assert shown.attributes["odd"] == "an odd thing"
    assert shown.attributes["since"] == "2026-01-01T00:00:00Z"
    assert shown.attributes["by_place"].startswith("(dict: cannot be shown")
    assert shown.attributes.keys() == {"odd", "since", "by_place"}
    [player] = shown.players
    assert (player.player, player.state, player.data, player.owned) == (
        *("agent:ada", "taken"),
        {"cards": (1, 2)},
        ["deck"],
    )
    assert msgspec.json.encode(shown)


async def test_a_state_that_is_too_large_or_cannot_be_taken_is_refused(world: World) -> None:
    class Broken(Chat):
        def snapshot(self) -> Any:
            raise RuntimeError("no picture")

    server = await world.serve(Cards, chat(Broken), limits=Limits(state_shown_bytes_max=40))
    cards, broken = await server.create_room("cards"), await server.create_room("chat")
    operator = server.operate

    with pytest.raises(Refused, match="at most 40 are shown"):
        operator.rooms.state(cards.id)
    with pytest.raises(Failed, match="snapshot"):
        operator.rooms.state(broken.id)
    with pytest.raises(NotFound):
        operator.rooms.state("nothing")


async def test_a_room_that_is_dear_to_look_into_is_left_alone_for_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dear(Chat):
        def snapshot(self) -> Any:
            monkeypatch.setattr(server.operate.rooms, "_now", lambda: began + 1.0)
            return "x" * 100

    server = await world.serve(chat(Dear), Cards, limits=Limits(state_shown_bytes_max=80))
    dear, cards = await server.create_room("chat"), await server.create_room("cards")
    operator = server.operate
    began = server.parts.clock.now()

    with pytest.raises(Refused, match="at most 80 are shown"):
        operator.rooms.state(dear.id)
    with pytest.raises(Throttled, match=r"in 50\.0 s"):
        operator.rooms.state(dear.id)
    # Another room is another matter.
    assert operator.rooms.state(cards.id).state
    monkeypatch.setattr(server.operate.rooms, "_now", lambda: began + 51.1)
    with pytest.raises(Refused, match="at most 80 are shown"):
        operator.rooms.state(dear.id)


async def test_a_state_that_is_shown_but_took_long_is_not_taken_again_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = takes_s = 0.0

    class Slow(Chat):
        def snapshot(self) -> Any:
            nonlocal now
            now += takes_s
            return "shown"

    server = await world.serve(chat(Slow))
    room = await server.create_room("chat")
    operator = server.operate
    monkeypatch.setattr(operator.rooms, "_now", lambda: now)

    takes_s = 0.01
    assert [operator.rooms.state(room.id).state for _ in range(2)] == ["shown", "shown"]
    takes_s = 0.1
    assert operator.rooms.state(room.id).state == "shown"
    with pytest.raises(Throttled):
        operator.rooms.state(room.id)


async def test_half_a_character_in_a_game_fails_alone(world: World) -> None:
    class Half(Cards):
        def on_create(self, config: dict[str, Any]) -> None:
            self.state = {"text": "\ud800"}
            self.whole = "ü"

    server = await world.serve(Half)
    room = await server.create_room("half")

    shown = server.operate.rooms.state(room.id)

    assert (shown.state, shown.attributes) == ("(dict: cannot be shown)", {"whole": "ü"})
    assert msgspec.json.encode(shown)


@pytest.mark.parametrize("name", ['"', "\\", "\n"])
async def test_a_broadcast_with_a_name_that_no_field_can_have_is_refused(world: World, name: str) -> None:
    server = await world.serve(chat())
    room = await server.create_room("chat")

    with pytest.raises(Invalid, match="body: "):
        await server.operate.rooms.broadcast(room.id, "notice", {name: 1})


async def test_a_broadcast_reaches_everybody_in_the_room_in_order(world: World) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server, codec="holdfast.v1.json")
    rooms = [await ada.join_or_create("chat"), await bob.join_or_create("chat")]

    told = await server.operate.rooms.broadcast(rooms[0].id, "notice", {"text": "soon", "in-minutes": 5, "of": [1]})

    assert told == 2
    for room in rooms:
        notice = await room.receive()
        assert isinstance(notice, Untyped)
        assert (notice.type, notice.body) == ("notice", {"text": "soon", "in-minutes": 5, "of": [1]})


async def test_a_broadcast_may_not_pretend_to_be_holdfast(world: World) -> None:
    server = await world.serve(chat())
    room = await server.create_room("chat")
    operator = server.operate

    with pytest.raises(Invalid, match="are reserved"):
        await operator.rooms.broadcast(room.id, "holdfast.left", {"reason": "kicked"})
    with pytest.raises(NotFound):
        await operator.rooms.broadcast("nothing", "notice", {})
    assert await operator.rooms.broadcast(room.id, "notice", {}) == 0


async def test_an_operator_speaks_to_everybody_on_the_node(world: World) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server, codec="holdfast.v1.json")
    await ada.join_or_create("chat")
    operator = server.operate.sessions

    told = [
        operator.broadcast(text="soon", role="", kind=""),
        operator.broadcast(message_type="wave", body={"n": 3}, role="", kind="chat"),
        operator.broadcast(text="nobody", role="gm", kind=""),
    ]

    assert told == [2, 1, 0]
    assert [await ada.receive(), await ada.receive()] == [Announcement("soon"), Untyped("wave", {"n": 3})]
    assert await bob.receive() == Announcement("soon")


@every_case(
    "given",
    [
        {"text": "", "message_type": ""},
        {"text": " "},
        {"text": "soon", "message_type": "wave"},
        {"text": "soon", "body": {"n": 1}},
        {"message_type": "holdfast.left"},
    ],
)
async def test_a_broadcast_to_everybody_is_a_text_or_a_message_of_the_game(world: World, given: dict[str, Any]) -> None:
    server = await world.serve(chat())

    with pytest.raises(Invalid):
        server.operate.sessions.broadcast(**given, role="", kind="")


async def test_a_message_of_the_game_is_not_taken_for_a_blank_text(world: World) -> None:
    server = await world.serve(chat())
    ada = await world.connect(server)

    server.operate.sessions.broadcast(text=" ", message_type="wave", body={"n": 3}, role="", kind="")

    assert await ada.receive() == Untyped("wave", {"n": 3})


async def test_operators_broadcast_only_so_often_and_mistakes_do_not_count(world: World) -> None:
    server = await world.serve(chat(), limits=Limits(broadcasts_burst=2, broadcasts_per_s=0.01))
    told: list[BroadcastSent] = []
    server.on(BroadcastSent)(told.append)
    operator = server.operate.sessions
    for _ in range(3):
        with pytest.raises(NotFound):
            operator.broadcast(text="soon", role="", kind="none")

    for text in ("soon", "now"):
        operator.broadcast(text=text, role="", kind="", by="ops")
    with pytest.raises(Throttled, match=r"too many broadcasts: try again in (99|100)\.\d s"):
        operator.broadcast(text="again", role="", kind="")

    server.broadcast(Announcement("from the game"))
    await until(lambda: len(told) == 3)
    assert [(each.text, each.by) for each in told] == [("soon", "ops"), ("now", "ops"), ("from the game", "")]


async def test_a_session_whose_connection_is_dropped_comes_back(world: World) -> None:
    server = await world.serve(chat())
    ada = await world.connect(server)
    room = await ada.join_or_create("chat")
    operator = server.operate

    outcome = await until_resumed(ada, lambda: operator.sessions.drop(ada.id, "a test"))

    assert outcome.kind == "resumed"
    await room.send(Say("still here"))
    await hear(room, "still here")
    with pytest.raises(NotFound):
        operator.sessions.drop("nobody", "")


async def test_sessions_and_players_are_found_by_a_part_of_their_ids(world: World) -> None:
    server = await world.serve(chat())
    agents = [server.open_agent(name) for name in ("ada-lovelace", "ada-byron", "bob-marley")]
    room = await server.create_room("chat")
    await agents[2].join(room.id)
    operator = server.operate

    def found(**query: str) -> set[str]:
        page = operator.sessions.list(player="", limit=10, cursor="", **query)
        return {session.player for session in page.sessions}

    assert found(search="ada-") == {"agent:ada-lovelace", "agent:ada-byron"}
    assert found(search=room.id) == {"agent:bob-marley"}
    assert found(search=agents[0].session.id) == {"agent:ada-lovelace"}
    assert found(status="disconnected") == set()
    assert found(status="connected", search="ob-mar") == {"agent:bob-marley"}
    [player] = operator.players.list(limit=10, cursor="", search="da-by").players
    assert player.id == "agent:ada-byron"
