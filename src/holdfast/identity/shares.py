"""Shares: how much of what is scarce one household may take at a time, so that others get theirs."""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.core.addresses import household_of
from holdfast.identity.port import Busy

# What it waits for is a matter of moments.
_RETRY_AFTER_S = 1.0


class Shares:
    """So many at a time for each household; of those that have none, nothing is kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[str, int] = {}

    @contextmanager
    def one(self, address: str) -> Iterator[None]:
        """One for whoever calls from there, until it is done; `Busy` if they have all of theirs."""
        household = household_of(address)
        taken = self._taken.get(household, 0)
        if taken >= self._most:
            raise Busy("too many from there want the same at the moment", _RETRY_AFTER_S)
        self._taken[household] = taken + 1
        try:
            yield
        finally:
            self._taken[household] -= 1
            if not self._taken[household]:
                del self._taken[household]
