"""The port of a store: a small key–value store that outlives a node, and whose revisions are fencing tokens.

Every write names the revision of its key that it replaces, and fails if the store has another. A node that was
suspended while another took over its rooms still has the old revisions: all its writes are refused (R8). Revisions
only grow, over all keys of a store, and are never reused, not even after a delete.

A batch is written whole or not at all. A commit writes many batches with one sync of the disk; a refused one does not
affect the others. Batches of one commit are independent: no two of them write the same key.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

KEY_BYTES_MAX = 200
"""Keys are printable ASCII without spaces: parts separated by "/", as in "room/KbVh3/state"."""

VALUE_BYTES_MAX = 64 * 1024 * 1024
"""A larger value is a bug of the caller."""

ABSENT = 0
"""The revision of a key that does not exist."""

# SQLite and NATS both count revisions in 64 bits.
_REVISION_MAX = 2**63 - 1


class Entry(NamedTuple):
    """A key in the store."""

    key: str
    value: bytes
    revision: int


class Write(NamedTuple):
    """Put a value, or delete the key (None), if the key still has this revision."""

    key: str
    value: bytes | None
    revision: int


Batch = Sequence[Write]


class StoreError(Exception):
    """The errors of a store."""


class RevisionConflict(StoreError):
    """Another writer has changed the key: discard whatever was based on the known revision."""

    def __init__(self, key: str, expected: int, found: int) -> None:
        super().__init__(f"{key} is at revision {found}, not {expected}")
        self.key = key
        self.expected = expected
        self.found = found


class Unavailable(StoreError):
    """Nothing was written, and a retry may help: the disk is full, the file locked, the server away."""


class Full(Unavailable):
    """The store is full: existing entries can be replaced or deleted, but none added."""


class Unknown(StoreError):
    """It is unknown whether it was written, as after a time-out: read it back first."""


class Broken(StoreError):
    """Earlier writes may be lost: a failed fsync, a damaged file. This process must not continue."""


class Held(StoreError):
    """Another server uses the store: stop that one, or take over its rooms on purpose."""

    def __init__(self, message: str, holder: str) -> None:
        super().__init__(message)
        self.holder = holder


Claim = Literal["shared", "sole", "takeover", "member"]
"""How a store is opened. shared: together with others, as tools do. sole: as its only server, or `Held`.
takeover: as its only server instead of another, whose writes are refused by their revisions from then on.
member: as one of the nodes of a cluster, or `Held` if a server uses it alone."""

Outcome = list[int] | RevisionConflict
"""The outcome of a batch: the new revisions of its writes (`ABSENT` for a delete), or why it was refused."""


class Store(Protocol):
    """The port. Every method may raise `Unavailable`, `Unknown` or `Broken`; `ValueError` is the caller's mistake."""

    async def open(self, claim: Claim = "shared") -> None:
        """Open it; an older layout is migrated, one that is newer than this version is refused."""

    async def reclaim(self) -> bool:
        """Whether this is the only server on the store; a free lock is taken again. False if the store cannot tell."""

    async def close(self) -> None:
        """Finish pending calls, then release everything. Idempotent."""

    async def get(self, key: str) -> Entry | None:
        """The key's entry, or None: as of the last returned commit, or a later one."""

    async def list(self, path: str) -> list[Entry]:
        """This key and all below it ("room/a" and "room/a/…", not "room/ab"), sorted, as of one moment.

        The empty path lists every key.
        """

    async def put(self, key: str, value: bytes, revision: int) -> int:
        """Write one value if the key is at this revision (`ABSENT`: it does not exist), otherwise `RevisionConflict`.

        Returns the new revision.
        """

    async def delete(self, key: str, revision: int) -> None:
        """Delete the key if it is at this revision, or `RevisionConflict`."""

    async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        """Write all batches durably, with one sync of the disk; returns the outcome of each, in order.

        If this raises, `Unavailable` means that none of them was written, `Unknown` that each may be written or not.
        """

    async def failure(self) -> Broken:
        """Wait until the store is broken: a call has raised `Broken`, or damage was noticed without one."""


# Shared by the adapters


def check_key(key: str) -> None:
    """Printable ASCII without spaces, not too long, and no part of it empty."""
    if len(key) > KEY_BYTES_MAX:
        raise ValueError(f"a key may have at most {KEY_BYTES_MAX} bytes, not {len(key)}: {key[:20]}…")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(f"a key must be printable ASCII without spaces, not {key!r}")
    if "" in key.split("/"):
        raise ValueError(f"a key must not be empty, nor one of its parts: {key!r}")


def check_path(path: str) -> None:
    """A key, or the empty path."""
    if path:
        check_key(path)


def is_at(path: str, key: str) -> bool:
    """Whether `list(path)` has this key."""
    return not path or key == path or key.startswith(f"{path}/")


def check_batches(batches: Sequence[Batch]) -> None:
    """Check that keys, values and revisions are valid, and that no key is written twice in one commit."""
    seen: set[str] = set()
    for batch in batches:
        for key, value, revision in batch:
            check_key(key)
            if key in seen:
                raise ValueError(f"{key} is written twice in one commit")
            seen.add(key)
            if value is not None and len(value) > VALUE_BYTES_MAX:
                raise ValueError(f"{key} has {len(value)} bytes, at most {VALUE_BYTES_MAX} are allowed")
            if not 0 <= revision <= _REVISION_MAX:
                raise ValueError(f"{revision} is not a valid revision of {key}")


async def commit_one(store: Store, batch: Batch) -> list[int]:
    """Commit a single batch and return the new revisions; a `RevisionConflict` is raised."""
    [outcome] = await store.commit([batch])
    if isinstance(outcome, RevisionConflict):
        raise outcome
    return outcome
