"""Watchers of an embedded store: each is shown what there is, then what changes, and holds little if it reads slowly.

A watcher keeps one change for each key, and none for a key that came and went unseen: what waits is bounded by the
keys that exist and those its reader believes to exist, however long it does not read.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from holdfast.stores.port import ABSENT, Change, Entry


class _Watcher:
    """What one reader has not read yet."""

    def __init__(self, prefix: str) -> None:
        self.woken = asyncio.Event()
        self._prefix = prefix
        # By key, in the order of revisions: a key that changes again moves to the end.
        self._waiting: dict[str, Change] = {}
        # The keys that the reader was shown, and not their end; unknown until it was shown what there is.
        self._believed: set[str] | None = None
        self._newest_looked_at = ABSENT

    def begin(self, entries: Iterable[Entry]) -> None:
        """Put what there is before what has changed since; of both we may have heard already, or will later."""
        changes = self._waiting.values()
        self._waiting = {entry.key: Change(*entry) for entry in sorted(entries, key=lambda entry: entry.revision)}
        self._believed = set()
        self._newest_looked_at = max((change.revision for change in self._waiting.values()), default=ABSENT)
        for change in changes:
            self.add(change)

    def add(self, change: Change) -> None:
        if change.revision <= self._newest_looked_at or not change.key.startswith(self._prefix):
            return
        self._waiting.pop(change.key, None)
        if change.value is not None or self._believed is None or change.key in self._believed:
            self._waiting[change.key] = change
            self.woken.set()

    def take(self) -> Change | None:
        if not self._waiting or self._believed is None:
            return None
        change = self._waiting.pop(next(iter(self._waiting)))
        if change.value is None:
            self._believed.discard(change.key)
        else:
            self._believed.add(change.key)
        return change


class Watchers:
    """Everybody who watches one open store."""

    def __init__(self) -> None:
        self._watchers: list[_Watcher] = []
        self._is_closed = False

    @property
    def is_empty(self) -> bool:
        """Nobody watches."""
        return not self._watchers

    def tell(self, change: Change) -> None:
        """Something was written; to be called in the order of revisions."""
        for watcher in self._watchers:
            watcher.add(change)

    async def watch(
        self, prefix: str, look: Callable[[str], Awaitable[Iterable[Entry]]]
    ) -> AsyncGenerator[Change, None]:
        """What `look` finds, then every change, until the watchers or the generator are closed."""
        watcher = _Watcher(prefix)
        self._watchers.append(watcher)  # before looking: nothing that is written meanwhile may be missed
        try:
            watcher.begin(await look(prefix))
            while True:
                while change := watcher.take():
                    yield change
                if self._is_closed:
                    return
                watcher.woken.clear()
                await watcher.woken.wait()
        finally:
            self._watchers.remove(watcher)

    def close(self) -> None:
        """Nothing will change any more: readers get what waits for them, and then the end."""
        self._is_closed = True
        for watcher in self._watchers:
            watcher.woken.set()
