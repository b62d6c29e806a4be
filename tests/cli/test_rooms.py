"""`holdfast rooms`: what a store keeps, seen and carried as files."""

import asyncio
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import holdfast
from holdfast import Auth, Effect, Message, Parts, Player, PlayerData, Room, RoomUpdated, Server, WebSocket, on
from holdfast.cli.main import main
from holdfast.core.records import decode_room, digest
from holdfast.stores import SqliteStore
from holdfast.stores.port import Entry
from tests.cases import every_case
from tests.deadlines import DEADLINE_S
from tests.e2e.serving import Result, result_of

SECRET = bytes(32)
LATER = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)


class Dig(Message):
    depth: int


class Dug(Message):
    depth: int
    gold: bytes


class Rung(Message):
    who: str
    what: dict[int, str]


class Miner(PlayerData):
    depth: int = 0
    pouch: bytes = b""
    marks: dict[int, str] = msgspec.field(default_factory=dict)


class Map(msgspec.Struct):
    name: str
    seams: dict[int, bytes]
    opened_at: datetime
    richness: float
    chunks: Parts[list[int]]
    long: str = ""


class Mine(Room[Miner]):
    """A room with everything in it."""

    durability = "commit"
    max_players = 4
    grace_s = 600.0
    state: Map

    def on_create(self, config: dict[str, Any]) -> None:
        self.state = Map("Deep & Gold", {7: b"\x00\xff"}, LATER, float("inf"), Parts({"0,0": [1, 2], "$ é": [3]}))
        self.properties.setdefault("name", "mine")
        self.own(None, "lamp")
        self.random.seed(42)
        self.random.random()

    def on_join(self, player: Player[Miner]) -> None:
        self.own(player, f"pick of {player.id}")
        player.data.marks[3] = "cave"
        self.every(1000.0, self.ring, player, {5: "five"}, name="bell")
        self.group("deep").add(player)
        self.start()
        self.lock()

    def ring(self, player: Player[Miner], what: dict[int, str]) -> None:
        self.broadcast(Rung(player.id, what))

    @on(Dig)
    def dig(self, player: Player[Miner], dig: Dig) -> None:
        player.data.depth += dig.depth
        player.data.pouch += bytes([dig.depth])
        self.state.long = "." * 10_000
        player.send(Dug(player.data.depth, player.data.pouch))

    @on(Rung)
    def pay(self, player: Player[Miner], rung: Rung) -> None:
        self.effect("pay", rung.who)

    def on_resync(self, player: Player[Miner]) -> None:
        player.send(Dug(player.data.depth, player.data.pouch))


class Picture(msgspec.Struct):
    """Everything a game sees of its room."""

    kind: str
    phase: str
    is_locked: bool
    max_players: int
    properties: dict[str, Any]
    state: Map
    chunks: dict[str, list[int]]
    players: list[tuple[str, Miner, Any]]
    lamp: bool
    timers: list[tuple[str, Any, str, float]]
    groups: dict[str, list[str]]
    random: list[float]

    @classmethod
    def of(cls, server: Server, room: Room[Miner]) -> "Picture":
        dice = room.random.getstate()
        picture = cls(
            kind=room.kind,
            phase=room.phase,
            is_locked=room.is_locked,
            max_players=room.max_players,
            properties=room.properties,
            state=room.state,
            chunks=dict(room.state.chunks),
            players=[(player.id, player.data, player.owned) for player in room.players],
            lamp="lamp" in room.objects and room.owner_of("lamp") is None,
            timers=[
                (timer.method, timer.arguments[1], timer.name, timer.every_s)
                for timer in server.rooms.runner(room.id).timers.pending
            ],
            groups={name: [player.id for player in group] for name, group in room.groups.items()},
            random=[room.random.random() for _ in range(3)],
        )
        room.random.setstate(dice)
        return picture


def make_server(path: Path, **settings: Any) -> Server:
    return Server([Mine], listen=[WebSocket(port=0)], store=f"sqlite:{path}", secret=SECRET, **settings)


class Played(msgspec.Struct):
    room_id: str
    player_id: str
    credential: str
    picture: Picture


async def play(path: Path) -> Played:
    """One miner digs and drops; then the server stops, and the room waits in the store."""
    async with make_server(path) as server:
        session = await holdfast.connect(server.url, messages=[Dug, Rung])
        room = await session.join_or_create("mine", properties={"name": "Moria"}, max_players=3)
        await room.send(Dig(9))
        # `on_join` has changed the entry: its players are told some time later, which may be now.
        while isinstance(answer := await room.receive(), RoomUpdated):
            pass
        assert answer == Dug(9, b"\x09")
        await session.suspend()
        live = server.rooms.get(room.id)
        assert live is not None
        return Played(room.id, session.player_id, session.credential, Picture.of(server, live))


