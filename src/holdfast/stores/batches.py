"""What adapters do alike: refuse the caller's mistakes before anything is touched, and commit a single write."""

from collections.abc import Sequence

from holdfast.stores.port import KEY_BYTES_MAX, VALUE_BYTES_MAX, Batch, Conflict, Outcome

# SQLite and NATS both count revisions in 64 bits.
_REVISION_MAX = 2**63 - 1


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


def revision_of_one(outcomes: Sequence[Outcome]) -> int:
    """The revision that came of a commit of one write; its conflict is raised."""
    [outcome] = outcomes
    if isinstance(outcome, Conflict):
        raise outcome
    return outcome[0]
