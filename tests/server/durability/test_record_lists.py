"""The lists of a room's record: whatever happens to them, the record and what lies beside it are the whole list."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.records import PARTS_NONE, encode_listed, parts_sum
from holdfast.schemas.room import ObjectsRecord
from holdfast.server.durability.record_parts import RecordParts, SpillingList
from holdfast.stores.port import ABSENT, Entry

KEY = "room/r"


class Kept:
    """One list and the store that it is in."""

    def __init__(self, inline_bytes_max: int) -> None:
        self._inline_bytes_max = inline_bytes_max
        self._sum = PARTS_NONE
        self._revision = 0
        self.entries: dict[str, Entry] = {}
        self.inline: list[bytes] = []
        self.written_bytes = 0
        self._open()

    def _open(self) -> None:
        self._parts = RecordParts(KEY)
        self._parts.restored(self._sum, list(self.entries.values()))
        self._list = SpillingList("@objects", self._parts, inline_bytes_max=self._inline_bytes_max)
        self._list.restored({key.removeprefix(f"{KEY}/"): entry.value for key, entry in self.entries.items()})

    def commit(self, content: dict[int, str]) -> None:
        change = self._parts.unchanged()
        entries = {number: encode_listed(ObjectsRecord(number, {text: 1})) for number, text in content.items()}
        self.inline = [bytes(each) for each in self._list.cut(entries, change)]
        self.written_bytes = sum(map(len, self.inline))
        revisions: list[int] = []
        for key, value, revision in self._parts.writes(change):
            found = self.entries[key].revision if key in self.entries else ABSENT
            assert revision == found, "somebody else has written it"
            self._revision += 1
            if value is None:
                del self.entries[key]
            else:
                self.entries[key] = Entry(key, value, self._revision)
                self.written_bytes += len(key) + len(value)
            revisions.append(ABSENT if value is None else self._revision)
        self._parts.committed(change, iter(revisions))
        self._sum = change.sum
        assert self._sum == parts_sum({key: entry.value for key, entry in self.entries.items()})

    def crash(self) -> None:
        self._open()

    @property
    def content(self) -> dict[int, str]:
        """As a reader of the store would see it: what is in the record takes the place of what is beside it."""
        read: dict[int, str] = {}
        for stored in [*(entry.value for entry in self.entries.values()), *self.inline]:
            bucket = msgspec.msgpack.decode(stored, type=ObjectsRecord)
            read[bucket.number] = next(iter(bucket.owners))
        return read


steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 9), st.text("ab", max_size=30)),
        st.tuples(st.just("drop"), st.integers(0, 9), st.just("")),
        st.tuples(st.just("quiet"), st.integers(1, 12), st.just("")),
        st.tuples(st.just("crash"), st.just(0), st.just("")),
    ),
    max_size=40,
)


@settings(max_examples=300)
@given(steps=steps, inline_bytes_max=st.sampled_from([0, 60, 10_000]))
def test_the_record_and_what_lies_beside_it_are_the_whole_list(
    steps: list[tuple[str, int, str]], inline_bytes_max: int
) -> None:
    kept, content = Kept(inline_bytes_max), {0: "first"}

    for step, number, text in steps:
        match step:
            case "set":
                content[number] = text
            case "drop":
                content.pop(number, None)
            case "quiet":
                for _ in range(number):
                    kept.commit(content)
            case _:
                kept.crash()
        kept.commit(content)

        assert kept.content == content
        assert {int(key.rpartition("/")[2]) for key in kept.entries} <= content.keys()


def test_a_small_list_is_in_the_record_and_nowhere_else() -> None:
    kept = Kept(2048)
    content = {number: f"thing {number}" for number in range(20)}

    for _ in range(50):
        kept.commit(content)

    assert len(kept.inline) == 20
    assert kept.entries == {}


def test_a_list_that_changes_everywhere_all_the_time_is_in_the_record_and_nowhere_else() -> None:
    kept = Kept(2048)

    for turn in range(50):
        kept.commit({number: f"thing {number} of turn {turn}" for number in range(200)})

    assert len(kept.inline) == 200
    assert kept.entries == {}


def test_one_change_in_a_large_list_writes_no_more_than_in_a_small_one() -> None:
    written: dict[int, int] = {}
    for size in (100, 500, 3_000):
        kept = Kept(2048)
        content = {number: f"thing {number:08}" for number in range(size)}
        for _ in range(70):
            kept.commit(content)
        content[7] = "another"
        kept.commit(content)
        written[size] = kept.written_bytes

    # What the record may have anyway, and the one.
    assert all(size <= 2048 + 50 for size in written.values()), written


def test_after_a_crash_only_what_differs_is_written_again() -> None:
    kept = Kept(0)
    content = {number: f"thing {number}" for number in range(100)}
    for _ in range(20):
        kept.commit(content)

    kept.crash()
    kept.commit({**content, 7: "another"})

    assert len(kept.inline) == 1
    assert kept.content == {**content, 7: "another"}