async def stored(path: Path, below: str = "") -> list[Entry]:
    store = SqliteStore(path)
    await store.open()
    try:
        return [entry for entry in await store.list(below) if not entry.key.startswith("secret/")]
    finally:
        await store.close()


def error_of(result: Result) -> str:
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture
async def played(tmp_path: Path) -> Played:
    async with asyncio.timeout(DEADLINE_S):
        return await play(tmp_path / "game.db")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'game.db'}"


async def export(url: str, played: Played, folder: Path) -> Path:
    file = folder / "room.json"
    result = await result_of("rooms", "export", url, played.room_id, "-o", str(file))
    assert result == (0, "", "")
    assert file.stat().st_mode & 0o777 == 0o600, "players' data are nobody else's to read"
    return file


# There and back


async def test_a_room_is_carried_to_another_store_and_goes_on_as_it_was(
    tmp_path: Path, played: Played, url: str
) -> None:
    there = tmp_path / "there.db"
    file = await export(url, played, tmp_path)

    assert (await result_of("rooms", "delete", url, played.room_id, "--yes")).exit_code == 0
    assert await stored(tmp_path / "game.db") == []
    imported = await result_of("rooms", "import", f"sqlite:{there}", str(file))

    assert (imported.exit_code, imported.stderr) == (0, "")
    assert "1 seat held" in imported.stdout
    async with asyncio.timeout(DEADLINE_S), make_server(there) as server:
        room = server.rooms.get(played.room_id)
        assert room is not None
        assert Picture.of(server, room) == played.picture
        [player] = room.players
        assert not player.connected
        auth = Auth("guest", played.credential)
        async with holdfast.connect(server.url, messages=[Dug, Rung], auth=auth) as session:
            seat = await session.join(played.room_id)
            assert await seat.receive() == Dug(9, b"\x09")
            assert isinstance(await seat.receive(), RoomUpdated)
            await seat.send(Dig(1))
            assert await seat.receive() == Dug(10, b"\x09\x01")
            assert room.players == (player,)
            assert player.connected


async def test_a_room_is_put_back_into_its_own_store_in_the_place_of_what_became_of_it(
    tmp_path: Path, played: Played, url: str
) -> None:
    file = await export(url, played, tmp_path)
    async with asyncio.timeout(DEADLINE_S), make_server(tmp_path / "game.db") as server:
        room = server.rooms.get(played.room_id)
        assert isinstance(room, Mine)
        room.state.chunks["9,9"] = [9]
        async with holdfast.connect(server.url, auth=Auth("guest", played.credential)) as session:
            await (await session.join(played.room_id)).send(Dig(1))
    [before] = [entry for entry in await stored(tmp_path / "game.db", "room") if entry.key.count("/") == 1]

    result = await result_of("rooms", "import", url, str(file), "--replace")

    assert (result.exit_code, result.stderr) == (0, "")
    after = {entry.key: entry for entry in await stored(tmp_path / "game.db")}
    old, new = decode_room(before.value), decode_room(after[before.key].value)
    assert (new.epoch, new.index, new.previous) == (old.epoch + 1, old.index + 1, digest(before.value))
    assert not any(key.startswith("session/") for key in after)
    async with make_server(tmp_path / "game.db") as server:
        again = server.rooms.get(played.room_id)
        assert again is not None
        assert Picture.of(server, again) == played.picture
        assert server.parts.recovery is not None
        assert server.parts.recovery.set_aside == {}


async def test_a_copy_under_another_id_stands_beside_the_room(tmp_path: Path, played: Played, url: str) -> None:
    file = await export(url, played, tmp_path)

    result = await result_of("rooms", "import", url, str(file), "--id", "copy")

    assert result.exit_code == 0
    async with make_server(tmp_path / "game.db") as server:
        assert {room.id for room in server.rooms} == {played.room_id, "copy"}
        copy = server.rooms.get("copy")
        assert copy is not None
        assert Picture.of(server, copy) == played.picture


async def test_what_was_exported_imported_and_exported_again_is_the_same(
    tmp_path: Path, played: Played, url: str
) -> None:
    first = json.loads((await export(url, played, tmp_path)).read_text())
    there = f"sqlite:{tmp_path / 'there.db'}"
    await result_of("rooms", "import", there, str(tmp_path / "room.json"))

    second = json.loads((await result_of("rooms", "export", there, played.room_id)).stdout)

    for player in first["players"]:
        del player["stream"]
    for player in second["players"]:
        assert player.pop("stream") is None
    assert second.pop("epoch") == first.pop("epoch") + 1
    assert second.pop("index") == first.pop("index") + 1
    assert second.pop("hash") != first.pop("hash")
    assert second == first


