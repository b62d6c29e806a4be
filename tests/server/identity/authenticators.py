"""Authenticators for the tests of this folder: quick ones, and one that waits for the test."""

import asyncio
from typing import Any

from holdfast.identity import Approach, Guest, Hook, Identity, NotAuthentic, Password
from tests.identity.plain import PlainHashing

SECRET = "correct horse"


def doors(*more: Any, register: bool = True) -> list[Any]:
    """Guests, passwords that cost nothing, and more."""
    return [Guest(), Password(register=register, hashing=PlainHashing()), *more]


class SlowLink:
    """An authenticator that links guests when the test lets it: the credential is the roles."""

    scheme = "slow"

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.links = 0

    def authenticate(self, credential: str, approach: Approach) -> Identity:
        raise NotAuthentic("only for linking")

    async def link(self, credential: str, approach: Approach, player_id: str) -> Identity:
        self.links += 1
        self.asked.set()
        await self.may_go_on.wait()
        return Identity(player_id, frozenset(credential.split()))


def hook(error: Exception) -> Hook:
    """One that always raises this."""

    async def approve(credential: str, approach: Approach) -> str:
        raise error

    return Hook(approve)
