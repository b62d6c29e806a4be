"""A `Password` with a context of the test's own: hashes that cost nothing, clocks that a test can set."""

from random import Random
from typing import Any

import pytest

from holdfast import Auth, Limits
from holdfast.identity import Approach, AuthContext, Identity, NotAuthentic, Password
from holdfast.stores import MemoryStore
from tests.identity.plain import HERE, Clock, PlainHashing, memory

SECRET = "correct horse"


class World:
    """A `Password` with a context of the test's own."""

    def __init__(
        self,
        *,
        register: bool = False,
        store: MemoryStore | None = None,
        hashing: PlainHashing | None = None,
        **limits: Any,
    ) -> None:
        self.hashing = hashing or PlainHashing()
        self.now = Clock()
        self.wall_clock = Clock()
        self.store = store or memory(1000)
        self.limits = Limits(**limits)
        self.door = Password(register=register, hashing=self.hashing)

    async def prepared(self) -> "World":
        await self.door.prepare(self.context)
        return self

    @property
    def context(self) -> AuthContext:
        return AuthContext(
            random=Random(1), now=self.now, wall_clock=self.wall_clock, limits=self.limits, store=self.store
        )

    async def enter(self, name: str, password: str, approach: Approach = HERE) -> Identity:
        return await self.door.authenticate(Auth.password(name, password).credential, approach)

    async def refused(self, name: str, password: str, approach: Approach = HERE) -> tuple[str, int]:
        """What somebody hears who is not let in, and how many passwords were checked for it."""
        before = len(self.hashing.verified)
        with pytest.raises(NotAuthentic) as refusal:
            await self.enter(name, password, approach)
        return str(refusal.value), len(self.hashing.verified) - before


async def world(**options: Any) -> World:
    return await World(**options).prepared()
