"""`Parts`: a large field of a room's state, saved entry by entry."""

from collections.abc import Iterator, MutableMapping
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Parts(MutableMapping[str, V], Generic[V]):
    """A mapping whose entries are saved one by one, and only those that were accessed since the last commit.

    Use it for data that is too large to be saved whole with every turn: the chunks of a world, the inventories of a
    guild. Fetch an entry again in every turn in which you change it: changes through a reference from an earlier turn
    are not noticed. `peek` is for reading only, and so are `in`, `len` and the names.
    """

    __slots__ = ("_entries", "_touched")

    def __init__(self, entries: dict[str, V] | None = None) -> None:
        self._entries: dict[str, V] = {}
        # A dict, unlike a set, has the same order of keys every time.
        self._touched: dict[str, None] = {}
        self.update(entries or {})

    def __getitem__(self, key: str) -> V:
        value = self._entries[key]
        self._touched[key] = None
        return value

    def __setitem__(self, key: str, value: V) -> None:
        if not isinstance(key, str):
            raise TypeError(f"the name of a part must be a str; got {key!r}")
        if value is None:
            raise TypeError(f"part {key!r} cannot be None: delete it instead")
        self._entries[key] = value
        self._touched[key] = None

    def __delitem__(self, key: str) -> None:
        del self._entries[key]
        self._touched[key] = None

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def peek(self, key: str) -> V | None:
        """An entry, to read and not to change; None if there is none."""
        return self._entries.get(key)

    def __eq__(self, other: object) -> bool:
        return self._entries == (other._entries if isinstance(other, Parts) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Parts({self._entries!r})"

    # For saving

    def touched(self) -> dict[str, V | None]:
        """Entries that may have changed since they were last `taken`: None for deleted ones."""
        return {key: self._entries.get(key) for key in self._touched}

    def taken(self) -> None:
        """The touched entries go into the next commit."""
        self._touched.clear()

    def fill(self, entries: dict[str, V]) -> None:
        """Restore the saved entries."""
        self._entries = entries
        self._touched.clear()


def parts_of(state: Any) -> dict[str, "Parts[Any]"]:
    """The fields of a state that are `Parts`."""
    fields = getattr(type(state), "__struct_fields__", ())
    return {name: value for name in fields if isinstance(value := getattr(state, name), Parts)}
