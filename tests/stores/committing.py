"""A program that commits without end, and says on its output what was acknowledged.

python -m tests.stores.committing <file> <seed>
"""

import asyncio
import sys
from pathlib import Path
from random import Random

from holdfast.stores import ABSENT, SqliteStore, Write

RECORDS_KEPT = 50


def record(number: int) -> bytes:
    """What the record of this number holds, in any life of the program: up to three pages."""
    return Random(number).randbytes(Random(number).randrange(12_000))


async def main(file: Path, seed: int) -> None:
    store = SqliteStore(file)
    await store.open()
    random = Random(seed)
    revisions = {entry.key: entry.revision for entry in await store.list("")}
    last = await store.get("last")
    number = int(last.value) if last else 0
    while True:
        number += 1
        # A record is made, the last number changed and an old record deleted: together or not at all. Another batch of
        # the same commit keeps the store busy with rows of its own.
        batch = [
            Write(f"record/{number}", record(number), ABSENT),
            Write("last", b"%d" % number, revisions.get("last", ABSENT)),
        ]
        if old := revisions.get(f"record/{number - RECORDS_KEPT}"):
            batch.append(Write(f"record/{number - RECORDS_KEPT}", None, old))
        key = f"noise/{random.randrange(100)}"
        noise = [Write(key, random.randbytes(random.randrange(3000)), revisions.get(key, ABSENT))]
        for writes, outcome in zip([batch, noise], await store.commit([batch, noise]), strict=True):
            assert isinstance(outcome, list), outcome
            revisions |= {write.key: revision for write, revision in zip(writes, outcome, strict=True)}
        sys.stdout.write(f"{number} {revisions['last']}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
