"""The file: what is promised of it, how it is recognised, brought up to date, refused, and shared."""

import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast.stores import ABSENT, Broken, Entry, RevisionConflict, SqliteStore, Unavailable
from holdfast.stores.sqlite.layout import APPLICATION_ID, MIGRATIONS, prepare

LATER = (*MIGRATIONS, ("ALTER TABLE entry ADD COLUMN note TEXT NOT NULL DEFAULT 'old'", "CREATE TABLE later (id)"))
"""What the migrations of a later version may look like."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def make(file: Path, **values: bytes) -> dict[str, int]:
    """A store with these values, closed again; their revisions."""
    store = SqliteStore(file)
    await store.open()
    revisions = {key: await store.put(key, value, ABSENT) for key, value in values.items()}
    await store.close()
    return revisions


async def contents(file: Path) -> list[Entry]:
    store = SqliteStore(file)
    await store.open()
    try:
        return await store.list("")
    finally:
        await store.close()


def read(file: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(statement).fetchall()


def migrate(file: Path, migrations: Sequence[Sequence[str]]) -> None:
    prepare(file, busy_s=1, migrations=migrations).close()


def make_folder(folder: Path) -> None:
    folder.mkdir()


def allow(path: Path, mode: int) -> None:
    path.chmod(mode)


def put(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def everything_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),  # FULL: the log is synced at every commit
        ("fullfsync", 1),
        ("temp_store", 2),  # MEMORY
        ("busy_timeout", 3000),
        ("application_id", APPLICATION_ID),
        ("user_version", len(MIGRATIONS)),
    ],
)
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "reopened"])
def test_the_connection_that_writes_is_set_up_to_be_durable(
    file: Path, pragma: str, value: object, *, is_new: bool
) -> None:
    if not is_new:
        migrate(file, MIGRATIONS)

    with closing(prepare(file, busy_s=3)) as connection:
        assert connection.execute(f"PRAGMA {pragma}").fetchone() == (value,)


def test_a_new_file_is_marked_as_ours_before_it_has_a_log(file: Path) -> None:
    # A mark that was only in the log would make a file whose process was killed look like a stranger's.
    with closing(prepare(file, busy_s=1)):
        header = file.read_bytes()[:100]

    assert int.from_bytes(header[68:72]) == APPLICATION_ID


async def test_closing_leaves_one_file_with_everything_in_it(file: Path) -> None:
    await make(file, k=b"value")

    assert list(everything_in(file.parent)) == [file.name]
    assert b"value" in everything_in(file.parent)[file.name]


async def test_closing_checkpoints_the_log_though_another_process_has_the_file_open(file: Path) -> None:
    with closing(prepare(file, busy_s=1)) as other:
        other.execute("SELECT * FROM entry").fetchall()

        await make(file, k=b"a value that can be recognised")

        assert b"a value that can be recognised" in everything_in(file.parent)[file.name]
        assert everything_in(file.parent)[f"{file.name}-wal"] == b""


async def test_a_file_of_an_older_layout_is_brought_up_to_date(file: Path) -> None:
    revisions = await make(file, k=b"1", l=b"2")

    migrate(file, LATER)

    assert read(file, "PRAGMA user_version") == [(len(LATER),)]
    assert read(file, "SELECT key, value, revision, note FROM entry WHERE key > '' ORDER BY key") == [
        ("k", b"1", revisions["k"], "old"),
        ("l", b"2", revisions["l"], "old"),
    ]


def test_every_migration_that_is_missing_is_applied_once_and_in_order(file: Path) -> None:
    steps = (
        *MIGRATIONS,
        ("CREATE TABLE step (n)",),
        ("INSERT INTO step VALUES (1)",),
        ("INSERT INTO step VALUES (2)",),
    )

    for known in (2, 3, 3, 4, 4):
        migrate(file, steps[:known])

    assert read(file, "SELECT n FROM step") == [(1,), (2,)]


def test_a_migration_that_fails_leaves_the_file_as_it_was(file: Path) -> None:
    migrate(file, MIGRATIONS)

    with pytest.raises(sqlite3.OperationalError, match="syntax"):
        migrate(file, (*MIGRATIONS, ("CREATE TABLE half (n)", "NONSENSE")))

    assert read(file, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    assert read(file, "SELECT name FROM sqlite_schema WHERE name = 'half'") == []
    migrate(file, LATER)


async def test_a_file_of_a_newer_layout_is_refused_and_left_alone(file: Path) -> None:
    migrate(file, LATER)
    before = everything_in(file.parent)

    with pytest.raises(ValueError, match=r"store\.db has layout 2, but this version of Holdfast supports at most 1"):
        await SqliteStore(file).open()

    assert everything_in(file.parent) == before


@pytest.mark.parametrize("journal", ["delete", "wal"])
async def test_the_database_of_another_program_is_refused_and_left_alone(file: Path, journal: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as stranger:
        stranger.execute(f"PRAGMA journal_mode = {journal}")
        stranger.execute("CREATE TABLE bookmarks (url)")
        # Not closed yet: with a log beside it, which an opening would put away.
        before = everything_in(file.parent)

        with pytest.raises(ValueError, match=r"store\.db is another program's database"):
            await SqliteStore(file).open()

        assert everything_in(file.parent) == before


@pytest.mark.parametrize("text", [b"not a database, but longer than the header of one " * 10, b"short"])
async def test_a_file_that_is_no_database_is_refused_and_left_alone(file: Path, text: bytes) -> None:
    put(file, text)

    with pytest.raises(Broken, match=r"store\.db"):
        await SqliteStore(file).open()

    assert everything_in(file.parent) == {file.name: text}


async def test_an_empty_file_becomes_a_store(file: Path) -> None:
    put(file, b"")

    revisions = await make(file, k=b"1")

    assert await contents(file) == [Entry("k", b"1", revisions["k"])]


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=f"there is no folder {tmp_path / 'missing'}"):
        await SqliteStore(tmp_path / "missing" / "store.db").open()

    assert everything_in(tmp_path) == {}


async def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="it is a folder"):
        await SqliteStore(tmp_path).open()


NOBODY = 65534


@contextmanager
def without_privileges() -> Iterator[None]:
    """Nothing is forbidden to root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "words"),
    [
        (0o000, None, "Permission denied"),
        (0o555, None, "it cannot be opened; check that this user may read and write it, and its folder"),
        (0o777, 0o000, "it cannot be opened; check that this user may read and write it, and its folder"),
        (0o777, 0o444, "it is read-only"),
    ],
)
async def test_what_this_user_may_not_do_is_said(folder_mode: int, file_mode: int | None, words: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "folder" / "store.db"
        make_folder(file.parent)
        if file_mode is not None:
            await make(file)
            allow(file, file_mode)
        allow(file.parent, folder_mode)
        allow(file.parents[1], 0o755)

        with without_privileges(), pytest.raises(Unavailable, match=re.escape(words)):
            await SqliteStore(file).open()

        allow(file.parent, 0o755)


async def test_a_store_that_could_not_be_opened_can_be_opened_later(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    store = SqliteStore(folder / "store.db")
    with pytest.raises(Unavailable):
        await store.open()

    folder.mkdir()
    await store.open()

    await store.put("k", b"", ABSENT)
    await store.close()


async def test_a_zombie_in_another_process_is_fenced_by_revisions(file: Path) -> None:
    # Two connections to one file are what two processes are to SQLite.
    zombie, heir = SqliteStore(file), SqliteStore(file)
    await zombie.open()
    old = await zombie.put("room/a", b"zombie", ABSENT)
    await heir.open()
    new = await heir.put("room/a", b"heir", old)

    with pytest.raises(RevisionConflict):
        await zombie.put("room/a", b"zombie again", old)

    assert await zombie.get("room/a") == Entry("room/a", b"heir", new)
    assert await zombie.put("other", b"", ABSENT) > new
    await zombie.close()
    await heir.close()


async def test_two_stores_in_one_process_do_not_know_of_each_other(tmp_path: Path) -> None:
    one, two = SqliteStore(tmp_path / "one"), SqliteStore(tmp_path / "two")
    await one.open()
    await two.open()

    await one.put("k", b"1", ABSENT)

    assert await two.list("") == []
    await one.close()
    await two.close()
