"""Processes that are killed, logs that end in the middle, files that are damaged: nothing acknowledged goes missing."""

import asyncio
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from holdfast.stores import ABSENT, Broken, Entry, SqliteStore, Write
from tests.deadlines import DEADLINE_S
from tests.forking import forked
from tests.stores.committing import RECORDS_KEPT, record

KILLS = 20
PAGE_BYTES = 4096


async def contents(file: Path) -> list[Entry]:
    store = SqliteStore(file)
    await store.open()
    try:
        return await store.list("")
    finally:
        await store.close()


async def lines_before_a_kill(file: Path, seed: int, *, commits: int) -> list[str]:
    """Let a process commit that often and kill it; what it had acknowledged by then."""
    async with (
        forked("-m", "tests.stores.committing", str(file), str(seed)) as process,
        asyncio.timeout(DEADLINE_S),
    ):
        assert process.stdout is not None
        lines = [await process.stdout.readline() for _ in range(commits)]
        process.kill()
        lines += (await process.stdout.read()).splitlines()
        await process.wait()
    return [line.decode() for line in lines]


async def test_what_was_acknowledged_before_a_kill_is_there_afterwards(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    random = Random(1)

    for life in range(KILLS):
        lines = await lines_before_a_kill(file, life, commits=random.randrange(1, 60))
        number, revision = map(int, lines[-1].split())

        entries = {entry.key: entry for entry in await contents(file)}
        last = int(entries["last"].value)
        # One commit may have been written without its acknowledgement; it is there as a whole.
        assert number <= last <= number + 1
        assert entries["last"].revision == revision if last == number else entries["last"].revision > revision
        expected = range(max(1, last - RECORDS_KEPT + 1), last + 1)
        records = {key: entry.value for key, entry in entries.items() if key.startswith("record/")}
        assert records == {f"record/{n}": record(n) for n in expected}

    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


class Crash(NamedTuple):
    """A store's file and its log, as they are on the disk when nobody has closed it, with one commit after the rest."""

    file: bytes
    log: bytes
    log_bytes_acknowledged: int
    acknowledged: list[Entry]
    everything: list[Entry]


async def write(store: SqliteStore, number: int) -> list[Entry]:
    """A commit of several pages, over what is there; everything after it."""
    old = await store.get(f"{number % 3}")
    batch = [Write(f"{number % 3}", record(number), old.revision if old else ABSENT), Write(f"n/{number}", b"", ABSENT)]
    await store.commit([batch])
    return await store.list("")


@pytest.fixture
async def crash(tmp_path: Path) -> Crash:
    file, log = tmp_path / "store.db", tmp_path / "store.db-wal"
    store = SqliteStore(file)
    await store.open()
    acknowledged = [await write(store, number) for number in range(8)][-1]
    log_bytes = len(read(log))
    everything = await write(store, 8)
    crash = Crash(read(file), read(log), log_bytes, acknowledged, everything)
    await store.close()
    return crash


def read(file: Path) -> bytes:
    return file.read_bytes()


def lay(folder: Path, file: bytes, log: bytes | None = None) -> Path:
    """Files as a crash would have left them; the log's index is gone, as after a power failure."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
    folder.mkdir()
    (folder / "store.db").write_bytes(file)
    if log is not None:
        (folder / "store.db-wal").write_bytes(log)
    return folder / "store.db"


async def test_a_log_that_ends_anywhere_behind_an_acknowledged_commit_has_all_of_it(
    crash: Crash, tmp_path: Path
) -> None:
    torn = range(crash.log_bytes_acknowledged, len(crash.log))
    cuts = [torn[0], torn[1], torn[-1], *Random(1).sample(torn, 30)]

    for cut in cuts:
        assert await contents(lay(tmp_path / "torn", crash.file, crash.log[:cut])) == crash.acknowledged
    assert await contents(lay(tmp_path / "whole", crash.file, crash.log)) == crash.everything


async def test_a_log_that_ends_before_it_does_not(crash: Crash, tmp_path: Path) -> None:
    # Or else the test above would prove nothing.
    log = crash.log[: crash.log_bytes_acknowledged - 1]

    assert await contents(lay(tmp_path / "torn", crash.file, log)) != crash.acknowledged


async def test_garbage_in_the_log_behind_an_acknowledged_commit_does_not_harm_it(crash: Crash, tmp_path: Path) -> None:
    random = Random(2)

    for _ in range(30):
        start = random.randrange(crash.log_bytes_acknowledged, len(crash.log))
        garbage = random.randbytes(random.randrange(1, len(crash.log) - start + 5000))
        log = crash.log[:start] + garbage + crash.log[start + len(garbage) :]
        assert await contents(lay(tmp_path / "garbled", crash.file, log)) == crash.acknowledged


async def test_a_checkpoint_that_was_cut_short_loses_nothing(crash: Crash, tmp_path: Path) -> None:
    file = lay(tmp_path / "finished", crash.file, crash.log)
    assert await contents(file) == crash.everything
    finished = read(file)
    assert len(finished) > len(crash.file)

    # It writes page after page to the file, the first first, and the log stays until the last is synced.
    for size in range(len(crash.file), len(finished), PAGE_BYTES):
        file = lay(tmp_path / "short", finished[:size], crash.log)
        assert await contents(file) == crash.everything


async def test_such_a_file_of_another_program_is_refused_all_the_same(tmp_path: Path) -> None:
    file = lay(tmp_path / "other", b"")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE pictures (picture)")
        connection.execute("INSERT INTO pictures VALUES (zeroblob(100000))")
        log = read(tmp_path / "other" / "store.db-wal")
    file = lay(tmp_path / "short", read(file)[: 5 * PAGE_BYTES], log)

    with pytest.raises(ValueError, match="another program's database"):
        await contents(file)

    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT name, length(picture) FROM sqlite_schema, pictures").fetchall() == [
            ("pictures", 100_000)
        ]


@pytest.mark.parametrize("where", ["header", "pages", "end"])
async def test_a_damaged_file_is_broken_in_words_and_left_alone(crash: Crash, tmp_path: Path, where: str) -> None:
    await contents(lay(tmp_path / "sound", crash.file, crash.log))
    sound = read(tmp_path / "sound" / "store.db")
    garbage = Random(3).randbytes(len(sound))
    damaged = {
        "header": garbage[:100] + sound[100:],
        "pages": sound[:PAGE_BYTES] + garbage[PAGE_BYTES:],
        "end": sound[: len(sound) // 2],
    }[where]
    file = lay(tmp_path / "damaged", damaged)

    with pytest.raises(Broken, match=r"store\.db is damaged"):
        await contents(file)

    assert read(file) == damaged
