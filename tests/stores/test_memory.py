"""What is particular to the store in memory."""

import pytest

from holdfast.stores import ABSENT, Full, MemoryData, MemoryStore, Write
from holdfast.testing import clock


def test_it_works_in_virtual_time_which_knows_no_threads() -> None:
    async def use() -> list[bytes | None]:
        store = MemoryStore()
        await store.open()
        revision = await store.put("k", b"1", ABSENT)
        found = await store.get("k")
        await store.delete("k", revision)
        gone = await store.get("k")
        await store.close()
        return [each.value if each is not None else None for each in (found, gone)]

    assert clock.run(use()) == [b"1", None]


async def test_a_full_store_takes_no_new_entry_but_replaces_and_deletes() -> None:
    store = MemoryStore(MemoryData(entries_max=2), is_open=True)
    a, b = await store.put("a", b"1", ABSENT), await store.put("b", b"1", ABSENT)

    with pytest.raises(Full, match="give the server a store"):
        await store.put("c", b"1", ABSENT)
    with pytest.raises(Full):
        await store.commit([[Write("a", b"2", a)], [Write("c", b"1", ABSENT)]])
    [_, conflict] = await store.commit([[Write("a", b"2", a)], [Write("b", b"2", ABSENT)]])
    await store.delete("b", b)
    await store.put("c", b"1", ABSENT)

    assert {entry.key: entry.value for entry in await store.list("")} == {"a": b"2", "c": b"1"}
    assert isinstance(conflict, Exception)
