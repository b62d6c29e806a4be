"""A shelf writes whole or not at all, and knows what it is written in the place of. Keys are fit for any store."""

import re

import pytest

from holdfast.identity.port import Busy
from holdfast.identity.shelf import ABSENT, Change, MemoryShelf, Overtaken, Record, key_of


async def test_what_is_put_is_found() -> None:
    shelf = MemoryShelf(10)

    await shelf.write(Change("a", b"1", ABSENT))

    assert await shelf.get("a") == Record(b"1", 1)
    assert await shelf.get("b") is None


async def test_a_write_in_the_place_of_another_revision_is_refused_and_nothing_is_written() -> None:
    shelf = MemoryShelf(10)
    await shelf.write(Change("a", b"1", ABSENT))

    for change in (Change("a", b"2", ABSENT), Change("a", b"2", 7), Change("c", b"2", 1), Change("c", None, 1)):
        with pytest.raises(Overtaken):
            await shelf.write(Change("b", b"1", ABSENT), change)

    assert await shelf.get("a") == Record(b"1", 1)
    assert await shelf.get("b") is None


async def test_a_record_is_replaced_and_taken_away_by_its_revision() -> None:
    shelf = MemoryShelf(10)
    await shelf.write(Change("a", b"1", ABSENT))

    await shelf.write(Change("a", b"2", 1))
    replaced = await shelf.get("a")
    assert replaced is not None
    await shelf.write(Change("a", None, replaced.revision))

    assert replaced.value == b"2"
    assert await shelf.get("a") is None


async def test_a_revision_is_never_given_out_twice_not_even_after_a_delete() -> None:
    shelf = MemoryShelf(10)
    await shelf.write(Change("a", b"1", ABSENT))
    await shelf.write(Change("a", None, 1))
    await shelf.write(Change("a", b"2", ABSENT))

    with pytest.raises(Overtaken):
        await shelf.write(Change("a", b"3", 1))


async def test_a_full_shelf_takes_nothing_new_but_changes_what_it_has() -> None:
    shelf = MemoryShelf(2)
    await shelf.write(Change("a", b"1", ABSENT), Change("b", b"1", ABSENT))

    with pytest.raises(Busy, match="give the server a store"):
        await shelf.write(Change("c", b"1", ABSENT))
    await shelf.write(Change("a", b"2", 1))

    assert await shelf.get("c") is None
    assert (await shelf.get("a") or Record(b"", 0)).value == b"2"


@pytest.mark.parametrize("name", ["ada", "", "x" * 10_000, "grüße 🦑", "\ud800", "a/b c\n"])
def test_a_key_is_short_printable_ascii_whatever_the_name(name: str) -> None:
    assert re.fullmatch(r"account/[A-Za-z0-9_-]{43}", key_of("account", name))


def test_other_names_have_other_keys_however_they_are_put_together() -> None:
    names = [("a", "bc"), ("ab", "c"), ("abc",), ("abc", ""), ("", "abc"), ("a", "b", "c")]

    assert len({key_of("link", *each) for each in names}) == len(names)
    assert key_of("link", "a") != key_of("account", "a")
