"""A program that writes the same few pages again and again, many times what its small disk can hold.

python -m tests.stores.long_log <folder> log|"log and ballast"

The store never has more than a few pages, so there is no reason but its log to run out of space. With ballast, the disk
is full when it begins to write, and has little space later: then everything has to go on without a new start.
"""

import asyncio
import shutil
import sys
from pathlib import Path

from holdfast.stores import ABSENT, SqliteStore, Unavailable

VALUE_BYTES = 20_000
WRITES = 300
SPACE_BYTES = 160_000


async def main(folder: Path, *, has_ballast: bool) -> None:
    store = SqliteStore(folder / "store.db", look_s=0.05)
    await store.open()
    revision = await store.put("k", bytes(VALUE_BYTES), ABSENT)
    if has_ballast:
        revision = await _fill(store, folder, revision)
    for number in range(WRITES):
        revision = await store.put("k", number.to_bytes(4) * (VALUE_BYTES // 4), revision)
    await store.close()

    again = SqliteStore(folder / "store.db")
    await again.open()
    [entry] = await again.list("")
    assert (entry.revision, entry.value[:4]) == (revision, (WRITES - 1).to_bytes(4))
    await again.close()


async def _fill(store: SqliteStore, folder: Path, revision: int) -> int:
    """Let the log have the last of the space; then a little is given back."""
    ballast, spare = folder / "ballast", folder / "spare"
    spare.write_bytes(bytes(SPACE_BYTES))
    ballast.write_bytes(bytes(shutil.disk_usage(folder).free - SPACE_BYTES))
    try:
        while True:
            revision = await store.put("k", bytes(VALUE_BYTES), revision)
            # Whatever the store puts away, something else takes.
            with ballast.open("ab") as file:
                file.write(bytes(shutil.disk_usage(folder).free))
    except Unavailable:
        spare.unlink()
    return revision


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), has_ballast="ballast" in sys.argv[2]))
    sys.stdout.write("nothing lost, nothing duplicated\n")
