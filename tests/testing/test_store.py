"""A store that fails when told to, and what is left of it when its process dies."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from random import Random
from typing import Any

import pytest

from holdfast.stores import ABSENT, Broken, RevisionConflict, StoreError, Unavailable, Unknown, Write
from holdfast.testing import Disk, FaultyStore, Machine, run


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def plain(*args: Any, **kwargs: Any) -> None:
        run(test(*args, **kwargs))

    return plain


async def opened(disk: Disk | None = None, **options: Any) -> FaultyStore:
    store = FaultyStore(disk, **options)
    await store.open()
    return store


@in_virtual_time
async def test_calls_take_the_time_they_are_told_to_take_and_keep_their_order() -> None:
    store = await opened(latency_s=1.0)
    now = asyncio.get_running_loop().time
    slow = asyncio.create_task(store.put("a", b"1", ABSENT))
    await asyncio.sleep(0.1)
    store.latency_s = 0.0
    quick = asyncio.create_task(store.put("a", b"2", ABSENT))

    assert await slow > ABSENT
    assert now() == 1.0
    with pytest.raises(RevisionConflict):
        await quick
    store.latency_s = 0.5
    await store.get("a")
    assert now() == 1.5


@in_virtual_time
async def test_a_commit_is_on_the_disk_when_it_lands_and_not_before() -> None:
    disk = Disk()
    store, other = await opened(disk, latency_s=1.0), await opened(disk)
    written: list[tuple[float, str, bool]] = []
    now = asyncio.get_running_loop().time
    disk.on_written = lambda batch, by: written.append((now(), batch[0].key, by is store))
    commit = asyncio.create_task(store.commit([[Write("a", b"", ABSENT)], [Write("b", b"", 7)], [Write("c", b"", 0)]]))
    await asyncio.sleep(0.9)

    assert await other.list("") == []
    assert store.is_writing
    await commit
    assert written == [(1.0, "a", True), (1.0, "c", True)]
    assert [entry.key for entry in await other.list("")] == ["a", "c"]


@in_virtual_time
async def test_a_full_disk_refuses_every_commit_and_can_be_read() -> None:
    store = await opened()
    revision = await store.put("a", b"1", ABSENT)
    store.is_full = True

    with pytest.raises(Unavailable):
        await store.put("a", b"2", revision)
    assert (await store.get("a")) is not None
    store.is_full = False
    await store.put("a", b"2", revision)


@pytest.mark.parametrize("error", [Unavailable, Unknown, Broken])
@pytest.mark.parametrize("is_written", [True, False])
@in_virtual_time
async def test_the_call_that_is_named_fails_with_or_without_effect(error: type[StoreError], is_written: bool) -> None:
    store = await opened()
    store.fail(error("now"), call=2, is_written=is_written)
    await store.get("a")

    with pytest.raises(error):
        await store.put("a", b"1", ABSENT)

    assert ("a" in store.disk.entries) is (is_written and error is not Unavailable)
    await store.list("")


def test_a_crash_tears_between_batches_never_within_one() -> None:
    async def torn(seed: int) -> tuple[str, ...]:
        store = await opened(latency_s=1.0, random=Random(seed))
        batches = [[Write(f"{name}{part}", b"", ABSENT) for part in "12"] for name in "ab"]
        commit = asyncio.create_task(store.commit(batches))
        await asyncio.sleep(0.5)
        store.crash()
        await asyncio.sleep(5.0)
        assert not commit.done()
        commit.cancel()
        return tuple(sorted(store.disk.entries))

    outcomes = {run(torn(seed)) for seed in range(40)}

    assert outcomes == {(), ("a1", "a2"), ("b1", "b2"), ("a1", "a2", "b1", "b2")}


@in_virtual_time
async def test_after_a_crash_the_store_can_be_opened_again() -> None:
    store = await opened()
    await store.put("a", b"1", ABSENT)
    store.crash()

    await store.open()

    assert (await store.get("a")) is not None


@in_virtual_time
async def test_a_commit_reaches_the_disk_while_its_machine_is_paused() -> None:
    store, machine = await opened(latency_s=1.0), Machine()
    commit = asyncio.create_task(machine.do(store.put("a", b"", ABSENT)))
    await asyncio.sleep(0.5)
    machine.pause()

    await asyncio.sleep(5.0)

    assert "a" in store.disk.entries
    assert not commit.done()
    machine.wake()
    assert await commit > ABSENT
