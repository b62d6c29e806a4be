"""What is particular to the store in memory."""

from holdfast.stores import ABSENT, MemoryStore
from holdfast.testing import clock


def test_it_works_in_virtual_time_which_knows_no_threads() -> None:
    async def use() -> list[bytes | None]:
        store = MemoryStore()
        await store.open()
        watch = store.watch("")
        revision = await store.put("k", b"1", ABSENT)
        seen = [(await anext(watch)).value]
        await store.delete("k", revision)
        seen.append((await anext(watch)).value)
        await store.close()
        return seen

    assert clock.run(use()) == [b"1", None]
