"""A saved session in memory: for tests of programs that are killed and started again."""


class MemoryStorage:
    """A `SessionStorage` of a process: `connect(url, saved=storage)`, and once more for the process after it."""

    def __init__(self, written: bytes = b"") -> None:
        self.written = written
        """What a process that starts now would read."""

    def read(self) -> bytes:
        """Everything."""
        return self.written

    def append(self, record: bytes) -> None:
        """Add a record."""
        self.written += record

    def replace(self, state: bytes) -> None:
        """Begin anew with this."""
        self.written = state

    def remove(self) -> None:
        """The session is over."""
        self.written = b""

    def close(self) -> None:
        """Nothing to let go of."""
