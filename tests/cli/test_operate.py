"""The commands that operate a running node, against a real one with its HTTP API."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
from rich.cells import cell_len

import holdfast
from holdfast import Hidden, Player, Private, Queue, Room, Server, WebSocket
from holdfast.cli import showing
from holdfast.http.api import ApiKey, HttpApi
from tests.cases import every_case
from tests.cli.operator import Operator


class Hall(Room[holdfast.PlayerData]):
    """A room with two seats."""

    kind = "hall"
    max_players = 2


class Card(msgspec.Struct):
    """A card, with a mark that its owner does not know of."""

    rank: int
    is_marked: Hidden[bool] = False


class Holder(holdfast.PlayerData):
    """A player with a hand."""

    score: int = 0
    hand: Private[list[Card]] = msgspec.field(default_factory=list)


class Board(msgspec.Struct):
    """The table."""

    turn: str = ""
    deck: Hidden[list[int]] = msgspec.field(default_factory=list)


class Table(Room[Holder]):
    """A room that shares its state."""

    kind = "table"
    shares = ("state", "players")
    state: Board

    def on_create(self, config: dict[str, object]) -> None:
        """Shuffle."""
        self.state = Board("ada", [3, 1, 2])

    def on_join(self, player: Player[Holder]) -> None:
        """Deal."""
        player.data.hand = [Card(7, is_marked=True)]


class Fog(Room[holdfast.PlayerData]):
    """A room that shows each player something else."""

    kind = "fog"
    shares = ("state",)
    state: Board

    def on_create(self, config: dict[str, object]) -> None:
        """Nothing is known."""
        self.state = Board()

    def view(self, player: Player[holdfast.PlayerData] | None) -> Board:
        """The same for all, here."""
        return self.state


KEY = "0123456789abcdef"


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    api = HttpApi(port=0, keys=[ApiKey(KEY, ["admin"])])
    async with Server(
        [Hall, Table, Fog], listen=[WebSocket(port=0)], http=api, queues=[Queue("all", ("*",))]
    ) as server:
        yield Operator(server, KEY)


async def test_a_room_is_made_found_shown_and_ended(operator: Operator) -> None:
    assert (await operator.run("rooms", "list")).stdout.strip() == "There are no rooms."

    made = await operator.json("rooms", "create", "hall", "--name", "Great Hall", "--property", "level=3")
    assert (made["name"], made["properties"], made["max_players"]) == ("Great Hall", {"level": 3}, 2)

    table = (await operator.run("rooms", "list", "--where", "properties.level > 2")).stdout
    assert made["id"] in table
    assert "Great Hall" in table
    assert await operator.json("rooms", "list", "--where", "properties.level > 3") == []
    hint = (await operator.run("rooms", "list", "--where", "properties.level = '3'")).stderr
    assert hint.startswith("Hint: no room can match: properties.level is compared with text, and is a number")
    assert "Great Hall" in (await operator.run("rooms", "show", made["id"])).stdout
    assert (await operator.run("rooms", "seats", made["id"])).stdout.strip() == "No seats are taken."
    assert (await operator.run("rooms", "spectators", made["id"])).stdout.strip() == "Nobody watches this room."

    ended = await operator.json("rooms", "end", made["id"], "--reason", "maintenance")
    assert ended["reason"] == "maintenance"


async def test_a_room_is_shown_with_all_that_is_in_it_and_secrets_are_marked(operator: Operator) -> None:
    async with holdfast.connect(operator.server.url) as ada:
        room = await ada.join_or_create("table")

        shown = await operator.output("rooms", "show", room.id)
        contents = (await operator.json("rooms", "show", room.id))["contents"]

    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "Contents (clients see state and players)" in lines
    assert {'turn "ada"', "deck [hidden] [3, 1, 2]", "hand [private]", "is_marked [hidden] true"} <= set(lines)
    assert contents["shared"] == {
        "roots": ["state", "players"],
        "private": ["players.*.hand"],
        "hidden": ["state.deck", "players.*.hand.*.is_marked"],
        "has_view": False,
        "behind": 0,
        "kept_bytes": 0,
    }
    assert contents["players"][0]["data"] == {"score": 0, "hand": [{"rank": 7, "is_marked": True}]}


async def test_a_room_that_shares_nothing_is_shown_so(operator: Operator) -> None:
    made = await operator.json("rooms", "create", "hall")

    assert "Contents (nothing is shared with clients)" in await operator.output("rooms", "show", made["id"])


async def test_a_room_that_makes_views_is_shown_so(operator: Operator) -> None:
    made = await operator.json("rooms", "create", "fog")

    shown = await operator.output("rooms", "show", made["id"])

    assert "Contents (clients see state; each has a view of its own of the state)" in shown


async def test_everybody_is_told_something(operator: Operator) -> None:
    assert await operator.output("broadcast", "soon") == "There is no session to send it to."
    async with holdfast.connect(operator.server.url) as ada, holdfast.connect(operator.server.url) as bob:
        await ada.join_or_create("hall")

        told = [
            await operator.output("broadcast", "The server restarts in 5 minutes."),
            await operator.output("broadcast", "--kind", "hall", "--type", "wave", "--body", '{"n": 3}'),
            await operator.output("broadcast", "secret", "--role", "gm"),
        ]

        assert told == ["Sent to 2 sessions.", "Sent to 1 session.", "There is no session to send it to."]
        assert await operator.json("broadcast", "again") == {"sessions": 2, "missing": []}
        text = holdfast.Announcement("The server restarts in 5 minutes.")
        again = holdfast.Announcement("again")
        assert [await ada.receive() for _ in range(3)] == [text, holdfast.Untyped("wave", {"n": 3}), again]
        assert [await bob.receive(), await bob.receive()] == [text, again]


@every_case(
    "words, why",
    [
        (["broadcast"], "Give either a TEXT or a --type."),
        (["broadcast", "soon", "--type", "wave"], "Give either a TEXT or a --type."),
        (["broadcast", "--type", "wave", "--body", "{"], "it is not JSON"),
        (["broadcast", "--type", "wave", "--body", "[]"], "it must be a JSON object"),
        (["broadcast", "soon", "--kind", "hal"], "unknown kind of room"),
    ],
)
async def test_a_broadcast_says_what_it_needs(operator: Operator, words: list[str], why: str) -> None:
    refused = await operator.run(*words)

    assert refused.exit_code != 0
    assert why in refused.stderr


async def test_the_same_key_makes_the_same_room(operator: Operator) -> None:
    first = await operator.json("rooms", "create", "hall", "--key", "k1")
    again = await operator.json("rooms", "create", "hall", "--key", "k1")
    other = await operator.run("rooms", "create", "hall", "--key", "k1", "--name", "Another")

    assert first["id"] == again["id"]
    assert other.exit_code == 1
    assert "was used for a different request" in other.stderr


async def test_players_and_sessions_are_listed_kicked_and_ended(operator: Operator) -> None:
    room = await operator.server.create_room("hall")
    async with holdfast.connect(operator.server.url, name="Ada") as ada:
        await ada.join(room.id)

        [session] = await operator.json("sessions", "list", "--search", "aDa")
        assert await operator.json("players", "list", "--search", "eve") == []
        assert "Ada" in (await operator.run("sessions", "list")).stdout
        [player] = await operator.json("players", "list")
        assert (session["id"], session["player"], session["room"]) == (ada.id, ada.player_id, room.id)
        assert player == {
            "id": ada.player_id,
            "sessions": [ada.id],
            "rooms": [room.id],
            "account": "",
            "roles": [],
            "granted": [],
            "revoked": [],
            "name": "Ada",
            "is_agent": False,
            "nodes": [],
            "missing": [],
        }
        shown = await operator.json("sessions", "show", ada.id)
        assert (shown["connection_state"], shown["codec"]) == ("in_game", "holdfast.v1.msgpack")
        assert shown["address"] == "127.0.0.1"
        assert shown["bytes_in"] > 0
        assert "signed_in_at" in (await operator.run("sessions", "show", ada.id)).stdout
        seats = (await operator.run("rooms", "seats", room.id)).stdout
        assert ada.player_id in seats
        assert "Ada" in seats
        explained = (await operator.run("players", "explain", ada.player_id)).stdout
        assert f"of player {ada.player_id} (Ada): connected" in explained

        kicked = await operator.run("players", "kick", room.id, ada.player_id, "--reason", "be nice")
        assert kicked.stdout.strip() == f"Player {ada.player_id} was removed from room {room.id}."
        assert room.players == ()

        ended = await operator.run("sessions", "end", ada.id)
        assert ended.stdout.strip() == f"Session {ada.id} has ended."
        assert len(operator.server.sessions) == 0


async def test_a_placement_is_started_and_shown(operator: Operator) -> None:
    await operator.json("placements", "start", "all", "hall", "--player", "ada", "--id", "p-1")

    shown = await operator.json("placements", "show", "p-1")
    listed = await operator.json("placements", "list")
    queues = (await operator.run("placements", "queues")).stdout
    assert shown["status"] == "fulfilled"
    assert shown["players"] == ["ada"]
    assert listed == [shown]
    assert "all" in queues


async def test_a_mistake_in_a_search_is_pointed_at(operator: Operator) -> None:
    result = await operator.run("rooms", "list", "--where", "players >> 2")

    assert result.exit_code == 1
    assert result.stderr.splitlines()[0].startswith("Error: where, column 10:")
    assert result.stderr.rstrip().endswith("^")


async def test_a_node_that_is_not_there_is_said_to_be(operator: Operator) -> None:
    result = await operator.run("rooms", "list", "--url", "http://127.0.0.1:9")

    assert result.exit_code == 1
    assert "No node answers at http://127.0.0.1:9" in result.stderr


@pytest.mark.parametrize("answer", ["[]", "3", "{}", '{"version": 1}', '{"rooms": [1]}', "<html>"])
async def test_a_server_that_is_no_node_is_said_to_be_none(operator: Operator, answer: str) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.0 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n{answer}".encode())
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as other:
        url = f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}"
        result = await operator.run("rooms", "list", "--url", url)

    assert (result.exit_code, result.stderr) == (1, f"Error: The server at {url} is not a Holdfast node.\n")


async def test_a_wrong_key_is_refused_and_nothing_is_shown() -> None:
    api = HttpApi(port=0, keys=[ApiKey(KEY, ["read"])])
    async with Server([Hall], listen=[WebSocket(port=0)], http=api) as server:
        operator = Operator(server)

        without = await operator.run("rooms", "list")
        may_only_read = await operator.run("rooms", "create", "hall", "--api-key", KEY)

    assert without.exit_code == may_only_read.exit_code == 1
    assert "Give one with --api-key" in without.stderr
    assert KEY not in without.stderr + may_only_read.stderr


async def test_what_players_write_cannot_steer_the_operator_s_terminal(operator: Operator) -> None:
    await operator.server.create_room("hall", name="\x1b]0;mine\x07\x1b[2Jred\nrow")

    listed = (await operator.run("rooms", "list")).stdout

    assert "\x1b" not in listed
    assert "\\x1b]0;mine\\x07\\x1b[2Jred\\nrow" in listed


async def test_an_id_is_whole_however_long_the_names_are(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "PIPE_COLUMNS", 80)
    rooms = [
        await operator.server.create_room("hall", name="long " * 20, properties={"map": "x" * 100}) for _ in range(2)
    ]

    listed = (await operator.run("rooms", "list")).stdout

    assert all(room.id in listed for room in rooms)
    assert "0 of 2" in listed


@every_case("name", ["アリスさま", "👑👑👑👑👑👑", "👩\u200d🚀"])
async def test_a_name_in_wide_letters_is_whole(operator: Operator, name: str) -> None:
    async with holdfast.connect(operator.server.url, name=name):
        listed = (await operator.run("players", "list")).stdout

        assert showing.printable(name) in listed


def test_a_long_name_in_wide_letters_is_cut_to_the_width_of_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(showing, "PIPE_COLUMNS", 40)

    showing.table_of(["player", "name"], empty="")([{"player": "guest-12345678", "name": "アリスさま" * 5}])

    row = capsys.readouterr().out.splitlines()[-1]
    assert row.endswith("…")
    assert cell_len(row) <= 40
