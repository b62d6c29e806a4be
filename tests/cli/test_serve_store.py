"""`holdfast serve --store`: what comes back, and what is said of a store that cannot be used."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast.stores import SqliteStore
from tests.cli.served_games import BREAKING_STORE, CHAT, DURABLE_CHAT, Say, only_line, write
from tests.deadlines import DEADLINE_S
from tests.e2e.serving import (
    ANY_PORTS,
    end_of,
    holdfast_process,
    read_until,
    result_of,
    websocket_address,
)
from tests.nats_server import shared_server
from tests.saved_sessions import storage_of, suspended


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    return write(tmp_path, CHAT)


# A store


@pytest.fixture
def durable(tmp_path: Path) -> Path:
    return write(tmp_path, DURABLE_CHAT, "durable.py")


async def announced(*arguments: str, cwd: Path) -> str:
    """What a server says at its start; it is killed right after, with SIGKILL."""
    environment = {"HOLDFAST_SECRET": ""}
    async with holdfast_process("serve", *arguments, *ANY_PORTS, cwd=cwd, environment=environment) as process:
        return await read_until(process, "Press Ctrl-C to stop")


@pytest.mark.parametrize("kind", ["sqlite", "nats"])
async def test_a_room_and_its_session_outlive_a_killed_server(durable: Path, kind: str) -> None:
    store = "sqlite:game.db" if kind == "sqlite" else f"{shared_server().url}/killed-{os.getpid()}"
    arguments = ("serve", "durable.py", "--store", store, *ANY_PORTS)
    async with holdfast_process(*arguments, cwd=durable.parent) as process:
        host, port = websocket_address(await read_until(process, "Press Ctrl-C to stop"))
        session = await holdfast.connect(f"ws://{host}:{port}", messages=[Say])
        room = await session.join_or_create("chat")
        await room.send(Say("remember me"))
        assert await room.receive() == Say("remember me")
        saved = await suspended(session)
        process.kill()
        await process.wait()

    async with holdfast_process(*arguments, cwd=durable.parent) as process:
        announcement = await read_until(process, "Press Ctrl-C to stop")
        host, port = websocket_address(announcement)
        async with holdfast.connect(f"ws://{host}:{port}", saved=storage_of(saved), messages=[Say]) as session:
            assert session.outcome is not None
            assert session.outcome.kind == "resumed"
            assert session.room is not None
            await session.room.send(Say("what did I say?"))
            heard = await session.room.receive()

    assert heard == Say("remember me, what did I say?")
    assert "chat (16 seats, commit)" in announcement
    assert f"store     {store}\n" in announcement
    assert "recovered 1 room, 1 session\n" in announcement
    assert "guests" not in announcement


async def test_what_cannot_be_read_is_counted_and_left_alone(durable: Path) -> None:
    store = SqliteStore(durable.parent / "game.db")
    await store.open()
    await store.put("room/r1", b"nonsense", 0)
    await store.put("session/s1", b"nonsense", 0)
    await store.close()

    announcement = await announced("durable.py", "--store", "sqlite:game.db", cwd=durable.parent)

    assert "recovered 0 rooms, 0 sessions; 2 records set aside, see the log\n" in announcement


async def test_lazy_recovery_says_so(durable: Path) -> None:
    arguments = ("durable.py", "--store", "sqlite:game.db", "--recovery", "lazy")

    announcement = await announced(*arguments, cwd=durable.parent)

    assert "others are recovered on request" in announcement


async def test_a_store_in_memory_says_that_it_forgets(durable: Path) -> None:
    announcement = await announced("durable.py", "--store", "memory:", cwd=durable.parent)

    assert "everything is lost when this process ends" in announcement
    assert "guests    lose their identity when the server restarts" in announcement


async def test_a_store_for_rooms_that_are_not_durable_says_that_nothing_is_saved(chat: Path) -> None:
    announcement = await announced("game.py", "--store", "sqlite:game.db", cwd=chat.parent)

    assert "no room is durable, so no room is saved" in announcement
    assert "recovered" not in announcement


async def test_a_durable_room_without_a_store_is_refused_with_what_to_type(durable: Path) -> None:
    line = only_line(await result_of("serve", "durable.py", cwd=durable.parent))

    assert "durable.py: Chat.durability is 'commit', but the server has no store" in line
    assert "holdfast serve --store sqlite:game.db" in line


@pytest.mark.parametrize("option", [("--recovery", "lazy"), ("--takeover",)])
async def test_options_of_a_store_are_refused_without_one(chat: Path, option: tuple[str, ...]) -> None:
    assert f"{option[0]} needs a store" in only_line(await result_of("serve", str(chat), *option))


def make_nothing(_: Path) -> None: ...


def make_another_program_s_database(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")


@pytest.mark.parametrize(
    ("url", "make", "says"),
    [
        ("game.db", make_nothing, "unknown store 'game.db'"),
        ("postgres:game", make_nothing, "unknown store 'postgres:game'"),
        ("sqlite:", make_nothing, "unknown store 'sqlite:'"),
        ("sqlite:folder/game.db", make_nothing, "there is no folder folder"),
        ("sqlite:game.db", make_another_program_s_database, "game.db is another program's database"),
        ("sqlite:game.db", Path.mkdir, "it is a folder, but a store is a file"),
        # Nobody may make files there, not even root.
        ("sqlite:/proc/game.db", make_nothing, "it cannot be opened; check that this user may read and write it"),
    ],
)
async def test_a_store_that_cannot_be_opened_says_why_in_one_line(
    durable: Path, url: str, make: Callable[[Path], None], says: str
) -> None:
    make(durable.parent / "game.db")

    line = only_line(await result_of("serve", "durable.py", "--store", url, *ANY_PORTS, cwd=durable.parent))

    assert says in line


async def test_a_store_that_is_damaged_at_the_start_says_so_and_exits_with_74(durable: Path) -> None:
    (durable.parent / "game.db").write_text("not a database, but longer than the header of one " * 10)

    result = await result_of("serve", "durable.py", "--store", "sqlite:game.db", *ANY_PORTS, cwd=durable.parent)

    assert (result.exit_code, result.stdout) == (74, "")
    (line,) = result.stderr.splitlines()
    assert "game.db is damaged or its disk fails" in line
    assert "restore it from a backup" in line


async def test_a_store_that_breaks_ends_the_server_with_74(tmp_path: Path) -> None:
    write(tmp_path, DURABLE_CHAT + BREAKING_STORE)

    async with holdfast_process("serve", "game.py", cwd=tmp_path) as process:
        host, port = websocket_address(await read_until(process, "Press Ctrl-C to stop"))
        session = await holdfast.connect(f"ws://{host}:{port}", messages=[Say])
        room = await session.join_or_create("chat")
        await room.send(Say("hello"))
        result = await end_of(process)
        await session.suspend()

    assert (result.exit_code, result.stdout) == (74, "")
    assert "the disk has failed" in result.stderr
    assert "Traceback" not in result.stderr


# Its file


def delete(file: Path) -> None:
    file.unlink()


def put_a_backup_in_its_place(file: Path) -> None:
    shutil.copy(file, f"{file}.backup")
    Path(f"{file}.backup").replace(file)


@pytest.mark.parametrize(
    ("harm", "says"), [(delete, "was deleted or moved"), (put_a_backup_in_its_place, "was replaced by another file")]
)
async def test_a_server_whose_store_is_gone_says_so_and_ends_with_74_though_nobody_plays(
    durable: Path, harm: Callable[[Path], None], says: str
) -> None:
    arguments = ("serve", "durable.py", "--store", "sqlite:game.db", *ANY_PORTS)
    async with holdfast_process(*arguments, cwd=durable.parent) as process:
        await read_until(process, "Press Ctrl-C to stop")

        harm(durable.parent / "game.db")

        result = await end_of(process)
    assert result.exit_code == 74
    assert f"{durable.parent / 'game.db'}: it {says}" in result.stderr
    assert "Traceback" not in result.stderr


async def test_a_server_acknowledges_nothing_into_a_store_whose_folder_was_moved(durable: Path) -> None:
    folder = durable.parent / "data"
    folder.mkdir()
    arguments = ("serve", "durable.py", "--store", "sqlite:data/game.db", *ANY_PORTS)
    async with holdfast_process(*arguments, cwd=durable.parent) as process:
        host, port = websocket_address(await read_until(process, "Press Ctrl-C to stop"))
        session = await holdfast.connect(f"ws://{host}:{port}", messages=[Say])
        room = await session.join_or_create("chat")
        folder.rename(durable.parent / "elsewhere")
        await room.send(Say("lost?"))
        result = await end_of(process)
        heard = room.poll()
        await session.suspend()

    assert heard == []
    assert result.exit_code == 74


async def test_the_files_of_a_store_are_its_owner_s_alone(durable: Path) -> None:
    arguments = ("serve", "durable.py", "--store", "sqlite:game.db", *ANY_PORTS)
    async with holdfast_process(*arguments, cwd=durable.parent) as process:
        await read_until(process, "Press Ctrl-C to stop")

        found = {file.name: file.stat().st_mode & 0o777 for file in durable.parent.glob("game.db*")}

    assert set(found) >= {"game.db", "game.db-wal", "game.db-shm"}
    assert set(found.values()) == {0o600}


# Its one server


async def test_a_second_server_on_a_store_is_refused_in_one_line_and_takes_over_when_it_is_told_to(
    durable: Path,
) -> None:
    arguments = ("serve", "durable.py", "--store", "sqlite:game.db", *ANY_PORTS)
    async with holdfast_process(*arguments, cwd=durable.parent) as first:
        host, port = websocket_address(await read_until(first, "Press Ctrl-C to stop"))
        session = await holdfast.connect(f"ws://{host}:{port}", messages=[Say])
        await session.join_or_create("chat")

        line = only_line(await result_of(*arguments, cwd=durable.parent))

        assert f"game.db is in use by another server: process {first.pid}, since 20" in line
        assert "--takeover" in line
        async with holdfast_process(*arguments, "--takeover", cwd=durable.parent) as second:
            assert "recovered 1 room, 1 session" in await read_until(second, "Press Ctrl-C to stop")
            assert first.stderr is not None
            log = b""
            async with asyncio.timeout(DEADLINE_S):
                while b"another server took over this store" not in log:
                    log = await first.stderr.readline()
            assert f"process {second.pid}, since 20" in log.decode()
        await session.suspend()
