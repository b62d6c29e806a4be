"""Accounts: right names with right passwords get in, and nobody else learns anything, by words or by work."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from holdfast import Conflict, Invalid, Limits, NotFound
from holdfast.identity import Argon2Settings, AuthContext, NotAuthentic, Password
from holdfast.identity.port import Busy
from holdfast.stores import Batch, MemoryStore, Outcome, Write
from tests.identity.password_world import SECRET, world
from tests.identity.plain import HERE, PlainHashing

# Signing in


async def test_a_name_and_its_password_give_the_player() -> None:
    here = await world()
    await here.door.create_account("Ada", SECRET, player_id="ada-1", roles=["gm"])

    identity = await here.enter("ADA", SECRET)

    assert identity.player_id == "ada-1"
    assert identity.roles == {"gm"}
    assert identity.credential == ""


async def test_a_password_may_have_colons() -> None:
    here = await world()
    await here.door.create_account("ada", "a:b:c:d:e")

    assert (await here.enter("ada", "a:b:c:d:e")).player_id


async def test_an_account_without_a_player_gets_one_when_it_is_first_used_and_keeps_it() -> None:
    here = await world()
    await here.door.create_account("ada", SECRET)

    first = await here.enter("ada", SECRET)
    second = await here.enter("ada", SECRET)

    assert first.player_id.startswith("player-")
    assert second.player_id == first.player_id
    assert (await here.door.get_account("ada")).player == first.player_id


async def test_those_who_use_an_account_first_at_once_are_one_player() -> None:
    class Racing(MemoryStore):
        async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
            await asyncio.sleep(0)
            return await super().commit(batches)

    here = await world(store=Racing(is_open=True))
    await here.door.create_account("ada", SECRET)

    players = await asyncio.gather(*(here.enter("ada", SECRET) for _ in range(5)))

    assert len({each.player_id for each in players}) == 1


async def test_an_unknown_name_a_wrong_password_and_a_pause_look_alike_and_cost_the_same() -> None:
    here = await world()
    await here.door.create_account("ada", SECRET)

    unknown = await here.refused("zoe", SECRET)
    nobodys = await here.refused("z\nö", SECRET)
    wrong = await here.refused("ada", "wrong horse")
    for _ in range(Limits().wrong_passwords_max):
        await here.refused("ada", "wrong horse")
    paused = await here.refused("ada", SECRET)

    assert unknown == nobodys == wrong == paused
    assert unknown[1] == 1


async def test_the_owner_gets_in_when_the_pause_is_over() -> None:
    here = await world()
    await here.door.create_account("ada", SECRET)
    for _ in range(100):
        await here.refused("ada", "wrong horse")
    await here.refused("ada", SECRET)

    here.now.now += here.limits.lockout_max_s

    assert (await here.enter("ada", SECRET)).player_id


async def test_names_that_nobody_has_do_not_push_out_what_is_remembered_of_accounts() -> None:
    here = await world(lockouts_max=5)
    await here.door.create_account("ada", SECRET)
    for _ in range(here.limits.wrong_passwords_max):
        await here.refused("ada", "wrong horse")

    for number in range(50):
        await here.refused(f"nobody {number}", "wrong horse")

    await here.refused("ada", SECRET)


@pytest.mark.parametrize("credential", ["", "ada", "no colon at all"])
async def test_a_credential_without_a_colon_is_told_what_it_lacks(credential: str) -> None:
    here = await world()

    with pytest.raises(NotAuthentic, match="with a colon between them"):
        await here.door.authenticate(credential, HERE)


async def test_outdated_hashes_are_made_anew_when_their_owner_signs_in() -> None:
    here = await world()
    await here.door.create_account("ada", SECRET, player_id="ada-1")
    here.hashing.version = 2
    before = here.hashing.hashed

    await here.refused("ada", "wrong horse")
    first = await here.enter("ada", SECRET)
    second = await here.enter("ada", SECRET)

    assert first.player_id == second.player_id == "ada-1"
    assert here.hashing.hashed == before + 1
    assert here.hashing.verified[-1].startswith("2:")


async def test_real_hashes_work_too_and_nothing_secret_is_shown() -> None:
    door = Password(settings=Argon2Settings(memory_kib=64, passes=1))
    await door.prepare(AuthContext())
    await door.create_account("ada", SECRET)

    assert (await door.authenticate(f"ada:{SECRET}", HERE)).player_id
    with pytest.raises(NotAuthentic) as refusal:
        await door.authenticate("ada:wrong horse", HERE)

    await door.close()
    assert "wrong" not in str(refusal.value)
    assert SECRET not in repr(door)


async def test_when_too_many_are_checked_the_next_is_told_to_come_back_and_does_not_pay_for_it() -> None:
    class Crowded(PlainHashing):
        is_full = True

        async def verify(self, known: str, password: bytes) -> bool:
            if self.is_full:
                raise Busy("too many", 2.0)
            return await super().verify(known, password)

    hashing = Crowded()
    door = Password(hashing=hashing)
    await door.create_account("ada", SECRET)

    for name in ["zoe", *["ada"] * 2 * Limits().wrong_passwords_max]:
        with pytest.raises(Busy):
            await door.authenticate(f"{name}:{SECRET}", HERE)
    hashing.is_full = False

    assert (await door.authenticate(f"ada:{SECRET}", HERE)).player_id


# Accounts


async def test_a_name_is_taken_however_it_is_typed() -> None:
    here = await world()
    await here.door.create_account("straße", SECRET)

    with pytest.raises(Conflict, match="already"):
        await here.door.create_account("STRASSE", SECRET)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a:b"},
        {"password": "short"},
        {"password": "x" * 257},
        {"player_id": "two\nlines"},
        {"roles": [""]},
    ],
)
async def test_what_cannot_be_an_account_is_refused(wrong: dict[str, Any]) -> None:
    here = await world()

    with pytest.raises(Invalid):
        await here.door.create_account(**{"name": "ada", "password": SECRET, **wrong})

    with pytest.raises(NotFound):
        await here.door.get_account("ada")


async def test_a_changed_password_counts_at_once_and_ends_a_pause() -> None:
    here = await world()
    await here.door.create_account("ada", SECRET)
    for _ in range(here.limits.wrong_passwords_max):
        await here.refused("ada", "wrong horse")

    await here.door.set_password("Ada", "another horse")

    assert (await here.enter("ada", "another horse")).player_id
    await here.refused("ada", SECRET)


async def test_a_deleted_account_lets_nobody_in_and_its_name_is_free() -> None:
    here = await world()
    await here.door.create_account("ada", SECRET, player_id="first")

    deleted = await here.door.delete_account("ada")

    assert deleted.player == "first"
    await here.refused("ada", SECRET)
    await here.door.create_account("ada", SECRET, player_id="second")
    assert (await here.enter("ada", SECRET)).player_id == "second"


async def test_operators_are_told_of_accounts_that_are_not_there() -> None:
    here = await world()

    for attempt in (
        here.door.get_account("zoe"),
        here.door.set_password("zoe", SECRET),
        here.door.delete_account("z\n"),
    ):
        with pytest.raises(NotFound):
            await attempt


async def test_of_those_who_make_the_same_account_at_once_one_wins() -> None:
    here = await world()

    results = await asyncio.gather(
        *(here.door.create_account("ada", SECRET, player_id=f"p{number}") for number in range(5)),
        return_exceptions=True,
    )

    assert sum(isinstance(result, Conflict) for result in results) == 4


async def test_changes_that_are_made_at_once_are_all_made() -> None:
    class Twice(MemoryStore):
        """Somebody else is faster every other time."""

        turns: Iterator[int] = count()

        async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
            if next(self.turns) % 2:
                for write in batches[0]:
                    known = await self.get(write.key)
                    if known is not None:
                        await super().commit([[Write(*known)]])
            return await super().commit(batches)

    here = await world(store=Twice(is_open=True))
    await here.door.create_account("ada", SECRET)

    await here.door.set_password("ada", "another horse")
    player = (await here.enter("ada", "another horse")).player_id

    assert (await here.door.delete_account("ada")).player == player


async def test_limits_are_those_of_the_server() -> None:
    here = await world(wrong_passwords_max=1)
    await here.door.create_account("ada", SECRET)

    await here.refused("ada", "wrong horse")
    await here.refused("ada", SECRET)
