"""Who is connected to the API: so many from one address, so many in all, and whoever waits longest makes room.

A full house must not keep a probe or an operator out: a connection that nobody uses gives way to the next. When there
are too many in all, it is one of the address that has most, so that one or two addresses cannot crowd out the others.
"""

from typing import Protocol

from holdfast.core.addresses import address_group


class Member(Protocol):
    """One connection."""

    @property
    def is_idle(self) -> bool:
        """Whether it waits for its client: between requests, in the middle of one, or to read its answer."""

    def cut(self) -> None:
        """End it at once."""


class Crowd:
    """Counts connections by household: an address, or an IPv6 network of 64 bits."""

    def __init__(self, *, per_address_max: int, total_max: int) -> None:
        self._per_address_max = per_address_max
        self._total_max = total_max
        self._total = 0
        # Of each household, whoever was heard last stands last. There are no more of them than connections.
        self._households: dict[str, dict[Member, None]] = {}

    def admit(self, member: Member, host: str) -> bool:
        """Somebody connected: whether they may stay. Another may have to go for that."""
        name = address_group(host)
        household = self._households.get(name, {})
        if len(household) >= self._per_address_max and not self._make_room(name):
            return False
        if self._total >= self._total_max:
            largest = max(self._households, key=lambda each: len(self._households[each]))
            # To be as large as the largest is reason enough to go oneself.
            if len(household) >= len(self._households[largest]):
                largest = name
            if not self._make_room(largest):
                return False
        self._households.setdefault(name, {})[member] = None
        self._total += 1
        return True

    def _make_room(self, name: str) -> bool:
        idle = next((each for each in self._households.get(name, {}) if each.is_idle), None)
        if idle is None:
            return False
        self.went(idle, name)
        idle.cut()
        return True

    def heard(self, member: Member, host: str) -> None:
        """A client has said something."""
        household = self._households.get(address_group(host), {})
        if member in household:
            del household[member]
            household[member] = None

    def went(self, member: Member, host: str) -> None:
        """A connection is gone, or is about to be."""
        name = address_group(host)
        household = self._households.get(name, {})
        if member in household:
            del household[member]
            self._total -= 1
            if not household:
                del self._households[name]
