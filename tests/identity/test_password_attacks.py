"""What is tried against accounts: to be faster than a change, to keep an owner out, to fill the queue for everybody."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast import Auth, Limits
from holdfast.identity import Approach, Busy, NotAuthentic
from tests.identity.password_world import SECRET, World, world
from tests.identity.plain import HERE, PlainHashing

NEW = "another horse"


class Meanwhile(PlainHashing):
    """Something happens, once, while a password is looked at or hashed anew."""

    def __init__(self, moment: str, happens: Callable[[], Awaitable[object]]) -> None:
        super().__init__(version=2 if moment == "hash" else 1)
        self._moment = moment
        self._happens: Callable[[], Awaitable[object]] | None = happens

    async def verify(self, known: str, password: bytes) -> bool:
        is_right = await super().verify(known, password)
        await self._now("verify")
        return is_right

    async def hash(self, password: bytes) -> str:
        await self._now("hash")
        return await super().hash(password)

    async def _now(self, moment: str) -> None:
        happens = self._happens
        if moment == self._moment and happens is not None:
            self._happens = None
            await happens()


@pytest.mark.parametrize("moment", ["verify", "hash"])
@pytest.mark.parametrize("change", ["another password", "deleted", "deleted and made again"])
async def test_nobody_is_let_in_with_a_password_that_was_changed_meanwhile(moment: str, change: str) -> None:
    """Also not into an account that nobody has used: it has no player who could be signed out."""
    here = await world()
    operator = here.door
    await operator.create_account("ada", SECRET)

    async def happens() -> None:
        if change == "another password":
            await operator.set_password("ada", NEW)
            return
        await operator.delete_account("ada")
        if change != "deleted":
            await operator.create_account("ada", NEW)

    here = await World(store=here.store, hashing=Meanwhile(moment, happens)).prepared()

    with pytest.raises(NotAuthentic):
        await here.enter("ada", SECRET)


async def test_a_change_that_leaves_the_password_keeps_nobody_out() -> None:
    here = await world()
    operator = here.door
    await operator.create_account("ada", SECRET)

    async def happens() -> None:
        first.append((await operator.authenticate(Auth.password("ada", SECRET).credential, HERE)).player_id)

    first: list[str] = []
    here = await World(store=here.store, hashing=Meanwhile("verify", happens)).prepared()

    assert [(await here.enter("ada", SECRET)).player_id] == first


async def test_an_owner_is_at_home_in_the_whole_of_an_ipv6_network() -> None:
    here = await world()
    await here.door.create_account("ada", SECRET)
    await here.enter("ada", SECRET, Approach("2001:db8:0:7::1"))

    for number in range(50):
        await here.refused("ada", "wrong horse", Approach(f"198.51.100.{number}"))

    # Computers take another address of their network every day.
    await here.enter("ada", SECRET, Approach("2001:db8:0:7:a:b:c:d"))
    await here.refused("ada", SECRET, Approach("2001:db8:0:8::1"))


async def test_one_who_signs_in_from_very_many_addresses_of_a_network_makes_nobody_forgotten() -> None:
    here = await world(lockouts_max=10)
    await here.door.create_account("ada", SECRET)
    await here.door.create_account("eve", SECRET)
    for _ in range(here.limits.wrong_passwords_max):
        await here.refused("ada", "wrong horse")

    for number in range(100):
        await here.enter("eve", SECRET, Approach(f"2001:db8::{number:x}"))

    await here.refused("ada", SECRET)


class Stuck(PlainHashing):
    """No check comes to an end before the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.door = asyncio.Event()

    async def verify(self, known: str, password: bytes) -> bool:
        await self.door.wait()
        return await super().verify(known, password)


@pytest.mark.parametrize("name", ["ada", "nobody"])
async def test_one_address_cannot_take_the_whole_queue(name: str) -> None:
    share = Limits().password_checks_per_address_max
    stuck = Stuck()
    here = await World(hashing=stuck).prepared()
    await here.door.create_account("ada", SECRET)
    await here.door.create_account("bob", SECRET)

    # In one network of IPv6, everybody is one.
    taken = [
        asyncio.create_task(here.enter(name, SECRET, Approach(f"2001:db8::{number:x}"))) for number in range(share)
    ]
    bob = asyncio.create_task(here.enter("bob", SECRET))
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await here.enter("ada", SECRET, Approach("2001:db8::ffff"))
    taken[0].cancel()
    await asyncio.wait(taken[:1])
    one_more = asyncio.create_task(here.enter("bob", SECRET, Approach("2001:db8::ffff")))
    await asyncio.sleep(0)
    stuck.door.set()

    assert (await bob).player_id == (await one_more).player_id
    await asyncio.wait(taken)
    # Each has given its place back, and a place that was refused costs no guess.
    assert (await here.enter("ada", SECRET, Approach("2001:db8::ffff"))).player_id
