"""`holdfast types` writes what a room shares: exactly what leaves."""

import asyncio
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import pytest

from holdfast import Hidden, Message, Parts, Player, PlayerData, Private, Room, on
from holdfast.cli.python_types import python_types
from holdfast.testing import MemoryServer, run
from tests.cli.served_games import write
from tests.cli.types.test_typescript import compiled, complaint_of, declaration, members, types_of
from tests.e2e.serving import ROOT


class Card(msgspec.Struct):
    rank: int
    seen_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    trick: Hidden[str] = ""


class Goblin(msgspec.Struct, tag="goblin"):
    hp: int = 1


class Troll(msgspec.Struct, tag="troll"):
    plan: Hidden[str] = ""


class Hand(PlayerData):
    score: int = 0
    cards: Private[list[Card]] = msgspec.field(default_factory=list)
    top: Card | None = None


class Board(msgspec.Struct):
    pile: list[Card] = []
    monsters: dict[int, Goblin | Troll] = {}
    deck: Hidden[list[Card]] = []
    long_name: int = msgspec.field(default=0, name="n")
    lairs: Parts[Goblin] = msgspec.field(default_factory=Parts)


class Table(Room[Hand]):
    shares = ("state", "players")
    state: Board

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Board([Card(1)], {7: Troll()}, [Card(2)])

    def on_join(self, player: Player[Hand]) -> None:
        player.data.cards, player.data.top = [Card(3)], Card(4)


class Cup(msgspec.Struct):
    bid: int = 0
    dice: dict[str, int] = {}


class CupView(msgspec.Struct):
    bid: int


class Liars(Room[PlayerData]):
    shares = ("state",)
    state: Cup

    def view(self, player: Player[PlayerData] | None) -> CupView:
        return CupView(self.state.bid)


class Put(Message):
    card: Card


class Both(Room[PlayerData]):
    shares = ("state",)
    state: Board

    @on(Put)
    def put(self, player: Player[PlayerData], put: Put) -> None:
        self.state.pile.append(put.card)


def test_the_fields_that_are_written_are_those_that_leave() -> None:
    text = types_of(Path(__file__))

    async def play() -> None:
        async with MemoryServer([Table]) as server:
            room = await (await server.connect("ada")).join_or_create("table")
            has_come = asyncio.Event()
            room.on_change(lambda _: has_come.set())
            if room.state is None:
                await has_come.wait()
            assert members(text, "Board").keys() == room.state.keys()
            assert members(text, "Hand").keys() == room.players["ada"].keys()
            assert members(text, "OwnHand").keys() == room.mine.keys()
            assert members(text, "SharedCard").keys() == room.mine["cards"][0].keys() == room.state["pile"][0].keys()
            assert members(text, "Troll").keys() == room.state["monsters"]["7"].keys()
            assert isinstance(room.state["pile"][0]["seen_at"], str)

    run(play())
    assert members(text, "OwnHand") == {"score": "number", "cards": "SharedCard[]", "top": "SharedCard | null"}
    assert members(text, "SharedCard") == {"rank": "number", "seen_at": "string"}
    assert members(text, "Board")["monsters"] == "Record<string, Goblin | Troll>"
    assert members(text, "Board")["lairs"] == "Record<string, Goblin>"
    interface = declaration(text, "TableMessages")
    assert "  state: Board;\n  player: Hand;\n  mine: OwnHand;\n" in interface


def test_of_a_room_with_a_view_it_is_what_the_view_returns() -> None:
    text = types_of(Path(__file__))

    assert "  state: CupView;\n  version" in declaration(text, "LiarsMessages")
    assert "interface Cup " not in text


def test_it_types_a_room_of_the_client(tmp_path: Path) -> None:
    (tmp_path / "messages.ts").write_text(types_of(Path(__file__)), "utf-8")
    sdk = (ROOT / "clients" / "js" / "src" / "index.ts").as_posix()
    (tmp_path / "client.ts").write_text(
        dedent(f"""
            import {{ connect }} from "{sdk}";
            import type {{ TableMessages }} from "./messages";
            const session = await connect("ws://127.0.0.1:7777");
            const room = await session.joinOrCreate<TableMessages>("table");
            const rank: number | undefined = room.mine?.cards[0]?.rank;
            const score: number | undefined = room.players["ada"]?.score;
            // @ts-expect-error: nobody sees the deck
            room.state?.deck;
            // @ts-expect-error: it is somebody else's
            room.players["ada"]?.cards;
            console.log(rank, score);
        """),
        "utf-8",
    )

    assert compiled(tmp_path, "client.ts", "--allowImportingTsExtensions") == {}


def test_python_classes_read_a_room_of_the_client_without_the_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "written_for_clients.py").write_text(python_types([Table, Liars, Both], "game.py"), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    made = import_module("written_for_clients")

    async def play() -> None:
        async with MemoryServer([Table]) as server:
            ada, bob = [
                await (await server.connect(name)).join_or_create("table", state=made.TABLE_STATE, data=made.TABLE_DATA)
                for name in ("ada", "bob")
            ]
            async with asyncio.timeout(60):
                while ada.state is None or len(ada.players) < 2:  # noqa: ASYNC110 - virtual time
                    await asyncio.sleep(0.1)
            card = made.SharedCard(rank=1, seen_at=datetime(2026, 1, 1, tzinfo=UTC))
            assert ada.state == made.Board(pile=[card], monsters={7: made.Troll()}, long_name=0, lairs={})
            assert ada.mine.cards[0].rank == 3
            assert ada.mine.top.rank == 4
            # Of others, what is private is missing.
            assert ada.players["bob"].cards is msgspec.UNSET
            assert ada.players["bob"].score == 0
            assert bob.mine.cards[0].rank == 3

    run(play())
    assert made.LIARS_STATE.__struct_fields__ == ("bid",)
    assert not hasattr(made, "Cup")
    assert made.Put.wire_name == "put"
    assert "trick" not in made.SharedCard.__struct_fields__


def test_what_cannot_be_shared_is_named(tmp_path: Path) -> None:
    game = write(
        tmp_path,
        """
        from holdfast import Room

        class Table(Room):
            shares = ("state",)
        """,
    )

    assert "Table cannot share what it names in `shares`: state: say of which type" in complaint_of(game)
