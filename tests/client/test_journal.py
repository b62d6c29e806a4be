"""What a saved session writes: whole, in order, and readable whatever the last write left behind."""

import asyncio
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from holdfast import Conflict, Invalid, SessionEnded, SessionFile, Unconfirmed, Untyped
from holdfast.client.journal import SessionJournal, frames, replayed
from holdfast.core.limits import Limits
from holdfast.schemas.frames import Ack
from holdfast.testing import MemoryServer, MemoryStorage, run
from tests.client.mortal import Count, Tally
from tests.client.script import Script


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def journal(seated: Script, storage: MemoryStorage) -> SessionJournal:
    journal = SessionJournal(storage, seated.client, Limits())
    journal.keep()
    return journal


def send(seated: Script, journal: SessionJournal, *texts: str) -> None:
    for text in texts:
        journal.sent(1, "move", seated.client.codec.encode(text))
        seated.push(text)
        seated.said()


def test_a_journal_says_what_a_snapshot_would(seated: Script, journal: SessionJournal, storage: MemoryStorage) -> None:
    send(seated, journal, "a", "b")
    seated.process(seated.data(1), seated.data(2, ack=1))
    journal.keep()
    send(seated, journal, "c")

    state = replayed(storage.written)

    assert state is not None
    assert state.write() == seated.client.save()


def test_a_journal_that_ends_anywhere_says_what_was_whole(
    seated: Script, journal: SessionJournal, storage: MemoryStorage
) -> None:
    first = len(storage.written)
    send(seated, journal, "a", "b", "c")

    for end in range(first, len(storage.written) + 1):
        state = replayed(storage.written[:end])

        assert state is not None
        assert state.channels[0].last_seq == len(list(frames(storage.written[:end]))) - 1


def test_nothing_is_written_when_nothing_has_changed(
    seated: Script, journal: SessionJournal, storage: MemoryStorage
) -> None:
    seated.process(seated.data(1))
    journal.keep()
    written = storage.written

    journal.keep()
    seated.arrive(seated.data(2))
    journal.keep()

    assert storage.written == written


def test_a_journal_does_not_grow_without_bound(seated: Script, journal: SessionJournal, storage: MemoryStorage) -> None:
    longest = 0
    for number in range(1, 3000):
        send(seated, journal, "x" * 1000)
        seated.hear(Ack(1, number))
        journal.keep()
        longest = max(longest, len(storage.written))

    assert longest < Limits().journal_bytes_max + 10_000
    state = replayed(storage.written)
    assert state is not None
    assert state.channels[0].last_seq == 2999


@pytest.mark.parametrize("junk", [b"junk", b"\0" * 100, b"\1\0\0\0\0\0\0\0x"])
def test_what_is_no_journal_is_refused(junk: bytes) -> None:
    with pytest.raises(Invalid, match="not a saved session"):
        replayed(junk)


# In a file


def test_a_file_is_for_its_owner_only_and_gone_with_the_session(tmp_path: Path) -> None:
    file = SessionFile(tmp_path / "ada.session")
    file.replace(b"state")
    file.append(b" and more")

    assert (tmp_path / "ada.session").read_bytes() == file.read() == b"state and more"
    assert {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {0o600}
    file.remove()
    assert file.read() == b""
    file.close()


def test_two_processes_cannot_use_one_saved_session(tmp_path: Path) -> None:
    path = tmp_path / "ada.session"
    holder = "import sys, holdfast; file = holdfast.SessionFile(sys.argv[1]); print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(Conflict, match="is in use"):
            SessionFile(path)
        process.kill()

    SessionFile(path).close()


def test_two_sessions_of_one_process_cannot_use_one_saved_session(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "ada.session"
        async with MemoryServer([Tally]) as server:
            first = await server.connect("ada", saved=path)
            with pytest.raises(Conflict, match="is in use"):
                await server.connect("ada", saved=path)
            with pytest.raises(Conflict, match="is in use"):
                await server.connect("ada", saved=path)

            await first.suspend()
            assert (await server.connect("ada", saved=path)).id == first.id

    run(story())


# A storage that fails


class FullStorage(MemoryStorage):
    is_full = False
    error: Exception = OSError("no space left")

    def append(self, record: bytes) -> None:
        if self.is_full:
            super().append(record[:5])
            raise self.error
        super().append(record)

    def replace(self, state: bytes) -> None:
        if self.is_full:
            raise self.error
        super().replace(state)


def test_what_cannot_be_stored_is_not_sent_and_later_it_goes_on() -> None:
    async def story() -> None:
        storage = FullStorage()
        async with MemoryServer([Tally]) as server:
            session = await server.connect("ada", saved=storage, messages=[Count])
            room = await session.join_or_create("tally")
            assert await room.send(Count(1)) == 1
            assert await room.receive() == Count(1)

            storage.is_full = True
            with pytest.raises(OSError, match="no space"):
                await room.send(Count(2))
            assert room.sent == 1
            await asyncio.sleep(3.0)
            storage.is_full = False
            assert await room.send(Count(2)) == 2
            assert await room.receive() == Count(2)

            state = replayed(storage.written)
            assert state is not None
            assert state.channels[0].last_seq == 2

    run(story())


def test_a_storage_may_raise_anything_and_the_session_goes_on() -> None:
    async def story() -> None:
        storage = FullStorage()
        storage.error = sqlite3.OperationalError("database is locked")
        async with MemoryServer([Tally]) as server:
            session = await server.connect("ada", saved=storage, messages=[Count])
            room = await session.join_or_create("tally")

            storage.is_full = True
            server.link(session).cut()
            await asyncio.sleep(3.0)
            with pytest.raises(sqlite3.OperationalError):
                await room.send(Count(1))
            assert not session.connected
            assert storage.written
            storage.is_full = False
            assert await room.send(Count(1)) == 1
            assert await room.receive() == Count(1)
            storage.is_full = True
            room.acknowledge()
            await asyncio.sleep(3.0)
            storage.is_full = False
            assert session.drops == 1
            assert await room.send(Count(2)) == 2

    run(story())


def test_a_client_that_fails_leaves_what_is_saved() -> None:
    async def story() -> None:
        storage = MemoryStorage()
        async with MemoryServer([Tally]) as server:
            await (await server.connect("ada", saved=storage)).suspend()
            written = storage.written

            def broken(*_: object) -> NoReturn:
                raise ZeroDivisionError

            with pytest.raises(SessionEnded, match="the client failed"):
                await server.connect("ada", saved=storage, dial=broken)

            assert storage.written == written

    run(story())


# What became of the messages


def test_a_program_that_restarts_can_ask_what_was_accepted_and_what_is_on_its_way() -> None:
    async def story() -> None:
        storage = MemoryStorage()
        async with MemoryServer([Tally]) as server:
            first = await server.connect("ada", saved=storage, messages=[Count])
            room = await first.join_or_create("tally")
            assert [await room.send(Count(number)) for number in (1, 2)] == [1, 2]
            await room.flush()
            server.link(first).cut()
            assert await room.send(Count(3)) == 3
            assert (room.sent, room.accepted) == (3, 2)
            killed = MemoryStorage(storage.written)

            connecting = server.connect("ada", saved=killed)
            second = await connecting
            room = second.room  # type: ignore[assignment]
            assert (room.sent, room.accepted) == (3, 2)
            assert room.unconfirmed == [Unconfirmed(3, Untyped("count", {"number": 3}))]
            await room.flush()
            assert (room.accepted, room.unconfirmed) == (3, [])

    run(story())
