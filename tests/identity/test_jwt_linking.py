"""Tokens and guests: who a token names may be a guest of before, and never becomes somebody else."""

from random import Random

import pytest

from holdfast import Conflict, Invalid
from holdfast.identity import AuthContext, Guest, NotAuthentic
from holdfast.identity.port import new_player_id
from tests.identity.plain import HERE, enter, memory
from tests.identity.test_jwt import door, token


async def test_a_guest_is_linked_to_a_subject_that_was_never_here() -> None:
    store = memory(100)
    found, guests = await door(store=store), Guest(bytes(32), Random(1))
    await guests.prepare(AuthContext(store=store))
    guest = guests.prove("")

    linked = await found.link(token({"roles": ["gm"]}), HERE, guest.player_id)

    assert (linked.player_id, sorted(linked.roles)) == (guest.player_id, ["gm"])
    assert (await enter(found, token())).player_id == guest.player_id
    with pytest.raises(NotAuthentic):
        await enter(guests, guest.credential)


async def test_a_subject_that_has_played_is_not_a_guests_to_take() -> None:
    found = await door()
    await enter(found, token())

    with pytest.raises(Conflict, match="sign in with it instead"):
        await found.link(token(), HERE, "guest-1")

    assert (await enter(found, token())).player_id == "ada"


async def test_the_same_subject_of_another_issuer_is_somebody_else() -> None:
    store = memory(100)
    found = await door(store=store)
    other = await door(store=store, issuer="https://other.example/")
    await found.link(token(), HERE, "guest-1")

    assert (await enter(other, token({"iss": "https://other.example/"}))).player_id == "ada"


async def test_a_token_that_proves_nothing_links_nobody() -> None:
    found = await door()

    with pytest.raises(NotAuthentic):
        await found.link(token({"aud": "another-game"}), HERE, "guest-1")
    with pytest.raises(NotAuthentic):
        await found.link(token({"roles": 5}), HERE, "guest-1")

    assert (await enter(found, token())).player_id == "ada"


async def test_who_does_not_want_links_needs_no_records() -> None:
    found = await door(linkable=False, store=memory(0))

    assert (await enter(found, token())).player_id == "ada"
    with pytest.raises(Invalid, match="cannot be linked"):
        await found.link(token(), HERE, "guest-1")


@pytest.mark.parametrize("subject", ["guest-42", new_player_id(Random(1)), "x" * 127])
async def test_a_guest_is_not_linked_to_a_subject_that_could_never_sign_in(subject: str) -> None:
    store = memory(100)
    found, guests = await door(store=store, prefix="" if "-" in subject else "acme-"), Guest(bytes(32), Random(1))
    await guests.prepare(AuthContext(store=store))
    guest = guests.prove("")

    with pytest.raises(NotAuthentic):
        await found.link(token({"sub": subject}), HERE, guest.player_id)

    # Or nobody could be this player any more.
    assert (await enter(guests, guest.credential)).player_id == guest.player_id


@pytest.mark.parametrize("linkable", [True, False])
async def test_no_token_makes_anybody_a_player_whom_the_server_has_named(linkable: bool) -> None:
    """Where people choose what their provider calls them, one could choose the id of somebody with an account."""
    found = await door(claim="preferred_username", linkable=linkable)

    for name in (new_player_id(Random(2)), "guest-7Jm2"):
        with pytest.raises(NotAuthentic):
            await enter(found, token({"preferred_username": name}))
    assert (await enter(found, token({"preferred_username": "player-7"}))).player_id == "player-7"
