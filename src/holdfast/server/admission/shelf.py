"""The store as authenticators see it: the part of `holdfast.identity.shelf` that a server with a store lends them."""

from collections.abc import Callable

from holdfast.identity.port import Busy
from holdfast.identity.shelf import Change, Overtaken, Record
from holdfast.stores.port import Broken, RevisionConflict, Store, StoreError, Write

# What can go wrong with a store is over in a moment, or takes long.
_RETRY_AFTER_S = 2.0


class StoreShelf:
    """Keeps records in the server's store. `fatal` is told when that cannot be trusted any more."""

    def __init__(self, store: Store, fatal: Callable[[Exception], None]) -> None:
        self._store = store
        self._fatal = fatal

    async def get(self, key: str) -> Record | None:
        """One record, or None."""
        try:
            entry = await self._store.get(key)
        except StoreError as error:
            raise self._busy(error) from None
        return Record(entry.value, entry.revision) if entry is not None else None

    async def write(self, *changes: Change) -> None:
        """Do all of this, or nothing. If the store does not know whether it did, who asked is to try again."""
        try:
            (outcome,) = await self._store.commit([[Write(*change) for change in changes]])
        except StoreError as error:
            raise self._busy(error) from None
        if isinstance(outcome, RevisionConflict):
            raise Overtaken

    def _busy(self, error: StoreError) -> Busy:
        if isinstance(error, Broken):
            self._fatal(error)
        return Busy("the server cannot look it up at the moment", _RETRY_AFTER_S)
