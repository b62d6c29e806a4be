"""The subjects of a store, and the keys in them.

    hf.<name>.key.<a>.<b>        the value of the key "a/b", or its first part
    hf.<name>.part.<a>.<b>.<n>   the n-th further part of a value that is larger than a message
    hf.<name>.holder             the server that uses the store
    hf.<name>.alive.<life>       where that server answers while it lives
    hf.<name>.inbox.…            where answers come in

The parts of a key are the parts of a subject; characters that a subject cannot have are written as "=" and two
hexadecimal digits.
"""

import re

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_ESCAPED = re.compile(r"=([0-9A-F]{2})")


class Subjects:
    """The subjects of one store."""

    def __init__(self, name: str) -> None:
        self.stream = f"hf-{name}"
        root = f"hf.{name}"
        self._key = f"{root}.key."
        self._part = f"{root}.part."
        self.holder = f"{root}.holder"
        self._alive = f"{root}.alive."
        self.inboxes = f"{root}.inbox"
        self.saved = [f"{self._key}>", f"{self._part}>", self.holder]
        """All that the stream keeps."""

    def of_key(self, key: str) -> str:
        return self._key + _escaped(key)

    def of_part(self, key: str, number: int) -> str:
        return f"{self._part}{_escaped(key)}.{number}"

    def of_life(self, life: str) -> str:
        """Where the server that uses the store answers while it lives."""
        return self._alive + life

    def at(self, path: str) -> list[str]:
        """What a list of this path has: no two of these have a subject in common."""
        if not path:
            return [f"{self._key}>", f"{self._part}>"]
        below = _escaped(path)
        return [self._key + below, f"{self._key}{below}.>", f"{self._part}{below}.>"]

    def key_in(self, subject: str) -> str | None:
        """The key of the subject of a value; None for a further part."""
        return _unescaped(subject.removeprefix(self._key)) if subject.startswith(self._key) else None

    def part_in(self, subject: str) -> tuple[str, int]:
        """The key and the number of the subject of a further part."""
        key, _, number = subject.removeprefix(self._part).rpartition(".")
        return _unescaped(key), int(number)


def _escaped(key: str) -> str:
    return ".".join(_UNSAFE.sub(lambda found: f"={ord(found[0]):02X}", part) for part in key.split("/"))


def _unescaped(subject: str) -> str:
    return "/".join(_ESCAPED.sub(lambda found: chr(int(found[1], 16)), part) for part in subject.split("."))
