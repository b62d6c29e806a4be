"""What proves that a record and what lies beside it belong together: the chain of hashes, and the sum of the parts."""

from itertools import permutations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.records import PARTS_NONE, decode_room, digest, encode, part_digest, parts_changed
from tests.core.record_samples import ROOM

# The chain


def test_every_record_names_the_one_before_it() -> None:
    first = encode(ROOM)
    second = encode(msgspec.structs.replace(ROOM, index=18, previous=digest(first)))
    third = encode(msgspec.structs.replace(ROOM, index=19, previous=digest(second)))

    assert decode_room(third).previous == digest(second)
    assert decode_room(second).previous == digest(first)


@given(change=st.integers(0, 10_000))
def test_a_record_that_was_changed_is_not_the_one_that_the_next_names(change: int) -> None:
    first = encode(ROOM)
    forged = encode(msgspec.structs.replace(ROOM, max_players=ROOM.max_players + 1 + change))

    assert len(digest(first)) == 32
    assert digest(forged) != digest(first)


# What lies beside a record

parts_of_a_room = st.dictionaries(st.text(min_size=1, max_size=5), st.binary(max_size=10), min_size=1, max_size=5)


def summed(parts: dict[str, bytes]) -> bytes:
    total = PARTS_NONE
    for key, value in parts.items():
        total = parts_changed(total, added=part_digest(key, value))
    return total


def test_no_parts_have_the_sum_of_nothing() -> None:
    assert summed({}) == PARTS_NONE == bytes(32)


def test_the_order_of_the_parts_does_not_matter() -> None:
    parts = {"a": b"1", "b": b"2", "c": b"", "d": b"2"}

    assert len({summed({name: parts[name] for name in order}) for order in permutations(parts)}) == 1


@given(parts=parts_of_a_room, key=st.text(max_size=5), value=st.binary(max_size=10))
def test_a_part_that_came_and_went_leaves_nothing(parts: dict[str, bytes], key: str, value: bytes) -> None:
    total = summed(parts)
    number = part_digest(key, value)

    assert parts_changed(parts_changed(total, added=number), removed=number) == total
    assert parts_changed(parts_changed(total, removed=number), added=number) == total
    assert parts_changed(total, added=number, removed=number) == total


@given(parts=parts_of_a_room, data=st.data())
def test_a_part_that_is_missing_changed_or_moved_shows_in_the_sum(parts: dict[str, bytes], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(parts)))
    others = {name: value for name, value in parts.items() if name != key}

    assert summed(others) != summed(parts)
    assert summed({**parts, key: parts[key] + b"!"}) != summed(parts)
    assert summed({**others, key + "!": parts[key]}) != summed(parts)


@given(parts=parts_of_a_room, later=parts_of_a_room)
def test_a_sum_that_is_kept_up_to_date_is_the_sum_of_what_is_there(
    parts: dict[str, bytes], later: dict[str, bytes]
) -> None:
    total = summed(parts)
    for key, value in later.items():
        removed = part_digest(key, parts[key]) if key in parts else 0
        total = parts_changed(total, added=part_digest(key, value), removed=removed)

    assert total == summed({**parts, **later})
