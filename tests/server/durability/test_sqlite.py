"""A real file and real sockets: what was acknowledged is in the file, whatever becomes of the process."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast import Auth, ClientSession, Server, Storage, WebSocket, connect
from holdfast.stores import Held, MemoryData, MemoryStore
from tests.deadlines import DEADLINE_S
from tests.server.durability.rooms import MESSAGES, Said, Say, table


async def hear(room: Any, text: str) -> list[str]:
    """Everything up to this."""
    texts: list[str] = []
    async with asyncio.timeout(DEADLINE_S):
        while text not in texts:
            message = await room.receive()
            if isinstance(message, Said):
                texts.append(message.text.partition(":")[2])
    return texts


def serve(store: Any, port: int = 0, *, takeover: bool = False, **settings: Any) -> Server:
    return Server([table(**settings)], listen=[WebSocket(port=port)], store=Storage(store, takeover=takeover))


def copy_files(path: Path, copy: Path) -> None:
    """The file as a crash would leave it, with the log beside it."""
    for suffix in ("", "-wal"):
        if Path(f"{path}{suffix}").exists():
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - a deadline, not a time
            await asyncio.sleep(0.01)


async def resumed(session: ClientSession) -> str:
    await until(lambda: session.outcome is not None and session.outcome.kind != "new")
    assert session.outcome is not None
    return session.outcome.kind


async def test_a_restart_with_a_file_goes_on_where_it_stopped(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'game.db'}"
    first = serve(store)
    await first.start()
    port = first.addresses["websocket"][1]
    async with connect(first.url, messages=MESSAGES, random=Random(1)) as ada:
        room = await ada.join_or_create("table")
        for number in range(20):
            await room.send(Say(str(number)))
        before = await hear(room, "19")

        await first.stop()
        async with serve(store, port) as second:
            await room.send(Say("after"))
            after = await hear(room, "after")

            assert before == [str(number) for number in range(20)]
            assert after == ["after"]
            assert await resumed(ada) == "resumed"
            (again,) = second.rooms
            assert len(again.state.said) == 21


async def test_a_copy_of_the_file_taken_at_any_moment_has_everything_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "game.db"
    async with serve(f"sqlite:{path}") as server, connect(server.url, messages=MESSAGES) as ada:
        room = await ada.join_or_create("table")
        copies: list[tuple[Path, int]] = []
        for number in range(60):
            await room.send(Say(str(number)))
            if number % 10 == 9:
                await room.flush()
                copy = tmp_path / f"copy{number}.db"
                copy_files(path, copy)
                copies.append((copy, number + 1))

    for copy, count in copies:
        async with serve(f"sqlite:{copy}") as server:
            (saved,) = server.rooms
            assert [line.partition(":")[2] for line in saved.state.said][:count] == [str(n) for n in range(count)]
            assert [player.data.count for player in saved.players] == [len(saved.state.said)]


async def test_a_guest_is_known_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'game.db'}"
    async with serve(store) as server:
        guest = await connect(server.url)
        player_id, credential = guest.player_id, guest.credential
        await guest.close()

    async with serve(store) as server, connect(server.url, auth=Auth("guest", credential)) as again:
        assert again.player_id == player_id


async def test_a_server_that_finds_its_port_taken_leaves_the_others_rooms_alone() -> None:
    data = MemoryData()
    async with serve(MemoryStore(data)) as server, connect(server.url, messages=MESSAGES) as ada:
        room = await ada.join_or_create("table")
        await room.send(Say("1"))
        await hear(room, "1")

        with pytest.raises(OSError, match="in use"):
            await serve(MemoryStore(data), server.addresses["websocket"][1]).start()
        await room.send(Say("2"))

        assert await hear(room, "2") == ["2"]
        assert server.counters.rooms_fenced == 0


async def test_two_servers_of_one_store_never_both_have_a_room() -> None:
    data = MemoryData()
    async with serve(MemoryStore(data)) as first, connect(first.url, messages=MESSAGES) as ada:
        room = await ada.join_or_create("table")
        await room.send(Say("1"))
        await hear(room, "1")

        async with serve(MemoryStore(data)) as second:
            await until(lambda: second.counters.commits)
            await room.send(Say("2"))
            await until(lambda: first.counters.rooms_fenced)

            assert len(first.rooms) == 0
            assert [line.partition(":")[2] for each in second.rooms for line in each.state.said] == ["1"]


async def test_a_second_server_on_a_file_does_not_start_also_in_the_same_process(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'game.db'}"
    async with serve(store) as first:
        with pytest.raises(Held, match="is in use by another server"):
            await serve(store).start()

        async with connect(first.url, messages=MESSAGES) as ada:
            room = await ada.join_or_create("table")
            await room.send(Say("1"))
            assert await hear(room, "1") == ["1"]


async def test_a_server_whose_rooms_were_taken_over_takes_them_back_when_they_are_asked_for_and_nobody_has_them(
    tmp_path: Path,
) -> None:
    store = f"sqlite:{tmp_path / 'game.db'}"
    async with serve(store) as first, connect(first.url, messages=MESSAGES, random=Random(1)) as ada:
        room = await ada.join_or_create("table")
        await room.send(Say("1"))
        await hear(room, "1")
        async with serve(store, takeover=True) as second:
            await until(lambda: second.counters.commits)
            await room.send(Say("2"))
            await until(lambda: first.counters.rooms_fenced)
            async with connect(second.url, messages=MESSAGES) as bob:
                theirs = await bob.join(room.id)
                await theirs.send(Say("theirs"))
                await hear(theirs, "theirs")
            made_there = await second.create_room("table")

        # It has asked all the while, and was told that the session is elsewhere.
        heard = await hear(room, "2")

        assert heard == ["theirs", "2"]
        assert await resumed(ada) == "resumed"
        again = first.rooms.get(room.id)
        assert again is not None
        assert [line.partition(":")[2] for line in again.state.said] == ["1", "theirs", "2"]
        await until(lambda: first.rooms.get(made_there.id))
        with pytest.raises(Held):
            await serve(store).start()


@pytest.mark.parametrize("meanwhile", [0, 5])
async def test_a_restored_backup_is_told_to_who_knows_more(tmp_path: Path, meanwhile: int) -> None:
    game, backup = tmp_path / "game.db", tmp_path / "backup.db"
    first = serve(f"sqlite:{game}")
    await first.start()
    port = first.addresses["websocket"][1]
    async with connect(first.url, messages=MESSAGES, random=Random(1)) as ada:
        room = await ada.join_or_create("table")
        await room.send(Say("saved"))
        await hear(room, "saved")
        await room.flush()
        copy_files(game, backup)
        await room.send(Say("lost 0"))
        await room.send(Say("lost 1"))
        await hear(room, "lost 1")
        await room.flush()
        await first.stop()

        second = serve(f"sqlite:{backup}", port)
        await second.start()
        restored = second.rooms.get(room.id)
        assert restored is not None
        for number in range(meanwhile):
            restored.broadcast(Said(f"other {number}"))
        kind = await resumed(ada)
        await room.send(Say("new"))
        heard = await hear(room, "new")

        assert ada.outcome is not None
        assert (kind, ada.outcome.reason) == ("resynced", "rolled_back")
        assert ada.outcome.age_s is not None
        assert restored.state.said == [f"{ada.player_id}:saved", f"{ada.player_id}:new"]
        assert heard[-1] == "new"
        assert not any(text.startswith("lost") for text in heard)
        await second.stop()