# The file


async def test_the_file_can_be_read_by_a_person_and_holds_no_secrets(tmp_path: Path, played: Played, url: str) -> None:
    text = (await export(url, played, tmp_path)).read_text("utf-8")

    found = json.loads(text)
    assert found["kind"] == "mine"
    assert found["properties"] == {"name": "Moria"}
    assert found["state"]["name"] == "Deep & Gold"
    assert found["state"]["seams"] == {"$map": [[7, {"$bytes": "AP8="}]]}
    assert found["state"]["opened_at"] == {"$time": "2026-11-15T12:30:00Z"}
    assert found["parts"] == {"chunks": {"0,0": [1, 2], "$ é": [3]}}
    [player] = found["players"]
    assert player["id"] == played.player_id
    assert player["data"] == {"depth": 9, "pouch": {"$bytes": "CQ=="}, "marks": {"$map": [[3, "cave"]]}}
    assert player["owned"] == [f"pick of {played.player_id}"]
    assert player["stream"]["applied"] == 1
    [timer] = found["timers"]
    assert timer["arguments"] == [{"player": played.player_id}, {"value": {"$map": [[5, "five"]]}}]
    assert (timer["name"], timer["every_s"]) == ("bell", 1000.0)
    assert player["groups"] == ["deep"]
    [session] = await stored(tmp_path / "game.db", "session")
    assert session.key.partition("/")[2] not in text
    assert played.credential not in text


async def test_messages_that_nobody_acknowledged_are_in_the_file_in_either_codec(tmp_path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), make_server(tmp_path / "game.db") as server:
        for codec in ("holdfast.v1.msgpack", "holdfast.v1.json"):
            session = await holdfast.connect(server.url, messages=[Dug], codec=codec)
            seat = await session.join((await session.create("mine")).id)
            await seat.send(Dig(4))
            await seat.flush()
            await session.suspend()

    result = await result_of("rooms", "export", f"sqlite:{tmp_path / 'game.db'}", "--all", "-o", str(tmp_path / "all"))

    assert result.exit_code == 0
    assert "Exported 2 of 2 rooms" in result.stderr
    files = [json.loads(file.read_text()) for file in (tmp_path / "all").iterdir()]
    kept = [message for file in files for message in file["players"][0]["stream"]["unacknowledged"]]
    assert {"type": "dug", "body": {"depth": 4, "gold": {"$bytes": "BA=="}}} in kept
    assert {"type": "dug", "body": {"depth": 4, "gold": "BA=="}} in kept


async def test_effects_that_wait_are_not_in_the_file_and_that_is_said(tmp_path: Path) -> None:
    async def pay(effect: Effect) -> None:
        raise ConnectionError("the bank is closed")

    async with (
        asyncio.timeout(DEADLINE_S),
        make_server(tmp_path / "game.db", effects={"pay": pay}) as server,
        holdfast.connect(server.url) as session,
    ):
        seat = await session.join_or_create("mine")
        await seat.send(Rung("Ada", {}))
        await seat.flush()
        result = await result_of("rooms", "export", f"sqlite:{tmp_path / 'game.db'}", seat.id)

    assert result.exit_code == 0
    assert "does not contain 1 pending effect" in result.stderr


# While a server runs


async def test_a_running_server_s_room_is_read_and_not_changed_behind_its_back(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'game.db'}"
    file = str(tmp_path / "room.json")
    async with (
        asyncio.timeout(DEADLINE_S),
        make_server(tmp_path / "game.db") as server,
        holdfast.connect(server.url, messages=[Dug]) as session,
    ):
        seat = await session.join_or_create("mine")
        await seat.send(Dig(1))
        await seat.receive()
        exported = await result_of("rooms", "export", url, seat.id, "-o", file)
        listed = await result_of("rooms", "list", url)

        replaced = await result_of("rooms", "import", url, file, "--replace")
        deleted = await result_of("rooms", "delete", url, seat.id, "--yes")

        assert (exported.exit_code, listed.exit_code) == (0, 0)
        for refused in (replaced, deleted):
            assert f"process {os.getpid()}, since " in error_of(refused)
            assert "stop it first" in refused.stderr
        await seat.send(Dig(2))
        await seat.receive()
        assert server.counters.rooms_fenced == 0
    assert (await result_of("rooms", "import", url, file, "--replace")).exit_code == 0


# The list


