"""Disks that are full, locked, slow or failing: what the caller is told, and that it is true."""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.stores import (
    ABSENT,
    Broken,
    Entry,
    Outcome,
    RevisionConflict,
    SqliteStore,
    StoreError,
    Unavailable,
    Unknown,
    Write,
)
from holdfast.stores.sqlite.connections import translate
from tests.cases import every_case
from tests.deadlines import DEADLINE_S
from tests.stores.faults import Disk, faulty_disk, sqlite_error
from tests.stores.harness import NEVER

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    with faulty_disk(monkeypatch) as disk:
        yield disk


@pytest.fixture
async def store(disk: Disk, file: Path) -> AsyncIterator[SqliteStore]:
    """On that disk."""
    store = SqliteStore(file, busy_s=0.05)
    await store.open()
    yield store
    await store.close()


@every_case(
    ("code", "kind", "kind_when_committing"),
    [
        (sqlite3.SQLITE_FULL, Unavailable, Unavailable),
        (sqlite3.SQLITE_BUSY, Unavailable, Unavailable),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, Unavailable, Unavailable),
        (sqlite3.SQLITE_LOCKED, Unavailable, Unavailable),
        (sqlite3.SQLITE_READONLY, Unavailable, Unavailable),
        (sqlite3.SQLITE_READONLY_DBMOVED, Broken, Broken),
        (sqlite3.SQLITE_CANTOPEN, Unavailable, Unavailable),
        (sqlite3.SQLITE_IOERR_WRITE, Unavailable, Unavailable),
        # The log's index has to grow after the log was synced: then the commit is on the disk, and SQLite denies it.
        (sqlite3.SQLITE_IOERR_SHMSIZE, Unavailable, Broken),
        (sqlite3.SQLITE_IOERR_SHMMAP, Unavailable, Broken),
        (sqlite3.SQLITE_IOERR_FSYNC, Broken, Broken),
        (sqlite3.SQLITE_IOERR_DIR_FSYNC, Broken, Broken),
        (sqlite3.SQLITE_IOERR_READ, Broken, Broken),
        (sqlite3.SQLITE_IOERR_SHORT_READ, Broken, Broken),
        (sqlite3.SQLITE_IOERR, Broken, Broken),
        (sqlite3.SQLITE_CORRUPT, Broken, Broken),
        (sqlite3.SQLITE_CORRUPT_INDEX, Broken, Broken),
        (sqlite3.SQLITE_NOTADB, Broken, Broken),
        (sqlite3.SQLITE_NOMEM, Broken, Broken),
        (sqlite3.SQLITE_ERROR, Broken, Broken),
    ],
)
def test_an_error_is_harmless_only_if_nothing_can_have_been_written(
    code: int, kind: type[StoreError], kind_when_committing: type[StoreError]
) -> None:
    error = sqlite_error(code)

    assert type(translate(error, Path("store.db"))) is kind
    assert type(translate(error, Path("store.db"), committing=True)) is kind_when_committing
    assert "store.db" in str(translate(error, Path("store.db")))


def test_an_error_without_a_code_is_not_harmless() -> None:
    assert isinstance(translate(sqlite3.ProgrammingError("closed"), Path("store.db")), Broken)


async def test_a_full_disk_writes_nothing_and_service_goes_on_when_there_is_space_again(
    disk: Disk, store: SqliteStore
) -> None:
    kept = await store.put("kept", b"1", ABSENT)
    before = await store.list("")
    disk.pages_max = 10
    large = [[Write("kept", b"2", kept)], [Write("large", bytes(100_000), ABSENT)]]

    for _ in range(3):
        with pytest.raises(Unavailable, match="full"):
            await store.commit(large)
        assert await store.list("") == before
    small = await store.put("small", b"1", ABSENT)  # there is room for this

    disk.pages_max = 1_000_000
    [[kept], [made]] = await _written(store, large)
    assert await store.list("") == [
        Entry("kept", b"2", kept),
        Entry("large", bytes(100_000), made),
        Entry("small", b"1", small),
    ]


async def _written(store: SqliteStore, batches: list[list[Write]]) -> list[list[int]]:
    outcomes = await store.commit(batches)
    assert not any(isinstance(outcome, RevisionConflict) for outcome in outcomes)
    return [outcome for outcome in outcomes if isinstance(outcome, list)]


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR_WRITE])
async def test_whichever_statement_fails_nothing_is_written_and_the_next_commit_works(
    disk: Disk, store: SqliteStore, code: int
) -> None:
    # One batch in conflict makes it the long way: several statements, of which each has its turn to fail.
    revision = await store.put("k", b"0", ABSENT)
    batches = [[Write("k", b"1", revision)], [Write("refused", b"", NEVER)], [Write("new", b"", ABSENT)]]
    before = await store.list("")
    disk.has_no_space = True
    began = len(disk.statements)
    failures = 0
    outcomes: Sequence[Outcome] = []

    while not outcomes:
        disk.fail(code, statement=failures)
        try:
            outcomes = await store.commit(batches)
        except Unavailable:
            failures += 1
            assert await store.list("") == before

    assert failures >= len(["insert", "begin", "conflicts", "count", "insert", "commit"])
    assert any(statement == "ROLLBACK" for statement in disk.statements[began:])
    assert [type(outcome) for outcome in outcomes] == [list, RevisionConflict, list]
    assert [(entry.key, entry.value) for entry in await store.list("")] == [("k", b"1"), ("new", b"")]


