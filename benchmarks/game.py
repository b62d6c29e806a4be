"""The game that every server of the benchmarks runs: rooms that send messages back and broadcast at each tick."""

import msgspec

TEXT = "x" * 32
"""What players say, and what rooms broadcast."""


class Game(msgspec.Struct, frozen=True):
    """Its settings, as a server gets them on its command line."""

    seats: int = 50
    """Players in a room; a room is opened when the others are full."""
    spectators: int = 0
    hz: float = 0.0
    """Ticks a second; 0: rooms only answer."""
    broadcasts: int = 0
    """Messages that a room sends to everybody at each tick."""
    grace_s: float = 120.0
    """How long the seat of a player whose connection is lost is held, where a server can do that."""
    shares: bool = False
    """Players are bodies that all move at each tick, and everybody sees where they are."""
    durability: str = "memory"
    """"memory", "commit", or "naive": what one would write without a group commit."""
    folder: str = ""
    """Where rooms are saved that are not in memory: an SQLite file in this folder, …"""
    store: str = ""
    """… or this store."""
    traced_lines: int = -1
    """Count what the server's allocator hands out, and name so many lines of code that allocate most; -1: do not."""


class Memory(msgspec.Struct, frozen=True):
    """What a server answers when it has collected its garbage."""

    live_kib: float = 0.0
    """Handed out by the allocator; 0 if the server does not know."""
    lines: list[str] = []
    """Where that has grown most since it was asked first."""


class Delays(msgspec.Struct, frozen=True):
    """What a server answers of the time since it was asked last."""

    longest_ms: float
    """The longest time for which its event loop did not call a timer that was due."""
    p999_ms: float
    """999 of 1,000 times were shorter."""
    gc_longest_ms: float
    """The longest pause of the garbage collector."""


class Stall(msgspec.Struct, frozen=True):
    """One time for which a server's event loop was busy."""

    ms: float
    cpu_ms: float
    """So much of it did the loop's thread run: the rest of the time other programs did, or it waited for the system."""
    seen: dict[str, int]
    """What it was doing, and how often that was seen."""
