"""Stores: what outlives a node. The port stands beside its adapters."""

from holdfast.stores.memory import MemoryData, MemoryStore
from holdfast.stores.opening import open_store
from holdfast.stores.port import (
    ABSENT,
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    Batch,
    Broken,
    Change,
    Claim,
    Conflict,
    Entry,
    Held,
    Outcome,
    Store,
    StoreError,
    Unavailable,
    Unknown,
    Write,
)
from holdfast.stores.sqlite import SqliteStore

__all__ = [
    "ABSENT",
    "KEY_BYTES_MAX",
    "VALUE_BYTES_MAX",
    "Batch",
    "Broken",
    "Change",
    "Claim",
    "Conflict",
    "Entry",
    "Held",
    "MemoryData",
    "MemoryStore",
    "Outcome",
    "SqliteStore",
    "Store",
    "StoreError",
    "Unavailable",
    "Unknown",
    "Write",
    "open_store",
]
