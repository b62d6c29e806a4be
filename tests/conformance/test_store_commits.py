"""What every store promises of a commit: batches are whole, do not depend on each other, and revisions decide."""

import asyncio

import pytest

from holdfast.stores import ABSENT, Batch, Entry, RevisionConflict, Store, Write
from tests.stores.harness import NEVER, contents, fill


async def test_a_batch_is_written_whole(store: Store) -> None:
    revisions = await fill(store, "old", "doomed")

    [outcome] = await store.commit(
        [[Write("old", b"2", revisions["old"]), Write("doomed", None, revisions["doomed"]), Write("new", b"1", ABSENT)]]
    )

    assert isinstance(outcome, list)
    assert outcome[1] == ABSENT
    assert await store.list("") == [Entry("new", b"1", outcome[2]), Entry("old", b"2", outcome[0])]


@pytest.mark.parametrize("bad", [0, 1, 2], ids=["first", "middle", "last"])
async def test_a_batch_with_one_conflict_leaves_everything_as_it_was(store: Store, bad: int) -> None:
    revisions = await fill(store, "old", "doomed")
    before = await store.list("")
    batch = [
        Write("old", b"2", revisions["old"]),
        Write("doomed", None, revisions["doomed"]),
        Write("new", b"1", ABSENT),
    ]
    batch[bad] = batch[bad]._replace(revision=NEVER)

    [outcome] = await store.commit([batch])

    assert isinstance(outcome, RevisionConflict)
    assert (outcome.key, outcome.expected) == (batch[bad].key, NEVER)
    assert await store.list("") == before


async def test_a_batch_that_is_refused_does_not_keep_the_others_from_being_written(store: Store) -> None:
    revisions = await fill(store, "a", "b", "c", "d")
    stale = await store.put("c", b"c", revisions["c"])

    outcomes = await store.commit(
        [
            [Write("a", b"2", revisions["a"])],
            [Write("b", b"2", revisions["b"]), Write("c", b"2", revisions["c"])],
            [],
            [Write("d", None, revisions["d"])],
            [Write("e", b"2", NEVER)],
            [Write("f", b"2", ABSENT)],
        ]
    )

    assert [type(outcome) for outcome in outcomes] == [list, RevisionConflict, list, list, RevisionConflict, list]
    assert isinstance(outcomes[1], RevisionConflict)
    assert (outcomes[1].key, outcomes[1].found) == ("c", stale)
    assert outcomes[2:4] == [[], [ABSENT]]
    assert await contents(store) == {"a": b"2", "b": b"b", "c": b"c", "f": b"2"}
    assert [outcomes[0], outcomes[5]] == [[entry.revision] for entry in await store.list("") if entry.value == b"2"]


@pytest.mark.parametrize("batches", [[], [[]], [[], []]], ids=len)
async def test_a_commit_of_nothing_is_fine(store: Store, batches: list[Batch]) -> None:
    assert await store.commit(batches) == [[] for _ in batches]


@pytest.mark.parametrize("size", [1, 2, 3, 127, 128, 5000])
async def test_a_commit_has_any_number_of_writes_and_batches(store: Store, size: int) -> None:
    [made] = await store.commit([[Write(f"{n:05}", b"1", ABSENT) for n in range(size)]])
    assert isinstance(made, list)
    stale = size // 2

    outcomes = await store.commit(
        [[Write(f"{n:05}", b"%d" % n, NEVER if n == stale else revision)] for n, revision in enumerate(made)]
    )

    assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, RevisionConflict)] == [stale]
    values = [entry.value for entry in await store.list("")]
    assert values == [b"1" if n == stale else b"%d" % n for n in range(size)]


@pytest.mark.parametrize(
    "batches",
    [
        [[Write("a", b"1", ABSENT), Write("a", b"2", ABSENT)]],
        [[Write("a", b"1", ABSENT)], [Write("b", b"", ABSENT), Write("a", None, ABSENT)]],
    ],
    ids=["in one batch", "in two batches"],
)
async def test_a_key_that_is_written_twice_in_one_commit_is_a_mistake(store: Store, batches: list[Batch]) -> None:
    with pytest.raises(ValueError, match="twice"):
        await store.commit(batches)

    assert await contents(store) == {}


async def test_exactly_one_of_two_who_race_for_a_key_wins(store: Store, other: Store) -> None:
    revision = ABSENT

    for _ in range(30):
        outcomes = await asyncio.gather(
            store.put("k", b"mine", revision), other.put("k", b"theirs", revision), return_exceptions=True
        )

        [won] = [index for index, outcome in enumerate(outcomes) if isinstance(outcome, int)]
        assert isinstance(outcomes[1 - won], RevisionConflict)
        entry = await other.get("k")
        assert entry is not None
        assert (entry.value, entry.revision) == ([b"mine", b"theirs"][won], outcomes[won])
        revision = entry.revision


async def test_of_commits_that_overlap_each_key_is_written_by_one(store: Store, other: Store) -> None:
    # Two batches that share a key are never both written, and a batch is never written in part.
    pairs = [("a", "b"), ("b", "c"), ("c", "a")]
    known = dict.fromkeys("abc", ABSENT)

    for turn in range(30):
        commits = [
            (handle, [Write(key, f"{turn} {name} {pair}".encode(), known[key]) for key in pair])
            for name, handle in (("mine", store), ("theirs", other))
            for pair in pairs
        ]
        outcomes = await asyncio.gather(*(handle.commit([batch]) for handle, batch in commits))

        written = [batch for (_, batch), [outcome] in zip(commits, outcomes, strict=True) if isinstance(outcome, list)]
        assert len(written) == 1
        entries = {entry.key: entry for entry in await store.list("")}
        for write in written[0]:
            assert entries[write.key].value == write.value
        known |= {key: entry.revision for key, entry in entries.items()}
