"""The cashier: whom rooms ask to do something outside. It knows a key that it has seen, as a good receiver does."""

import asyncio
from collections import Counter
from random import Random

from holdfast import Effect
from tests.simulation.audit import Auditor
from tests.simulation.checker import Checker
from tests.simulation.game import NEVER

Wish = tuple[str, str, int]
"""A room and an operation in it."""


class Cashier:
    """Pays, sometimes only at the second attempt."""

    def __init__(self, checker: Checker, auditor: Auditor, random: Random) -> None:
        self._checker = checker
        self._auditor = auditor
        self._random = random
        self._paid: dict[str, Wish] = {}
        self._keys: dict[Wish, str] = {}
        self.attempts: Counter[Wish] = Counter()

    async def pay(self, effect: Effect) -> None:
        """Do it, once for each key."""
        room_id, process, n = effect.payload
        wish: Wish = (room_id, process, n)
        self._checker.note("pay", effect.key, *wish)
        self._checker.expect("P9", process != NEVER, f"{wish} was to be paid, and its turn has failed")
        # Rooms in memory have no record that would say so.
        is_saved = room_id not in self._auditor.books or wish in self._auditor.wanted
        self._checker.expect("EFFECT", is_saved, f"{wish} was to be paid before it was saved")
        self._begin(effect.key, wish)
        await asyncio.sleep(self._random.choice([0.0, 0.05, 0.5]))
        if self._random.random() < 0.2:
            self._checker.count("payments refused")
            raise ConnectionError("the bank does not answer")
        self._checker.count("payments")
        self._paid[effect.key] = wish

    def _begin(self, key: str, wish: Wish) -> None:
        self.attempts[wish] += 1
        known = self._keys.setdefault(wish, key)
        self._checker.expect("EFFECT", known == key, f"{wish} was paid with two keys: {known} and {key}")
        same = self._paid.get(key, wish)
        self._checker.expect("EFFECT", same == wish, f"{key} stands for {same} and for {wish}")

    def rolled_back(self) -> None:
        """The store forgot what was wanted since: if it is wanted again, that is another wish."""
        self._keys = {wish: key for wish, key in self._keys.items() if wish in self._auditor.wanted}

    def check_all_paid(self) -> None:
        """When everything is quiet, whatever was wanted is done."""
        missing = self._auditor.wanted - set(self._paid.values())
        self._checker.expect("EFFECT", not missing, f"never paid: {sorted(missing)}")