async def test_a_full_disk_has_space_again_when_the_log_was_put_away(disk: Disk, store: SqliteStore) -> None:
    disk.fail(sqlite3.SQLITE_FULL)

    revision = await store.put("k", b"1", ABSENT)

    assert any("wal_checkpoint(TRUNCATE)" in statement for statement in disk.statements)
    assert await store.list("") == [Entry("k", b"1", revision)]


async def test_nothing_is_written_any_more_after_a_failed_sync(disk: Disk, store: SqliteStore) -> None:
    revision = await store.put("k", b"1", ABSENT)
    disk.fail(sqlite3.SQLITE_IOERR_FSYNC)

    # The second is asked for before the first has failed.
    failed = await asyncio.gather(store.put("k", b"2", revision), store.put("l", b"2", ABSENT), return_exceptions=True)
    tried = len(disk.statements)

    assert [type(error) for error in failed] == [Broken, Broken]
    for _ in range(3):
        with pytest.raises(Broken, match="nothing more is written"):
            await store.put("m", b"", ABSENT)
    assert len(disk.statements) == tried
    assert await store.list("") == [Entry("k", b"1", revision)]


async def test_a_rollback_that_fails_is_the_end(disk: Disk, store: SqliteStore) -> None:
    disk.fail(sqlite3.SQLITE_FULL, statement=4)  # insert, begin, conflicts, count, *insert*
    disk.fail(sqlite3.SQLITE_IOERR_READ, statement=5)

    with pytest.raises(Broken, match="rolled back"):
        await store.commit([[Write("k", b"", ABSENT)], [Write("refused", b"", NEVER)]])

    with pytest.raises(Broken, match="nothing more is written"):
        await store.put("k", b"", ABSENT)


async def test_a_locked_file_is_unavailable_and_later_fine(file: Path, store: SqliteStore) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        for _ in range(2):
            with pytest.raises(Unavailable, match="locked"):
                await store.put("k", b"1", ABSENT)
        assert await store.get("k") is None  # readers do not mind

        other.execute("ROLLBACK")
        revision = await store.put("k", b"1", ABSENT)
    assert await store.list("") == [Entry("k", b"1", revision)]


async def test_a_disk_that_does_not_answer_leaves_the_outcome_unknown(file: Path) -> None:
    store = SqliteStore(file, timeout_s=1.0, busy_s=DEADLINE_S)
    await store.open()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(Unknown):
            await store.put("k", b"1", ABSENT)

        assert await store.get("k") is None
        other.execute("ROLLBACK")

    # Nobody waited for it, but it was written.
    await store.close()
    await store.open()
    found = await store.get("k")
    assert found is not None
    assert found.value == b"1"
    await store.close()


# In a mount namespace of its own, a process may mount a disk as small as it likes.
SMALL_DISK = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=1m none "$1" && shift && exec "$@"', "sh"]


async def run(*command: str) -> tuple[int | None, str]:
    try:
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=-1, stderr=-2)
    except FileNotFoundError as error:
        return None, str(error)
    async with asyncio.timeout(DEADLINE_S):
        output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_a_disk_that_is_really_full_loses_and_doubles_nothing(tmp_path: Path) -> None:
    if (await run(*SMALL_DISK, str(tmp_path), "true"))[0] != 0:
        pytest.skip("this user may not mount a small disk")

    outcome = await run(
        *SMALL_DISK, str(tmp_path), sys.executable, "-m", "tests.stores.no_space", str(tmp_path), "disk"
    )

    assert outcome == (0, "nothing lost, nothing duplicated\n")


@pytest.mark.parametrize("manner", ["log", "log and ballast"])
async def test_a_log_that_is_larger_than_a_small_disk_is_put_away_and_service_goes_on(
    tmp_path: Path, manner: str
) -> None:
    if (await run(*SMALL_DISK, str(tmp_path), "true"))[0] != 0:
        pytest.skip("this user may not mount a small disk")

    outcome = await run(
        *SMALL_DISK, str(tmp_path), sys.executable, "-m", "tests.stores.long_log", str(tmp_path), manner
    )

    assert outcome == (0, "nothing lost, nothing duplicated\n")


async def test_a_quota_that_is_used_up_loses_and_doubles_nothing(tmp_path: Path) -> None:
    outcome = await run(sys.executable, "-m", "tests.stores.no_space", str(tmp_path), "quota")

    assert outcome == (0, "nothing lost, nothing duplicated\n")
