"""The files under an open store: whatever is done to them by others is noticed, and what SQLite does is not."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.stores import ABSENT, Broken, SqliteStore, Write
from holdfast.stores.sqlite import guard
from holdfast.stores.sqlite.guard import FileGuard
from tests.deadlines import DEADLINE_S

GARBAGE = b"not what it was " * 1024


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / "store.db"


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqliteStore]:
    """With pages in the file itself, more in its log, and a copy of the file as it once was."""
    first = SqliteStore(file)
    await first.open()
    await first.put("old", bytes(1000), ABSENT)
    await first.close()
    shutil.copy(file, f"{file}.backup")
    store = SqliteStore(file, look_s=3600.0)
    await store.open()
    await store.commit([[Write(f"k{number}", bytes(3000), ABSENT)] for number in range(50)])
    checkpoint(file)
    await store.put("in/the/log", bytes(3000), ABSENT)
    yield store
    await store.close()


class Watch:
    """A guard of its own beside the store's, which looks when it is told to."""

    def __init__(self, file: Path) -> None:
        self.connection = sqlite3.connect(file, isolation_level=None)
        self.connection.execute("SELECT count(*) FROM entry").fetchall()
        self._guard = FileGuard(file)
        self._guard.open()
        self.look()

    def look(self) -> None:
        self._guard.look(self.connection)

    def close(self) -> None:
        self._guard.close()
        self.connection.close()


@pytest.fixture
async def watch(store: SqliteStore, file: Path) -> AsyncIterator[Watch]:
    with closing(Watch(file)) as watch:
        yield watch


def checkpoint(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def size_of(file: Path) -> int:
    return file.stat().st_size


def log_of(file: Path) -> Path:
    return file.with_name(f"{file.name}-wal")


def delete(file: Path) -> None:
    file.unlink()


def delete_the_log(file: Path) -> None:
    log_of(file).unlink()


def delete_the_index(file: Path) -> None:
    file.with_name(f"{file.name}-shm").unlink()


def move_the_folder(file: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))


def replace_by_a_copy(file: Path) -> None:
    shutil.copy(file, f"{file}.copy")
    Path(f"{file}.copy").replace(file)


def replace_the_log_by_a_copy(file: Path) -> None:
    replace_by_a_copy(log_of(file))


def copy_a_backup_over_it(file: Path) -> None:
    shutil.copyfile(f"{file}.backup", file)


def copy_a_larger_backup_over_it(file: Path) -> None:
    # As large as the file is now, so that its size says nothing.
    backup = Path(f"{file}.backup").read_bytes()
    overwrite(file, backup.ljust(file.stat().st_size, b"\0"))


def copy_another_database_over_it(file: Path) -> None:
    other = file.with_name("other.db")
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE large (value)")
        connection.execute("INSERT INTO large VALUES (zeroblob(1000000))")
        connection.commit()
    shutil.copyfile(other, file)


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def empty_the_log(file: Path) -> None:
    os.truncate(log_of(file), 0)


def overwrite(file: Path, content: bytes = GARBAGE, at: int = 0) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(content)


def overwrite_the_middle(file: Path) -> None:
    overwrite(file, at=4 * 4096)


def overwrite_the_log(file: Path) -> None:
    overwrite(log_of(file))


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (delete, "was deleted or moved"),
        (delete_the_log, "store.db-wal was deleted"),
        (delete_the_index, "store.db-shm was deleted"),
        (move_the_folder, "was deleted or moved"),
        (replace_by_a_copy, "was replaced"),
        (replace_the_log_by_a_copy, "store.db-wal was replaced"),
        (copy_a_backup_over_it, "was truncated|overwritten by an older copy"),
        (copy_a_larger_backup_over_it, "overwritten by an older copy"),
        (copy_another_database_over_it, "overwritten by another database"),
        (cut, "was truncated"),
        (empty, "was truncated"),
        (empty_the_log, "store.db-wal was truncated"),
        (overwrite, "was overwritten"),
        (overwrite_the_middle, "was overwritten"),
        (overwrite_the_log, "store.db-wal was overwritten"),
    ],
)
async def test_whatever_is_done_to_the_files_of_an_open_store_is_noticed(
    watch: Watch, file: Path, harm: Callable[[Path], None], says: str
) -> None:
    harm(file)

    with pytest.raises(Broken, match=says) as caught:
        watch.look()

    assert str(file) in str(caught.value)


