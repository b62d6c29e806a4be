"""Hashes for tests: quick, without the threads that virtual time does not know, and good for nothing else."""

from hashlib import sha256


class QuickHashing:
    """Takes the place of argon2id in a `MemoryServer`."""

    async def hash(self, password: bytes) -> str:
        """A hash for a record."""
        return sha256(password).hexdigest()

    async def verify(self, known: str, password: bytes) -> bool:
        """Whether this is the password."""
        return known == sha256(password).hexdigest()

    def is_outdated(self, known: str) -> bool:
        """Never."""
        return not known
