"""The store, as authenticators see it: whole or not at all, and busy when it cannot be asked."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.identity import Busy
from holdfast.identity.shelf import ABSENT, Change, Overtaken, Record
from holdfast.server.admission.shelf import StoreShelf
from holdfast.stores import open_store
from holdfast.stores.port import Broken, Unavailable, Unknown
from holdfast.testing import FaultyStore


@pytest.fixture(params=["memory", "sqlite"])
async def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreShelf]:
    store = open_store("memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'game.db'}")
    await store.open()
    yield StoreShelf(store, _never)
    await store.close()


def _never(error: Exception) -> None:
    raise AssertionError(f"nothing is broken: {error}")


async def test_all_changes_are_made_or_none(shelf: StoreShelf) -> None:
    await shelf.write(Change("a", b"1", ABSENT), Change("b", b"1", ABSENT))
    known = await shelf.get("a")
    assert known is not None

    with pytest.raises(Overtaken):
        await shelf.write(Change("c", b"1", ABSENT), Change("b", b"2", ABSENT))
    await shelf.write(Change("a", None, known.revision), Change("c", b"1", ABSENT))

    assert await shelf.get("a") is None
    assert (await shelf.get("b") or Record(b"", 0)).value == b"1"
    assert (await shelf.get("c") or Record(b"", 0)).value == b"1"


@pytest.mark.parametrize("error", [Unavailable("the disk is full"), Unknown("it took too long")])
async def test_a_store_that_cannot_be_asked_is_busy(error: Exception) -> None:
    store = FaultyStore()
    await store.open()
    shelf = StoreShelf(store, _never)

    for attempt in (shelf.get("a"), shelf.write(Change("a", b"1", ABSENT))):
        store.fail(error, is_written=False)  # type: ignore[arg-type]  # they are store errors
        with pytest.raises(Busy) as busy:
            await attempt
        assert busy.value.retry_after_s > 0

    await shelf.write(Change("a", b"1", ABSENT))


async def test_a_store_that_cannot_be_trusted_is_told_to_the_server() -> None:
    told: list[Exception] = []
    store = FaultyStore()
    await store.open()
    broken = Broken("fsync failed")
    store.fail(broken, is_written=False)

    with pytest.raises(Busy):
        await StoreShelf(store, told.append).write(Change("a", b"1", ABSENT))

    assert told == [broken]
