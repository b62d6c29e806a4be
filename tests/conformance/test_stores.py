"""What every store promises, said once and run on each of them; see `holdfast.stores.port`.

Nothing here knows how a store counts: revisions grow, that is all.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.stores import ABSENT, KEY_BYTES_MAX, VALUE_BYTES_MAX, Entry, RevisionConflict, Store, Write
from tests.stores.harness import NEVER, Place, contents, fill

ROOMS = ["room/a", "room/a/state", "room/a/state/1", "room/a~", "room/a~/!", "room/ab", "room/b"]
PRINTABLE = "".join(map(chr, range(ord("!"), ord("~") + 1)))


async def test_a_key_that_was_never_written_is_not_there(store: Store) -> None:
    assert await store.get("room/a") is None
    assert await store.list("") == []


async def test_what_was_put_is_got_with_its_revision(store: Store) -> None:
    revision = await store.put("room/a", b"state", ABSENT)

    assert revision > ABSENT
    assert await store.get("room/a") == Entry("room/a", b"state", revision)
    assert await store.list("room") == [Entry("room/a", b"state", revision)]


async def test_another_handle_sees_what_a_commit_that_returned_has_written(store: Store, other: Store) -> None:
    revision = await store.put("room/a", b"1", ABSENT)
    assert await other.get("room/a") == Entry("room/a", b"1", revision)

    await store.delete("room/a", revision)
    assert await other.get("room/a") is None


@pytest.mark.parametrize("value", [b"", b"\x00", bytes(range(256)), b"\xff" * (1024 * 1024)], ids=len)
async def test_a_value_is_any_bytes(store: Store, value: bytes) -> None:
    revision = await store.put("k", b"before", ABSENT)

    revision = await store.put("k", value, revision)

    assert await store.get("k") == Entry("k", value, revision)


async def test_a_value_that_is_too_large_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match=str(VALUE_BYTES_MAX)):
        await store.put("k", bytes(VALUE_BYTES_MAX + 1), ABSENT)

    assert await contents(store) == {}


@pytest.mark.parametrize("key", [PRINTABLE, "k" * KEY_BYTES_MAX, "a/b/c", '"\\', "%_*?[a]", "*/>", "~"])
async def test_a_key_is_any_printable_ascii(store: Store, key: str) -> None:
    revision = await store.put(key, b"1", ABSENT)

    assert await store.get(key) == Entry(key, b"1", revision)
    assert await store.list(key) == [Entry(key, b"1", revision)]
    with pytest.raises(RevisionConflict) as caught:
        await store.put(key, b"2", NEVER)
    assert (caught.value.key, caught.value.expected, caught.value.found) == (key, NEVER, revision)


@pytest.mark.parametrize(
    "key", ["", "/", "a/", "/a", "a//b", " ", "a b", "a\n", "a\x00b", "a\x7f", "é", "k" * (KEY_BYTES_MAX + 1)]
)
async def test_anything_else_is_no_key(store: Store, key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        await store.put(key, b"", ABSENT)
    with pytest.raises(ValueError, match="key"):
        await store.get(key)
    with pytest.raises(ValueError, match="key"):
        await store.delete(key, NEVER)
    with pytest.raises(ValueError, match="key"):
        await store.commit([[Write("fine", b"", ABSENT)], [Write(key, b"", ABSENT)]])

    assert await contents(store) == {}


@pytest.mark.parametrize("revision", [-1, 2**63])
async def test_what_cannot_be_a_revision_is_refused(store: Store, revision: int) -> None:
    with pytest.raises(ValueError, match="revision"):
        await store.put("k", b"", revision)


async def test_a_list_is_in_the_order_of_the_keys(store: Store) -> None:
    await fill(store, "b", "a/2", "a/10", "B", "~", "!", "a", "a/1")

    assert list(await contents(store)) == ["!", "B", "a", "a/1", "a/10", "a/2", "b", "~"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("room/a", ["room/a", "room/a/state", "room/a/state/1"]),
        ("room/a/state", ["room/a/state", "room/a/state/1"]),
        ("room/a~", ["room/a~", "room/a~/!"]),
        ("room/b", ["room/b"]),
        ("room/A", []),
        ("room/_", []),
        ("room/%", []),
        ("room/*", []),
        ("~", ["~"]),
        ("roo", []),
        ("room", ROOMS),
        ("", [*ROOMS, "room0", "roo}", "~"]),
    ],
)
async def test_a_list_has_a_key_and_all_below_it_and_no_others(store: Store, path: str, found: list[str]) -> None:
    await fill(store, "~", "roo}", "room0", *reversed(ROOMS))

    assert [entry.key for entry in await store.list(path)] == sorted(found)


@pytest.mark.parametrize("path", ["/", "room/", "a b", "\x7f", "é", "k" * (KEY_BYTES_MAX + 1)])
async def test_a_path_that_no_key_can_be_below_is_refused(store: Store, path: str) -> None:
    with pytest.raises(ValueError, match="key"):
        await store.list(path)


async def test_only_the_first_creates_a_key(store: Store, other: Store) -> None:
    revision = await store.put("room/a", b"mine", ABSENT)

    with pytest.raises(RevisionConflict) as caught:
        await other.put("room/a", b"theirs", ABSENT)

    assert (caught.value.key, caught.value.expected, caught.value.found) == ("room/a", ABSENT, revision)
    assert await store.get("room/a") == Entry("room/a", b"mine", revision)


async def test_a_handle_can_be_in_conflict_with_itself(store: Store) -> None:
    first = await store.put("room/a", b"1", ABSENT)
    second = await store.put("room/a", b"2", first)

    for stale in (ABSENT, first, NEVER):
        for value in (b"stale", None):
            [outcome] = await store.commit([[Write("room/a", value, stale)]])
            assert isinstance(outcome, RevisionConflict)
            assert (outcome.key, outcome.expected, outcome.found) == ("room/a", stale, second)

    assert await store.get("room/a") == Entry("room/a", b"2", second)


async def test_a_stale_writer_always_loses(store: Store, other: Store) -> None:
    old = await store.put("room/a", b"1", ABSENT)
    new = await other.put("room/a", b"2", old)

    for _ in range(3):
        with pytest.raises(RevisionConflict):
            await store.put("room/a", b"stale", old)
        with pytest.raises(RevisionConflict):
            await store.delete("room/a", old)

    assert new > old
    assert await store.get("room/a") == Entry("room/a", b"2", new)


@pytest.mark.parametrize("value", [b"1", None], ids=["put", "delete"])
async def test_a_key_that_is_gone_cannot_be_written_as_if_it_were_there(store: Store, value: bytes | None) -> None:
    revision = await store.put("room/a", b"1", ABSENT)
    await store.delete("room/a", revision)

    [outcome] = await store.commit([[Write("room/a", value, revision)]])

    assert isinstance(outcome, RevisionConflict)
    assert (outcome.expected, outcome.found) == (revision, ABSENT)
    assert await store.get("room/a") is None


async def test_to_delete_what_is_not_there_changes_nothing_if_that_was_expected(store: Store) -> None:
    revisions = await fill(store, "there")

    await store.delete("gone", ABSENT)
    with pytest.raises(RevisionConflict):
        await store.delete("there", ABSENT)

    assert await store.list("") == [Entry("there", b"there", revisions["there"])]


async def test_revisions_grow_over_all_keys_and_handles(store: Store, other: Store) -> None:
    first = await store.put("a", b"", ABSENT)
    second = await other.put("b", b"", ABSENT)
    outcomes = await store.commit(
        [[Write("a", b"", first), Write("c", b"", ABSENT)], [Write("b", b"", second), Write("d", b"", ABSENT)]]
    )
    last = await other.put("e", b"", ABSENT)

    together = [revision for outcome in outcomes if isinstance(outcome, list) for revision in outcome]
    assert ABSENT < first < second < min(together)
    assert len(set(together)) == 4
    assert max(together) < last


async def test_no_revision_is_given_out_twice_though_the_newest_key_is_deleted(place: Place) -> None:
    seen = []

    for _ in range(3):
        store = await place.open()
        for _ in range(3):
            seen.append(await store.put("k", b"", ABSENT))
            await store.delete("k", seen[-1])
        await store.close()

    assert seen == sorted(set(seen))


async def test_what_was_written_is_there_after_a_reopening(place: Place) -> None:
    store = await place.open()
    revisions = await fill(store, "a", "b", "c")
    await store.delete("b", revisions["b"])
    await store.close()

    store = await place.open()

    assert await store.list("") == [Entry(key, key.encode(), revisions[key]) for key in ("a", "c")]
    assert await store.put("a", b"", revisions["a"]) > max(revisions.values())


async def test_a_commit_that_runs_when_the_store_is_closed_is_finished(place: Place) -> None:
    store = await place.open()
    commits = [asyncio.create_task(store.put(f"k/{n}", bytes(10_000), ABSENT)) for n in range(20)]
    await asyncio.sleep(0)  # they have begun

    await store.close()

    revisions = await asyncio.gather(*commits)
    again = await place.open()
    assert sorted(entry.revision for entry in await again.list("k")) == sorted(revisions)


async def test_a_caller_that_is_cancelled_leaves_the_store_usable(store: Store) -> None:
    commit = asyncio.create_task(store.put("k", b"1", ABSENT))
    await asyncio.sleep(0)

    commit.cancel()

    await store.put("l", b"2", ABSENT)
    assert await store.get("l")


USES: dict[str, Callable[[Store], Awaitable[object]]] = {
    "get": lambda store: store.get("k"),
    "list": lambda store: store.list(""),
    "put": lambda store: store.put("k", b"", ABSENT),
    "delete": lambda store: store.delete("k", ABSENT),
    "commit": lambda store: store.commit([]),
}


@pytest.mark.parametrize("use", USES)
async def test_a_store_that_was_closed_says_so(place: Place, use: str) -> None:
    store = await place.open()
    await store.close()

    with pytest.raises(ValueError, match="not open"):
        await USES[use](store)


async def test_closing_twice_is_fine(place: Place) -> None:
    store = await place.open()

    await store.close()
    await store.close()


async def test_opening_an_open_store_is_a_mistake(store: Store) -> None:
    with pytest.raises(ValueError, match="already open"):
        await store.open()


async def test_a_handle_that_is_closed_leaves_the_others_open(store: Store, other: Store) -> None:
    await other.close()

    revision = await store.put("k", b"1", ABSENT)
    assert await store.get("k") == Entry("k", b"1", revision)
