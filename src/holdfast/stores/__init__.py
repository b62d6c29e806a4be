"""Stores keep what outlives a node: the port, and its adapters for memory, SQLite and NATS."""

from holdfast.stores.memory import MemoryData, MemoryStore
from holdfast.stores.nats import NatsStore
from holdfast.stores.opening import open_store
from holdfast.stores.port import (
    ABSENT,
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    Batch,
    Broken,
    Claim,
    Entry,
    Full,
    Held,
    Outcome,
    RevisionConflict,
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
    "Claim",
    "Entry",
    "Full",
    "Held",
    "MemoryData",
    "MemoryStore",
    "NatsStore",
    "Outcome",
    "RevisionConflict",
    "SqliteStore",
    "Store",
    "StoreError",
    "Unavailable",
    "Unknown",
    "Write",
    "open_store",
]
