"""The port of a store: a small key–value store that outlives a node, and whose revisions are fencing tokens.

Every write says which revision of its key it takes the place of, and loses if that is not the one the store has. A
node that slept while another took over its rooms still holds the old revisions: whatever it writes is refused (R8).
Revisions only grow, over all keys of a store, and none is ever given out twice, not even after a delete.

A batch is written whole or not at all. A commit writes many batches with one trip to the disk; one that is refused
does not keep the others from being written. Batches of one commit are independent: no two of them write the same key.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

KEY_BYTES_MAX = 200
"""Keys are printable ASCII without spaces: parts that a "/" keeps apart, as in "room/KbVh3/state"."""

VALUE_BYTES_MAX = 64 * 1024 * 1024
"""A larger value is a bug of the caller."""

ABSENT = 0
"""The revision of a key that does not exist."""

# SQLite and NATS both count revisions in 64 bits.
_REVISION_MAX = 2**63 - 1


class Entry(NamedTuple):
    """A key as the store has it."""

    key: str
    value: bytes
    revision: int


class Write(NamedTuple):
    """Put a value, or delete the key (None), if the key's revision is this one still."""

    key: str
    value: bytes | None
    revision: int


Batch = Sequence[Write]


class StoreError(Exception):
    """The errors of a store."""


class RevisionConflict(StoreError):
    """Another writer has changed the key: give up whatever was based on the revision known here."""

    def __init__(self, key: str, expected: int, found: int) -> None:
        super().__init__(f"{key} is at revision {found}, not {expected}")
        self.key = key
        self.expected = expected
        self.found = found


class Unavailable(StoreError):
    """Nothing was written, and trying again later may help: the disk is full, the file locked, the server away."""


class Full(Unavailable):
    """The store holds as many entries as it may: existing ones can be replaced or deleted, but none added."""


class Unknown(StoreError):
    """Whether it was written is not known, as after a time-out: read back before anything else."""


class Broken(StoreError):
    """What was written before may be lost: a failed fsync, a damaged file. This process must not go on with it."""


class Held(StoreError):
    """Another server uses the store: stop that one, or take its rooms over on purpose."""

    def __init__(self, message: str, holder: str) -> None:
        super().__init__(message)
        self.holder = holder


Claim = Literal["shared", "sole", "takeover"]
"""How a store is opened. shared: together with others, as tools do. sole: as its one server, or `Held`.
takeover: as its one server in place of another, whose writes are refused by their revisions from then on."""

Outcome = list[int] | RevisionConflict
"""What became of a batch: the new revisions of its writes (`ABSENT` for a delete), or why it was refused."""


class Store(Protocol):
    """The port. Every method may raise `Unavailable`, `Unknown` or `Broken`; `ValueError` is the caller's mistake."""

    async def open(self, claim: Claim = "shared") -> None:
        """Open it; an older layout is migrated, one that is newer than this version is refused."""

    async def reclaim(self) -> bool:
        """Whether this is the one server on the store, taking a free lock again; False if the store cannot tell."""

    async def close(self) -> None:
        """Finish pending calls, then release everything. Closing twice is fine."""

    async def get(self, key: str) -> Entry | None:
        """The key's value, or None: what the last commit that returned has made of it, or a later one."""

    async def list(self, prefix: str) -> list[Entry]:
        """Every key that begins with the prefix, sorted, as of one moment."""

    async def put(self, key: str, value: bytes, revision: int) -> int:
        """Write one value if the key is at this revision (`ABSENT`: it does not exist), else `RevisionConflict`.

        Returns the new revision.
        """

    async def delete(self, key: str, revision: int) -> None:
        """Delete the key if it is at this revision, or `RevisionConflict`."""

    async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        """Write all batches durably, with one trip to the disk; returns the outcome of each, in order.

        If this raises, `Unavailable` means that none of them was written, `Unknown` that all or none of each may be.
        """

    async def failure(self) -> Broken:
        """Wait until the store is broken: a call has raised `Broken`, or damage was noticed without one."""


# Shared by the adapters


def check_key(key: str) -> None:
    """Printable ASCII without spaces, and not too long."""
    if not key:
        raise ValueError("a key must not be empty")
    check_prefix(key)


def check_prefix(prefix: str) -> None:
    """What a key may begin with; nothing at all is the prefix of every key."""
    if len(prefix) > KEY_BYTES_MAX:
        raise ValueError(f"a key has {KEY_BYTES_MAX} bytes at most, not {len(prefix)}: {prefix[:20]}…")
    if not prefix.isascii() or not prefix.isprintable() or " " in prefix:
        raise ValueError(f"a key is printable ASCII without spaces, not {prefix!r}")


def check_batches(batches: Sequence[Batch]) -> None:
    """Keys, values and revisions can be stored, and no key is written twice in one commit."""
    seen: set[str] = set()
    for batch in batches:
        for key, value, revision in batch:
            check_key(key)
            if key in seen:
                raise ValueError(f"{key} is written twice in one commit")
            seen.add(key)
            if value is not None and len(value) > VALUE_BYTES_MAX:
                raise ValueError(f"{key} has {len(value)} bytes, {VALUE_BYTES_MAX} is the most a store takes")
            if not 0 <= revision <= _REVISION_MAX:
                raise ValueError(f"{revision} cannot be a revision of {key}")


async def commit_one(store: Store, batch: Batch) -> list[int]:
    """Commit a single batch and return the new revisions; a `RevisionConflict` is raised."""
    [outcome] = await store.commit([batch])
    if isinstance(outcome, RevisionConflict):
        raise outcome
    return outcome
