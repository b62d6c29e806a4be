"""Hashes that cost nothing and hide nothing, and count what is asked of them; and a clock that a test can set."""

import inspect

from holdfast.identity import Approach, Authenticator, Identity
from holdfast.stores import MemoryData, MemoryStore

HERE = Approach("203.0.113.7")


def memory(entries_max: int = 100) -> MemoryStore:
    """A store for records, open."""
    return MemoryStore(MemoryData(entries_max=entries_max), is_open=True)


async def enter(door: Authenticator, credential: str, approach: Approach = HERE) -> Identity:
    """Who this is, whether that is known at once or not."""
    answer = door.authenticate(credential, approach)
    return await answer if inspect.isawaitable(answer) else answer


class PlainHashing:
    """What `Password` needs, without the work."""

    def __init__(self, version: int = 1) -> None:
        self.version = version
        self.hashed = 0
        self.verified: list[str] = []
        """What passwords were checked against, in order; empty where the name was nobody's."""

    async def hash(self, password: bytes) -> str:
        self.hashed += 1
        return f"{self.version}:{password.hex()}"

    async def verify(self, known: str, password: bytes) -> bool:
        self.verified.append(known)
        return bool(known) and known.partition(":")[2] == password.hex()

    def is_outdated(self, known: str) -> bool:
        return not known.startswith(f"{self.version}:")

    def close(self) -> None:
        pass


class Clock:
    """Time stands still until a test moves it."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
