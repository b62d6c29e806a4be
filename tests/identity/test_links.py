"""A subject is one player; a guest has one account; and both are written in one breath."""

import asyncio
from collections.abc import Sequence

import pytest

from holdfast import Conflict
from holdfast.identity.accounts import GuestLinks
from holdfast.identity.port import Busy
from holdfast.stores import Batch, Full, MemoryStore, Outcome, RevisionConflict
from tests.identity.plain import memory


def links() -> GuestLinks:
    return GuestLinks(memory(100))


async def test_a_subject_that_was_never_linked_is_its_own_player() -> None:
    known = links()

    assert await known.player_of("jwt", "ada", "own") == "own"
    assert await known.player_of("jwt", "ada", "another") == "own"


async def test_a_linked_subject_is_the_guest_from_now_on() -> None:
    known = links()

    await known.link("jwt", "ada", "guest-1")

    assert await known.player_of("jwt", "ada", "own") == "guest-1"
    assert await known.is_linked("guest-1")
    assert not await known.is_linked("guest-2")


async def test_the_same_subject_of_another_scheme_is_somebody_else() -> None:
    known = links()

    await known.link("jwt", "ada", "guest-1")

    assert await known.player_of("steam", "ada", "own") == "own"


async def test_linking_again_changes_nothing() -> None:
    known = links()
    await known.link("jwt", "ada", "guest-1")

    await known.link("jwt", "ada", "guest-1")

    assert await known.player_of("jwt", "ada", "own") == "guest-1"


async def test_a_subject_with_a_player_of_its_own_cannot_be_linked() -> None:
    known = links()
    await known.player_of("jwt", "ada", "own")

    with pytest.raises(Conflict, match="sign in with it instead"):
        await known.link("jwt", "ada", "guest-1")

    assert not await known.is_linked("guest-1")


async def test_a_subject_of_one_guest_cannot_be_linked_to_another() -> None:
    known = links()
    await known.link("jwt", "ada", "guest-1")

    with pytest.raises(Conflict, match="sign in with it instead"):
        await known.link("jwt", "ada", "guest-2")


async def test_a_guest_has_one_account() -> None:
    known = links()
    await known.link("jwt", "ada", "guest-1")

    with pytest.raises(Conflict, match="has an account already"):
        await known.link("jwt", "bob", "guest-1")

    assert await known.player_of("jwt", "bob", "own") == "own"


class Racing(MemoryStore):
    """Lets everybody look before anybody writes."""

    async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        await asyncio.sleep(0)
        return await super().commit(batches)


async def test_of_those_who_link_at_once_one_wins_and_nothing_is_half_done() -> None:
    known = GuestLinks(Racing(is_open=True))

    results = await asyncio.gather(
        *(known.link("jwt", f"subject {number}", "guest-1") for number in range(10)), return_exceptions=True
    )

    assert results.count(None) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 9
    own = [await known.player_of("jwt", f"subject {number}", "own") for number in range(10)]
    assert sorted(own) == ["guest-1", *["own"] * 9]


async def test_of_guests_who_want_the_same_account_at_once_one_wins() -> None:
    known = GuestLinks(Racing(is_open=True))

    results = await asyncio.gather(
        *(known.link("jwt", "ada", f"guest-{number}") for number in range(10)), return_exceptions=True
    )

    assert results.count(None) == 1
    assert sum([await known.is_linked(f"guest-{number}") for number in range(10)]) == 1


class Contended(MemoryStore):
    """Somebody else is always faster."""

    async def commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        return [RevisionConflict(batch[0].key, batch[0].revision, 7) for batch in batches]


async def test_whoever_is_never_fast_enough_is_told_to_come_back() -> None:
    known = GuestLinks(Contended(is_open=True))

    for attempt in (known.link("jwt", "ada", "guest-1"), known.player_of("jwt", "ada", "own")):
        with pytest.raises(Busy):
            await attempt


async def test_a_full_store_turns_nobody_away_who_only_signs_in() -> None:
    known = GuestLinks(memory(0))

    assert await known.player_of("jwt", "ada", "own") == "own"
    with pytest.raises(Full):
        await known.link("jwt", "ada", "guest-1")