async def test_the_list_shows_every_room(tmp_path: Path, played: Played, url: str) -> None:
    result = await result_of("rooms", "list", url)

    assert (result.exit_code, result.stderr) == (0, "")
    head, _, row = (line.strip() for line in result.stdout.splitlines())
    assert head.split() == ["id", "kind", "phase", "seats", "index", "saved", "size"]
    assert re.fullmatch(rf"{re.escape(played.room_id)}\s+mine\s+playing\s+1 of 3\s+\d+\s+\d+ s ago\s+1\d\.\d KiB", row)


async def test_the_list_is_to_be_had_as_json(tmp_path: Path, played: Played, url: str) -> None:
    result = await result_of("rooms", "list", url, "--json")

    [room] = json.loads(result.stdout)
    assert (room["id"], room["kind"], room["phase"]) == (played.room_id, "mine", "playing")
    assert (room["seats"], room["max_players"]) == (1, 3)
    assert room["bytes"] == sum(len(entry.value) for entry in await stored(tmp_path / "game.db", "room"))


async def test_a_record_that_cannot_be_read_is_listed_and_keeps_no_other_from_being_exported(
    tmp_path: Path, played: Played, url: str
) -> None:
    store = SqliteStore(tmp_path / "game.db")
    await store.open()
    await store.put("room/broken", b"nonsense", 0)
    await store.close()

    listed = await result_of("rooms", "list", url)
    exported = await result_of("rooms", "export", url, "--all", "-o", str(tmp_path / "all"))

    assert "cannot be read" in listed.stdout
    assert "Room broken cannot be read: " in listed.stderr
    assert exported.exit_code == 1
    assert "Room broken cannot be exported: " in exported.stderr
    assert [file.name for file in (tmp_path / "all").iterdir()] == [f"{played.room_id}.json"]


async def test_an_empty_store_says_so(tmp_path: Path) -> None:
    async with make_server(tmp_path / "game.db"):
        pass

    result = await result_of("rooms", "list", "sqlite:game.db", cwd=tmp_path)

    assert result == (0, "There are no rooms in sqlite:game.db.\n", "")


# What can be wrong


NOT_THERE: list[tuple[list[str], str]] = [
    (["list", "sqlite:nosuch.db"], "There is no store nosuch.db."),
    (["list", "memory:"], "cannot be read from here"),
    (["list", "game.db"], "unknown store"),
    (["export", "sqlite:nosuch.db", "x"], "There is no store nosuch.db."),
    (["export", "sqlite:game.db", "x"], "There is no room x in sqlite:game.db; see `holdfast rooms list"),
    (["delete", "sqlite:game.db", "x", "--yes"], "There is no room x"),
    (["import", "sqlite:game.db", "nosuch.json"], "nosuch.json cannot be read: No such file or directory."),
    (["export", "sqlite:game.db", "--all", "-o", "game.db"], "The folder game.db cannot be created: File exists."),
]


async def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    async with make_server(tmp_path / "game.db"):
        pass

    for arguments, says in NOT_THERE:
        assert says in error_of(await result_of("rooms", *arguments, cwd=tmp_path))
    assert not (tmp_path / "nosuch.db").exists()


async def test_a_file_that_is_no_room_is_refused_in_words_and_nothing_is_written(
    tmp_path: Path, played: Played, url: str
) -> None:
    file = await export(url, played, tmp_path)
    content = json.loads(file.read_text())
    content["state"]["seams"] = {"$bytes": "?"}
    file.write_text(json.dumps(content))
    before = await stored(tmp_path / "game.db")

    result = await result_of("rooms", "import", url, str(file), "--replace")

    assert "room.json cannot be imported: state.seams: invalid '$bytes'" in error_of(result)
    assert await stored(tmp_path / "game.db") == before


async def test_an_id_that_could_not_be_a_key_is_refused(tmp_path: Path, played: Played, url: str) -> None:
    file = await export(url, played, tmp_path)

    for room_id in ("a/b", "a b", "é", "-a", "x" * 65):
        assert "invalid room id" in error_of(await result_of("rooms", "import", url, str(file), f"--id={room_id}"))


@every_case("content", ["", "{", "[]", "\x00", "5", "[" * 100_000])
async def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "room.json").write_text(content)

    result = await result_of("rooms", "import", "sqlite:game.db", "room.json", cwd=tmp_path)

    assert "room.json cannot be imported: it is not" in error_of(result)
    assert not (tmp_path / "game.db").exists()


def test_help_names_the_commands_and_what_import_does_with_players() -> None:
    overview = CliRunner().invoke(main, ["rooms", "--help"])
    of_import = CliRunner().invoke(main, ["rooms", "import", "--help"])

    assert all(f"\n  {command} " in overview.stdout for command in ("list", "export", "import", "delete"))
    assert "seat is held for its player" in " ".join(of_import.stdout.split())
