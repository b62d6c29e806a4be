"""`holdfast store copy`: a whole store goes to another place."""

import asyncio
from pathlib import Path

import pytest

import holdfast
from holdfast import Message, PlayerData, Room, Server, WebSocket, on
from holdfast.cluster.child_nats import ChildNats
from holdfast.stores import ABSENT, NatsStore, SqliteStore
from tests.deadlines import DEADLINE_S
from tests.e2e.serving import result_of
from tests.nats_server import shared_server
from tests.ports import free_ports


class Add(Message):
    n: int


class Sum(Message):
    total: int


class Box(PlayerData):
    total: int = 0


class Bank(Room[Box]):
    durability = "commit"

    @on(Add)
    def add(self, player: holdfast.Player[Box], add: Add) -> None:
        player.data.total += add.n
        player.send(Sum(player.data.total))


def server(*, store: str | None = None, cluster: str | None = None, port: int = 0) -> Server:
    return Server([Bank], listen=[WebSocket(port=port)], store=store, cluster=cluster)


async def pays(room: holdfast.ClientRoom, n: int) -> int:
    await room.send(Add(n))
    async with asyncio.timeout(DEADLINE_S):
        answer = await room.receive(Sum)
    return answer.total


async def test_players_go_on_in_a_cluster_where_they_were_in_a_file(tmp_path: Path) -> None:
    nats = ChildNats()
    await nats.start()
    # Clients that connect again get no port of this range.
    [port] = free_ports(1)
    before = server(store=f"sqlite:{tmp_path / 'game.db'}", port=port)
    await before.start()
    async with holdfast.connect(f"ws://127.0.0.1:{port}", messages=[Sum]) as session:
        room = await session.join_or_create("bank")
        first = await pays(room, 5)
        await before.stop()

        copied = await result_of("store", "copy", f"sqlite:{tmp_path / 'game.db'}", nats.url("arena"))
        after = server(cluster=nats.url("arena"), port=port)
        await after.start()
        second = await pays(room, 2)
        outcome = session.outcome
        await after.stop()
    await nats.stop()

    assert copied.exit_code == 0, copied.stderr
    assert copied.stdout.startswith("Copied ")
    assert nats.url().partition("@")[0].rpartition("/")[2] not in copied.stdout
    assert (first, second) == (5, 7)
    assert outcome is not None
    assert outcome.kind == "resumed"


async def test_a_folder_of_workers_is_a_place_like_any_other(tmp_path: Path) -> None:
    file = SqliteStore(str(tmp_path / "game.db"))
    await file.open()
    for n in range(600):
        await file.put(f"k/{n:03}", bytes(n), ABSENT)
    await file.close()

    there = await result_of("store", "copy", "sqlite:game.db", "data:game.holdfast", cwd=tmp_path)
    back = await result_of("store", "copy", "data:game.holdfast", "sqlite:again.db", cwd=tmp_path)

    assert there.stdout == "Copied 600 records from sqlite:game.db to data:game.holdfast.\n", there.stderr
    assert back.stdout == "Copied 600 records from data:game.holdfast to sqlite:again.db.\n", back.stderr
    copy = SqliteStore(str(tmp_path / "again.db"))
    await copy.open()
    assert [(entry.key, entry.value) for entry in await copy.list("")] == [(f"k/{n:03}", bytes(n)) for n in range(600)]
    await copy.close()


async def test_a_store_that_is_in_use_or_not_empty_is_left_alone(tmp_path: Path) -> None:
    target = f"{shared_server().url}/copied-{tmp_path.name}"
    used = NatsStore(target)
    await used.open("member")
    await used.put("a", b"1", ABSENT)
    file = SqliteStore(str(tmp_path / "game.db"))
    await file.open()
    await file.put("b", b"2", ABSENT)
    await file.close()

    while_used = await result_of("store", "copy", "sqlite:game.db", target, cwd=tmp_path)
    await used.close()
    afterwards = await result_of("store", "copy", "sqlite:game.db", target, cwd=tmp_path)

    assert while_used.exit_code == 1
    assert "a cluster runs a server with" in while_used.stderr
    assert afterwards.exit_code == 1
    assert "is not empty: name a new store" in afterwards.stderr


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (("sqlite:none.db", "sqlite:b.db"), "There is no store none.db"),
        (("data:none", "sqlite:b.db"), "There is no folder none"),
        (("game.db", "sqlite:b.db"), "unknown store 'game.db'"),
        (("sqlite:a.db", "sqlite:a.db"), "are the same store"),
    ],
)
async def test_a_place_that_is_none_is_named(tmp_path: Path, places: tuple[str, str], words: str) -> None:
    result = await result_of("store", "copy", *places, cwd=tmp_path)

    assert result.exit_code in {1, 2}
    assert words in " ".join(result.stderr.split())
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - of this test alone
