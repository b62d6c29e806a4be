"""One server per file: who has it is said, and nobody has it longer than they live."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest

from holdfast.stores import ABSENT, Held, SqliteStore
from holdfast.stores.sqlite.lock import Holder, ServerLock
from tests.deadlines import DEADLINE_S
from tests.e2e.serving import python_process, read_until
from tests.log_lines import line_of

ENDS = ("-wal", "-shm", ".lock", ".newest")
HOLDER = """
import asyncio, sys
from holdfast.stores import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open("sole")
    print("open", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""

# The child outlives its parent, but not the test, however that ends.
FORKING = HOLDER.replace(
    '    print("open", flush=True)',
    """
    import os, signal, time
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        for pipe in range(3):
            os.close(pipe)
        time.sleep(60)
    print("child", child, flush=True)
""",
)


def put(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def allow(file: Path, mode: int) -> None:
    file.chmod(mode)


def modes_in(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}


def lines(caplog: pytest.LogCaptureFixture, beginning: str) -> list[dict[str, Any]]:
    """The fields of the lines that begin so."""
    said = [line_of(record) for record in caplog.records if record.name == "holdfast.stores"]
    return [fields for event, fields in said if event.startswith(beginning)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def first(file: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(file)
    await store.open("sole")
    yield store
    await store.close()


async def test_a_second_server_is_told_who_has_the_file_since_when_and_what_to_do(
    first: SqliteStore, file: Path
) -> None:
    with pytest.raises(Held) as caught:
        await SqliteStore(file).open("sole")

    words = str(caught.value)
    assert f"{file} is in use by another server: process {os.getpid()}, since {datetime.now(UTC):%Y-%m-}" in words
    assert "--takeover" in words
    assert "`holdfast rooms export`" in words
    await first.put("k", b"1", ABSENT)


async def test_a_file_behind_a_link_has_the_same_lock_and_note(first: SqliteStore, file: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(file)

    with pytest.raises(Held):
        await SqliteStore(link).open("sole")

    await first.close()
    await _opened_and_closed(link)
    assert [each.name for each in link.parent.iterdir()] == [link.name]


async def test_tools_read_and_write_beside_a_server(first: SqliteStore, file: Path) -> None:
    tool = SqliteStore(file)
    await tool.open()

    revision = await tool.put("k", b"1", ABSENT)

    assert (await first.get("k")) == ("k", b"1", revision)
    await tool.close()


async def test_a_server_that_stopped_leaves_no_lock_behind(file: Path) -> None:
    for _ in range(2):
        store = SqliteStore(file)
        await store.open("sole")
        assert modes_in(file.parent) == dict.fromkeys([file.name, *(f"{file.name}{end}" for end in ENDS)], 0o600)
        await store.close()

    assert set(modes_in(file.parent)) == {file.name, f"{file.name}.newest"}


async def test_a_server_that_could_not_start_leaves_no_lock_behind(file: Path) -> None:
    put(file, b"not a database, but longer than the header of one " * 10)

    with pytest.raises(Exception, match="damaged"):
        await SqliteStore(file).open("sole")

    assert list(modes_in(file.parent)) == [file.name]


async def test_kill_9_frees_the_lock(file: Path) -> None:
    async with python_process("-c", HOLDER, str(file)) as process:
        await read_until(process, "open")
        with pytest.raises(Held, match=f"process {process.pid},"):
            await SqliteStore(file).open("sole")
        process.kill()
        await process.wait()

        store = SqliteStore(file)
        await store.open("sole")

        assert await store.reclaim()
        await store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
async def test_a_process_that_the_server_forked_does_not_keep_the_lock(file: Path) -> None:
    async with python_process("-c", FORKING, str(file)) as process:
        child = int((await read_until(process, r"child (\d+)")).split()[1])
        process.kill()
        await process.wait()

        await _opened_and_closed(file)

        os.kill(child, signal.SIGKILL)
    assert f"process {process.pid}, or a process that it started, since" in str(Holder(process.pid, 0.0, gethostname()))


async def test_whoever_takes_over_has_it_until_they_are_gone(first: SqliteStore, file: Path) -> None:
    second = SqliteStore(file)
    await second.open("takeover")

    has_it_while_second_runs = await first.reclaim(), await second.reclaim()
    await second.close()
    has_it_afterwards = await first.reclaim()

    assert has_it_while_second_runs == (False, True)
    assert has_it_afterwards
    with pytest.raises(Held):
        await SqliteStore(file).open("sole")


async def test_tools_never_have_it(file: Path) -> None:
    tool = SqliteStore(file)
    await tool.open()

    assert not await tool.reclaim()
    await tool.close()


def test_a_lock_file_that_was_deleted_is_made_again_and_one_that_was_taken_over_is_not_fought_for(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = ServerLock(file), ServerLock(file)
    first.take()
    Path(f"{file}.lock").unlink()
    first.look()
    with pytest.raises(Held):
        second.take()

    second.take(takeover=True)
    for _ in range(3):
        first.look()
    second.release()
    first.look()

    (fields,) = lines(caplog, "another server took over this store")
    assert str(fields["holder"]).startswith(f"process {os.getpid()}, since ")
    third = ServerLock(file)
    third.take()
    assert not first.has_it()
    third.release()
    first.release()


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are other there")
async def test_a_store_that_others_can_read_is_warned_of(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    for mode in (0o600, 0o640):
        await _opened_and_closed(file)
        allow(file, mode)
    await _opened_and_closed(file)

    assert len(lines(caplog, "other users can read the store")) == 1
    assert modes_in(file.parent) == {file.name: 0o640, f"{file.name}.newest": 0o600}


async def _opened_and_closed(file: Path) -> None:
    async with asyncio.timeout(DEADLINE_S):
        store = SqliteStore(file)
        await store.open("sole")
        await store.close()
