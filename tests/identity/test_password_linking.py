"""Accounts for guests: they stay who they are, and nobody gets an account that is somebody else's."""

from random import Random

import pytest

from holdfast import Conflict, Invalid
from holdfast.identity import Guest, Identity, NotAuthentic
from holdfast.stores import Full
from tests.identity.password_world import SECRET, World, world
from tests.identity.plain import HERE, enter, memory


async def guest_of(here: World) -> tuple[Guest, Identity]:
    guests = Guest(bytes(32), Random(2))
    await guests.prepare(here.context)
    return guests, guests.prove("")


async def test_a_guest_registers_and_is_the_same_player() -> None:
    here = await world(register=True)
    guests, guest = await guest_of(here)

    linked = await here.door.link(f"Ada:{SECRET}", HERE, guest.player_id)

    assert linked.player_id == guest.player_id
    assert (await here.enter("ada", SECRET)).player_id == guest.player_id
    with pytest.raises(NotAuthentic, match="has an account now"):
        await enter(guests, guest.credential)


async def test_registering_again_with_the_same_words_changes_nothing() -> None:
    here = await world(register=True)
    _, guest = await guest_of(here)
    await here.door.link(f"ada:{SECRET}", HERE, guest.player_id)

    assert (await here.door.link(f"ada:{SECRET}", HERE, guest.player_id)).player_id == guest.player_id


async def test_nobody_registers_where_that_is_not_wanted_and_it_costs_the_same() -> None:
    here = await world()
    _, guest = await guest_of(here)

    with pytest.raises(NotAuthentic):
        await here.door.link(f"ada:{SECRET}", HERE, guest.player_id)

    assert here.hashing.verified == [""]
    assert here.hashing.hashed == 0


async def test_a_name_that_is_taken_cannot_be_registered_with_another_password() -> None:
    here = await world(register=True)
    _, guest = await guest_of(here)
    await here.door.create_account("ada", SECRET)

    with pytest.raises(NotAuthentic, match="or the name is taken"):
        await here.door.link("ada:my own horse", HERE, guest.player_id)


@pytest.mark.parametrize("credential", ["ada:short", f"a\nb:{SECRET}", f":{SECRET}"])
async def test_what_cannot_be_an_account_cannot_be_registered(credential: str) -> None:
    here = await world(register=True)
    guests, guest = await guest_of(here)

    with pytest.raises(Invalid):
        await here.door.link(credential, HERE, guest.player_id)

    assert (await enter(guests, guest.credential)).player_id == guest.player_id


async def test_a_guest_takes_an_account_that_nobody_has_used() -> None:
    here = await world()
    _, guest = await guest_of(here)
    await here.door.create_account("ada", SECRET, roles=["gm"])

    linked = await here.door.link(f"ada:{SECRET}", HERE, guest.player_id)

    assert linked.roles == {"gm"}
    assert (await here.enter("ada", SECRET)).player_id == guest.player_id


async def test_an_account_with_a_player_is_not_a_guests_to_take() -> None:
    here = await world()
    guests, guest = await guest_of(here)
    await here.door.create_account("ada", SECRET)
    await here.enter("ada", SECRET)

    with pytest.raises(Conflict, match="sign in with it instead"):
        await here.door.link(f"ada:{SECRET}", HERE, guest.player_id)

    assert (await enter(guests, guest.credential)).player_id == guest.player_id


async def test_a_guest_has_one_account() -> None:
    here = await world(register=True)
    _, guest = await guest_of(here)
    await here.door.link(f"ada:{SECRET}", HERE, guest.player_id)
    await here.door.create_account("bob", SECRET)

    for credential in (f"cleo:{SECRET}", f"bob:{SECRET}"):
        with pytest.raises(Conflict):
            await here.door.link(credential, HERE, guest.player_id)


async def test_guesses_by_linking_count_like_any_others() -> None:
    here = await world(register=True)
    _, guest = await guest_of(here)
    await here.door.create_account("ada", SECRET)

    for _ in range(here.limits.wrong_passwords_max):
        with pytest.raises(NotAuthentic):
            await here.door.link("ada:wrong horse", HERE, guest.player_id)

    await here.refused("ada", SECRET)


async def test_an_account_that_a_backend_makes_for_a_guest_is_linked() -> None:
    here = await world()
    guests, guest = await guest_of(here)

    await here.door.create_account("ada", SECRET, player_id=guest.player_id)

    assert (await here.enter("ada", SECRET)).player_id == guest.player_id
    with pytest.raises(NotAuthentic):
        await enter(guests, guest.credential)
    with pytest.raises(Conflict):
        await here.door.create_account("bob", SECRET, player_id=guest.player_id)


async def test_a_full_store_refuses_and_changes_nothing() -> None:
    here = await world(register=True, store=memory(1))
    guests, guest = await guest_of(here)

    with pytest.raises(Full):
        await here.door.link(f"ada:{SECRET}", HERE, guest.player_id)

    assert (await enter(guests, guest.credential)).player_id == guest.player_id


async def test_an_account_that_was_deleted_can_be_made_again_for_its_guest() -> None:
    here = await world(register=True)
    guests, guest = await guest_of(here)
    await here.door.link(f"ada:{SECRET}", HERE, guest.player_id)
    await here.door.delete_account("ada")
    with pytest.raises(NotAuthentic):
        await enter(guests, guest.credential)

    await here.door.create_account("countess", SECRET, player_id=guest.player_id)

    assert (await here.enter("countess", SECRET)).player_id == guest.player_id
    with pytest.raises(Conflict):
        await here.door.create_account("bob", SECRET, player_id=guest.player_id)
