"""A program that writes until there is no space left, goes on when there is some again, and compares at the end.

python -m tests.stores.no_space <folder> disk|quota
"""

import asyncio
import resource
import sys
from pathlib import Path
from typing import Protocol

from holdfast.stores import ABSENT, SqliteStore, Unavailable, Write

BALLAST_BYTES = 600_000
QUOTA_BYTES = 300_000
REFUSALS = 5
MORE = 20


class Space(Protocol):
    def take(self) -> None: ...

    def give_back(self) -> None: ...


class Disk:
    """A small disk with something large on it, which can be deleted."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def take(self) -> None:
        self._ballast.write_bytes(bytes(BALLAST_BYTES))

    def give_back(self) -> None:
        self._ballast.unlink()


class Quota:
    """No file may become larger than this: another error than that of a full disk, as with a used-up quota."""

    def take(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (QUOTA_BYTES, resource.RLIM_INFINITY))

    def give_back(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class Writer:
    """Writes one more record and their number, in one batch; remembers what was acknowledged."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.acknowledged: dict[str, int] = {}

    async def write(self) -> None:
        number = b"%d" % len(self.acknowledged)
        batch = [
            Write(f"record/{len(self.acknowledged)}", number * 3000, ABSENT),
            Write("count", number, self.acknowledged.get("count", ABSENT)),
        ]
        [outcome] = await self.store.commit([batch])
        assert isinstance(outcome, list), outcome
        self.acknowledged |= {write.key: revision for write, revision in zip(batch, outcome, strict=True)}

    async def compare(self, store: SqliteStore) -> None:
        assert {entry.key: entry.revision for entry in await store.list("")} == self.acknowledged


async def main(folder: Path, space: Space) -> None:
    store = SqliteStore(folder / "store.db")
    await store.open()
    writer = Writer(store)
    await writer.write()

    space.take()
    refusals = 0
    while refusals < REFUSALS:
        try:
            await writer.write()
        except Unavailable:
            refusals += 1
            await writer.compare(store)

    space.give_back()
    for _ in range(MORE):
        await writer.write()
    await store.close()

    again = SqliteStore(folder / "store.db")
    await again.open()
    await writer.compare(again)
    await again.close()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    asyncio.run(main(place, Disk(place) if sys.argv[2] == "disk" else Quota()))
    sys.stdout.write("nothing lost, nothing duplicated\n")
