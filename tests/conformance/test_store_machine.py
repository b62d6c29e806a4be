"""Every store against a dictionary: two handles, and any order of writes, conflicts and reopenings."""

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from holdfast.stores import ABSENT, Batch, Entry, Outcome, RevisionConflict, Write
from tests.stores.harness import ADAPTERS, NEVER, Place

T = TypeVar("T")

KEYS = ["a", "a/b", "a/c", "ab", "b", "~"]
PATHS = ["", "a", "a/b", "b", "c", "~"]
BATCHES = 3


def is_at(path: str, key: str) -> bool:
    return path in {"", key} or key.startswith(path + "/")


class Wish(NamedTuple):
    """A write whose revision is chosen when it is known what the store has: that, one of the past, or none."""

    batch: int
    key: str
    value: bytes | None
    expects: str


WISHES = st.lists(
    st.builds(
        Wish,
        st.integers(0, BATCHES - 1),
        st.sampled_from(KEYS),
        st.none() | st.sampled_from([b"", b"1", bytes(5000)]),
        st.sampled_from(["present", "present", "present", "past", "absent"]),
    ),
    unique_by=lambda wish: wish.key,
)
HANDLES = st.integers(0, 1)


class StoreMachine(RuleBasedStateMachine):
    """The model is a dictionary that is told the revisions."""

    adapter: str

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.place = Place(self.adapter, Path(self.folder.name))
        self.handles = [self.run(self.place.open()) for _ in range(2)]
        self.model: dict[str, Entry] = {}
        self.past: dict[str, int] = {}
        self.newest = ABSENT

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @rule(handle=HANDLES, wishes=WISHES)
    def commit(self, handle: int, wishes: list[Wish]) -> None:
        batches = [[self._write(wish) for wish in wishes if wish.batch == index] for index in range(BATCHES)]

        outcomes = self.run(self.handles[handle].commit(batches))

        before = self.newest
        for batch, outcome in zip(batches, outcomes, strict=True):
            wrong = {write.key: write for write in batch if write.revision != self._revision(write.key)}
            if wrong:
                assert isinstance(outcome, RevisionConflict)
                assert outcome.expected == wrong[outcome.key].revision
                assert outcome.found == self._revision(outcome.key)
            else:
                self._apply(batch, outcome, before)

    def _write(self, wish: Wish) -> Write:
        known = {"present": self._revision(wish.key), "past": self.past.get(wish.key, NEVER), "absent": ABSENT}
        return Write(wish.key, wish.value, known[wish.expects])

    def _revision(self, key: str) -> int:
        return self.model[key].revision if key in self.model else ABSENT

    def _apply(self, batch: Batch, outcome: Outcome, before: int) -> None:
        assert isinstance(outcome, list)
        for (key, value, replaced), revision in zip(batch, outcome, strict=True):
            self.model.pop(key, None)
            self.past[key] = replaced or NEVER
            if value is None:
                assert revision == ABSENT
            else:
                assert revision > before
                self.model[key] = Entry(key, value, revision)
                self.newest = max(self.newest, revision)

    @rule(handle=HANDLES, key=st.sampled_from(KEYS))
    def get(self, handle: int, key: str) -> None:
        assert self.run(self.handles[handle].get(key)) == self.model.get(key)

    @rule(handle=HANDLES)
    def reopen(self, handle: int) -> None:
        self.run(self.handles[handle].close())
        self.handles[handle] = self.run(self.place.open())

    @rule(handle=HANDLES, path=st.sampled_from(PATHS))
    def list(self, handle: int, path: str) -> None:
        expected = [self.model[key] for key in sorted(self.model) if is_at(path, key)]
        assert self.run(self.handles[handle].list(path)) == expected

    @invariant()
    def no_two_keys_have_the_same_revision(self) -> None:
        assert len({entry.revision for entry in self.model.values()}) == len(self.model)

    def teardown(self) -> None:
        for handle in (0, 1):
            self.list(handle, "")
        self.run(self.place.close())
        self.runner.close()
        self.folder.cleanup()


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_store_does_what_a_dictionary_would(adapter: str) -> None:
    run_state_machine_as_test(
        type("Machine", (StoreMachine,), {"adapter": adapter}),
        settings=settings(
            max_examples=30,
            stateful_step_count=30,
            phases=set(Phase) - {Phase.explain},  # a failure is a list of steps, which explains itself
        ),
    )
