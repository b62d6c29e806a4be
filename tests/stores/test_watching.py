"""What a watcher holds for a reader that does not read, or has only begun to."""

from holdfast.stores import ABSENT, Change, Entry, MemoryStore
from holdfast.stores.watching import Watchers
from tests.stores.harness import rest, take


async def test_keys_that_came_and_went_unseen_leave_nothing_behind() -> None:
    store = MemoryStore()
    await store.open()
    kept = await store.put("kept", b"1", ABSENT)
    watch = store.watch("")
    await take(watch, 1)

    for n in range(100):
        await store.delete(f"{n}", await store.put(f"{n}", b"", ABSENT))
    await store.put("new", b"", ABSENT)
    await store.delete("kept", kept)
    await store.close()

    assert [(change.key, change.value) for change in await rest(watch)] == [("new", b""), ("kept", None)]


async def test_a_key_that_was_deleted_before_it_was_shown_is_not_shown() -> None:
    store = MemoryStore()
    await store.open()
    revisions = [await store.put(f"{n}", b"", ABSENT) for n in range(3)]
    watch = store.watch("")
    await take(watch, 1)

    await store.delete("1", revisions[1])
    await store.close()

    assert [change.key for change in await rest(watch)] == ["2"]


async def test_what_is_written_while_a_watch_begins_is_shown_after_what_there_was_and_only_once() -> None:
    watchers = Watchers()

    async def look(_: str) -> list[Entry]:
        # The store was read after the third revision, but news of what was written comes when it comes.
        watchers.tell(Change("changed", b"old", 2))
        watchers.tell(Change("deleted", b"", 3))
        watchers.tell(Change("changed", b"new", 4))
        watchers.tell(Change("deleted", None, 5))
        watchers.tell(Change("made", b"", 6))
        return [Entry("changed", b"old", 2), Entry("deleted", b"", 3), Entry("kept", b"", 1)]

    watch = watchers.watch("", look)
    seen = await take(watch, 1)
    watchers.close()
    seen += await rest(watch)

    assert seen == [Change("kept", b"", 1), Change("changed", b"new", 4), Change("made", b"", 6)]


async def test_what_was_looked_at_before_the_news_of_it_came_is_shown_once() -> None:
    watchers = Watchers()

    async def look(_: str) -> list[Entry]:
        return [Entry("a", b"", 1), Entry("b", b"", 2)]

    watch = watchers.watch("", look)
    seen = await take(watch, 2)
    for change in (Change("a", b"", 1), Change("b", b"", 2), Change("a", b"", 3)):
        watchers.tell(change)
    watchers.close()
    seen += await rest(watch)

    assert [change.revision for change in seen] == [1, 2, 3]
