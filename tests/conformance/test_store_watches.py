"""What every store promises to those who watch it."""

import asyncio
from contextlib import aclosing

from holdfast.stores import ABSENT, Change, Store, Write
from tests.stores.harness import NEVER, Place, fill, rest, take


async def test_a_watcher_is_shown_what_there_is_and_then_what_changes(store: Store) -> None:
    old = await fill(store, "room/b", "room/a", "else")

    async with aclosing(store.watch("room/")) as watch:
        before = await take(watch, 2)
        new = await store.put("room/c", b"1", ABSENT)
        newer = await store.put("room/a", b"2", old["room/a"])
        await store.put("rooms", b"", ABSENT)
        await store.delete("room/b", old["room/b"])
        after = await take(watch, 3)

    # In the order of revisions, not of keys.
    assert before == [Change(key, key.encode(), old[key]) for key in ("room/b", "room/a")]
    assert after[:2] == [Change("room/c", b"1", new), Change("room/a", b"2", newer)]
    assert after[2][:2] == ("room/b", None)
    assert after[2].revision > newer


async def test_a_watcher_is_shown_a_commit_in_the_order_of_its_revisions(store: Store) -> None:
    async with aclosing(store.watch("")) as watch:
        await store.put("first", b"", ABSENT)
        await take(watch, 1)

        await store.commit(
            [
                [Write("b", b"1", ABSENT), Write("a", b"2", ABSENT)],
                [Write("refused", b"", ABSENT), Write("gone", b"", NEVER)],
                [Write("c", b"3", ABSENT)],
            ]
        )
        changes = await take(watch, 3)

    assert {change.key: change.value for change in changes} == {"a": b"2", "b": b"1", "c": b"3"}
    assert changes == sorted(changes, key=lambda change: change.revision)
    assert {(change.key, change.revision) for change in changes} <= {
        (entry.key, entry.revision) for entry in await store.list("")
    }


async def test_a_watcher_waits_for_a_change(store: Store) -> None:
    async with aclosing(store.watch("")) as watch:
        reading = asyncio.create_task(take(watch, 1))
        await asyncio.sleep(0)

        revision = await store.put("k", b"1", ABSENT)

        assert await reading == [Change("k", b"1", revision)]


async def test_a_slow_watcher_sees_the_last_change_of_each_key(store: Store) -> None:
    revisions = await fill(store, "a", "b", "c")

    async with aclosing(store.watch("")) as watch:
        await take(watch, 3)
        for n in range(100):
            for key in ("a", "b"):
                revisions[key] = await store.put(key, b"%d" % n, revisions[key])
        await store.delete("c", revisions["c"])
        changes = await take(watch, 3)
        await store.put("end", b"", ABSENT)
        [end] = await take(watch, 1)

    assert changes[:2] == [Change(key, b"99", revisions[key]) for key in ("a", "b")]
    assert changes[2][:2] == ("c", None)
    assert end.key == "end"


async def test_nothing_is_missed_between_what_there_is_and_what_changes(store: Store) -> None:
    for turn in range(20):
        key = f"{turn}"
        revision = await store.put(key, b"0", ABSENT)
        async with aclosing(store.watch(key)) as watch:
            reading = asyncio.create_task(take(watch, 1))

            for n in range(1, 4):
                revision = await store.put(key, b"%d" % n, revision)

            seen = await reading
            while seen[-1].value != b"3":
                seen += await take(watch, 1)
        assert seen == sorted(set(seen), key=lambda change: change.revision)
        await store.delete(key, revision)


async def test_watchers_do_not_know_of_each_other(store: Store) -> None:
    async with aclosing(store.watch("a")) as one, aclosing(store.watch("")) as two:
        await store.put("start/a", b"", ABSENT)
        await take(two, 1)
        await store.put("a", b"", ABSENT)
        assert [change.key for change in await take(one, 1)] == ["a"]
        await one.aclose()

        await store.put("b", b"", ABSENT)

        assert [change.key for change in await take(two, 2)] == ["a", "b"]


async def test_a_watch_ends_when_the_store_is_closed(place: Place) -> None:
    store = await place.open()
    await fill(store, "k")
    watch = store.watch("")
    await take(watch, 1)
    reading = asyncio.create_task(rest(watch))
    await asyncio.sleep(0)

    revision = await store.put("l", b"1", ABSENT)
    await store.close()

    assert await reading == [Change("l", b"1", revision)]


async def test_a_watch_that_was_closed_ends_and_the_store_goes_on(store: Store) -> None:
    watch = store.watch("")
    await store.put("k", b"1", ABSENT)
    await take(watch, 1)

    await watch.aclose()

    await store.put("l", b"2", ABSENT)
    assert await rest(watch) == []


async def test_a_reader_that_is_cancelled_ends_its_watch(store: Store) -> None:
    reading = asyncio.create_task(rest(store.watch("")))
    await store.put("k", b"1", ABSENT)

    reading.cancel()

    await asyncio.wait([reading])
    assert reading.cancelled()
    await store.put("l", b"2", ABSENT)
