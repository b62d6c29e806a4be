"""A store that is older than what a server last wrote to it is noticed at the start."""

import shutil
from pathlib import Path

import pytest

from holdfast.stores import ABSENT, SqliteStore

COMPLAINT = "this store is older than what a server last wrote to it"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "game.db"


async def serve(file: Path, *keys: str) -> None:
    """A server that writes these and stops."""
    store = SqliteStore(file)
    await store.open("sole")
    try:
        for key in keys:
            await store.put(key, b"value", ABSENT)
    finally:
        await store.close()


async def test_a_restored_backup_is_told_at_the_start_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    await serve(file, "a")
    backup = shutil.copy(file, file.with_name("backup.db"))
    await serve(file, "b", "c")
    shutil.copy(backup, file)

    await serve(file)
    first = caplog.text
    caplog.clear()
    await serve(file)

    assert COMPLAINT in first
    assert "ERROR" in first
    assert COMPLAINT not in caplog.text


async def test_a_store_that_went_on_is_no_warning(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    await serve(file, "a")
    await serve(file, "b")
    await serve(file)

    assert COMPLAINT not in caplog.text


async def test_a_store_that_was_deleted_begins_anew_with_a_warning(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await serve(file, "a", "b", "c")
    file.unlink()  # noqa: ASYNC240 - quick, in a test

    await serve(file, "d")
    first = caplog.text
    caplog.clear()
    await serve(file)

    assert "this store is new, but a server has written to one of this name before" in first
    assert COMPLAINT not in first
    assert caplog.text == ""


@pytest.mark.parametrize("note", [b"", b"no number", b"00000000000000000002", b"9" * 500])
async def test_a_note_that_makes_no_sense_stops_nobody(file: Path, note: bytes) -> None:
    await serve(file, "a")
    file.with_name("game.db.newest").write_bytes(note)

    await serve(file, "b")


async def test_tools_that_look_into_a_store_leave_no_note(file: Path) -> None:
    store = SqliteStore(file)
    await store.open()
    await store.put("a", b"value", ABSENT)
    await store.close()

    assert not file.with_name("game.db.newest").exists()


async def test_nobody_else_can_read_the_note(file: Path) -> None:
    await serve(file, "a")

    assert file.with_name("game.db.newest").stat().st_mode & 0o777 == 0o600