@pytest.mark.parametrize("opener", ["connect", "connect_immutable"])
async def test_a_file_that_cannot_be_opened_for_a_moment_is_examined_later(
    watch: Watch, file: Path, opener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptors(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    overwrite_the_middle(file)
    with monkeypatch.context() as shortage:
        shortage.setattr(guard, opener, no_descriptors)
        watch.look()

    with pytest.raises(Broken, match="was overwritten"):
        watch.look()


async def test_damage_that_a_call_finds_is_the_store_s_failure_too(file: Path) -> None:
    store = SqliteStore(file, look_s=DEADLINE_S)
    await store.open()
    delete(file)

    with pytest.raises(Broken) as raised:
        await store.get("k")
    async with asyncio.timeout(DEADLINE_S):
        error = await store.failure()

    assert error is raised.value
    await store.close()


async def test_a_store_that_nobody_asks_for_anything_says_that_its_file_is_gone(file: Path) -> None:
    store = SqliteStore(file, look_s=0.01)
    await store.open()
    delete(file)

    async with asyncio.timeout(DEADLINE_S):
        error = await store.failure()

    assert "was deleted" in str(error)
    with pytest.raises(Broken, match="nothing more is written"):
        await store.put("more", b"", ABSENT)
    await store.close()


@pytest.mark.parametrize(
    "harm", [delete, delete_the_log, move_the_folder, replace_by_a_copy, replace_the_log_by_a_copy, overwrite_the_log]
)
async def test_nothing_is_acknowledged_into_a_file_that_is_gone(file: Path, harm: Callable[[Path], None]) -> None:
    # It never looks by itself: the commit has to.
    store = SqliteStore(file, look_s=3600.0)
    await store.open()
    await store.put("k", b"1", ABSENT)
    harm(file)

    with pytest.raises(Broken, match="while it was in use"):
        await store.put("l", b"2", ABSENT)

    with pytest.raises(Broken):
        await store.get("k")
    await store.close()


async def test_what_sqlite_does_to_its_files_is_no_harm(store: SqliteStore, watch: Watch, file: Path) -> None:
    revision = await store.put("large", b"", ABSENT)
    for number in range(40):  # more than the log takes before it is put into the file
        revision = await store.put("large", bytes([number]) * 1_000_000, revision)
        watch.look()

    checkpoint(file)
    watch.look()
    other = SqliteStore(file)
    await other.open()
    await other.put("another's", bytes(100_000), ABSENT)
    watch.look()
    await other.close()
    watch.look()
    with closing(sqlite3.connect(file)) as reader, closing(sqlite3.connect(f"{file}.backup 2")) as backup:
        reader.backup(backup)
    watch.look()

    await store.put("k", b"1", ABSENT)
    assert await store.get("another's") is not None


@pytest.mark.parametrize("grows", [False, True], ids=["idle", "writing"])
async def test_a_vacuum_of_another_program_is_no_harm(
    store: SqliteStore, watch: Watch, file: Path, grows: bool
) -> None:
    for number in range(50):
        entry = await store.get(f"k{number}")
        assert entry is not None
        await store.delete(entry.key, entry.revision)
    checkpoint(file)
    watch.look()
    size = size_of(file)

    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("VACUUM")
    checkpoint(file)
    if grows:
        await store.put("after", bytes(50_000), ABSENT)

    assert size_of(file) < size
    watch.look()
    await store.put("k", b"1", ABSENT)
    watch.look()


async def test_a_part_that_was_cut_off_is_noticed_also_if_the_log_is_as_large(
    store: SqliteStore, watch: Watch, file: Path
) -> None:
    await store.put("more/in/the/log", bytes(300_000), ABSENT)
    watch.look()

    os.truncate(file, size_of(file) - 8 * 4096)

    with pytest.raises(Broken, match=r"was truncated|was overwritten"):
        watch.look()


class NoSpace:
    """A connection whose disk is full for a moment."""

    def execute(self, _: str) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error


async def test_a_log_that_became_shorter_on_a_full_disk_is_looked_at_again_when_there_is_space(
    store: SqliteStore, watch: Watch, file: Path
) -> None:
    checkpoint(file)
    with_space, watch.connection = watch.connection, NoSpace()  # type: ignore[assignment]  # as far as it is used
    watch.look()

    watch.connection = with_space
    watch.look()
    await store.put("after", b"", ABSENT)


async def test_a_look_that_fails_in_whatever_way_is_told_and_ends_no_thread(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(*_: object) -> None:
        raise RuntimeError("odd")

    store = SqliteStore(file, look_s=0.01)
    await store.open()
    monkeypatch.setattr(FileGuard, "look", odd)

    async with asyncio.timeout(DEADLINE_S):
        error = await store.failure()

    assert "cannot be checked: RuntimeError('odd')" in str(error)
    with pytest.raises(Broken, match="nothing more is written"):
        await store.put("more", b"", ABSENT)
    await store.close()


async def test_a_checkpoint_that_a_reader_holds_up_is_no_harm(store: SqliteStore, watch: Watch, file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entry").fetchall()
        await store.commit([[Write(f"m{number}", bytes(3000), ABSENT)] for number in range(500)])

        with closing(sqlite3.connect(file)) as other:
            [[_, frames, done]] = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        assert done < frames
        watch.look()


async def test_a_program_may_change_its_folder_and_a_store_may_be_a_link(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "link.db").symlink_to(file)
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("link.db")
    await store.open()

    monkeypatch.chdir("/")

    await store.put("k", b"1", ABSENT)
    await store.close()
