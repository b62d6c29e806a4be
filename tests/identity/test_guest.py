"""Guests: the id is public and proves nothing; the credential the server made proves it."""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.identity import AuthContext, Authenticator, Guest, Identity, NotAuthentic
from holdfast.identity.accounts import GuestLinks
from tests.cases import every_case
from tests.identity.plain import enter, memory

KEY = bytes(range(32))


def guests(key: bytes = KEY, seed: int = 1) -> Guest:
    return Guest(key, Random(seed))


ADA = guests().prove("")


def test_whoever_brings_nothing_becomes_a_new_guest_each_time() -> None:
    door = guests()

    seen = {door.prove("").player_id for _ in range(100)}

    assert len(seen) == 100


def test_the_same_credential_gives_the_same_player() -> None:
    door = guests()
    ada = door.prove("")

    again = door.prove(ada.credential)

    assert again.player_id == ada.player_id
    assert again.credential == ada.credential


def test_another_node_or_a_restart_with_the_same_key_knows_the_guest_again() -> None:
    elsewhere = guests(seed=2)

    assert elsewhere.prove(ADA.credential).player_id == ADA.player_id


def test_a_guest_has_no_roles() -> None:
    assert ADA.roles == frozenset()


def test_the_player_id_says_guest_and_is_fit_for_a_log_line() -> None:
    assert re.fullmatch(r"guest-[A-Za-z0-9_-]{12}", ADA.player_id)


@pytest.mark.parametrize("claim", [ADA.player_id, f"{ADA.player_id}.", f".{ADA.player_id}"])
def test_an_id_alone_proves_nothing(claim: str) -> None:
    with pytest.raises(NotAuthentic):
        guests().prove(claim)


def test_the_secret_of_one_guest_proves_no_other() -> None:
    door = guests()
    ada, bob = door.prove(""), door.prove("")
    secret = ada.credential.rpartition(".")[2]

    with pytest.raises(NotAuthentic):
        door.prove(f"{bob.player_id}.{secret}")


def test_a_credential_made_with_another_key_is_refused() -> None:
    stranger = guests(key=bytes(32)).prove("")

    with pytest.raises(NotAuthentic):
        guests().prove(stranger.credential)


@every_case("length", range(1, len(ADA.credential)))
def test_a_truncated_credential_is_refused_at_every_length(length: int) -> None:
    with pytest.raises(NotAuthentic):
        guests().prove(ADA.credential[:length])


@every_case("place", range(len(ADA.credential)))
def test_a_credential_with_one_letter_changed_is_refused_wherever_it_is(place: int) -> None:
    letter = "A" if ADA.credential[place] != "A" else "B"
    forged = ADA.credential[:place] + letter + ADA.credential[place + 1 :]

    with pytest.raises(NotAuthentic):
        guests().prove(forged)


@every_case(
    "garbage",
    [
        " ",
        ".",
        "..",
        "\x00",
        "é.ü",
        "🦑.🦑",
        "\ud800",
        "\ud800.\udfff",
        f"{ADA.player_id}.\ud800",
        f"{ADA.player_id}.é",
        f" {ADA.credential}",
        f"{ADA.credential} ",
        f"{ADA.credential}=",
        f"{ADA.credential}.",
        f"{ADA.credential}\x00",
        ADA.credential.upper(),
        "x" * 100_000,
    ],
)
def test_garbage_is_refused_and_nothing_worse_happens(garbage: str) -> None:
    with pytest.raises(NotAuthentic):
        guests().prove(garbage)


@given(st.text(st.characters(), min_size=1))
def test_no_text_that_was_not_issued_is_accepted(credential: str) -> None:
    with pytest.raises(NotAuthentic):
        guests().prove(credential)


def test_a_refusal_says_what_to_do_and_repeats_nothing_of_the_credential() -> None:
    forged = f"{ADA.player_id}.forged"

    with pytest.raises(NotAuthentic, match="sign in without one") as refused:
        guests().prove(forged)

    assert "forged" not in str(refused.value)
    assert ADA.player_id not in str(refused.value)


@pytest.mark.parametrize("length", [0, 1, 16, 31])
def test_a_short_key_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="at least 32 bytes"):
        guests(key=bytes(length))


def test_a_key_of_32_bytes_is_long_enough() -> None:
    assert guests(key=bytes(32)).prove("").player_id


def test_no_secret_shows_when_the_authenticator_or_an_identity_is_printed() -> None:
    door = guests()
    secret = ADA.credential.rpartition(".")[2]

    for shown in (repr(door), str(door), repr(ADA), str(ADA), f"{[ADA]}"):
        assert secret not in shown
        assert repr(KEY) not in shown


def test_an_identity_shows_who_it_is() -> None:
    assert repr(Identity("ada", frozenset({"gm", "dev"}), "secret")) == "Identity('ada', roles=['dev', 'gm'])"


def test_guest_is_an_authenticator_called_guest() -> None:
    door: Authenticator = guests()

    assert door.scheme == "guest"


async def test_a_guest_without_a_key_uses_the_servers() -> None:
    lent, same, other = Guest(), Guest(KEY), Guest()
    await lent.prepare(AuthContext(secret=KEY, random=Random(3)))
    await other.prepare(AuthContext(secret=bytes(32)))

    ada = await enter(lent, "")

    assert same.prove(ada.credential).player_id == ada.player_id
    assert (await enter(lent, ada.credential)).player_id == ada.player_id
    with pytest.raises(NotAuthentic):
        await enter(other, ada.credential)


async def test_a_guests_own_key_and_randomness_are_kept_whatever_the_context_has() -> None:
    door = guests()
    await door.prepare(AuthContext(secret=bytes(32), random=Random(99)))

    assert door.prove("") == guests().prove("")


async def test_a_guest_who_has_an_account_signs_in_with_that() -> None:
    door, store = guests(), memory(10)
    await door.prepare(AuthContext(store=store))
    ada, bob = door.prove(""), door.prove("")

    await GuestLinks(store).link("jwt", "ada", ada.player_id)

    with pytest.raises(NotAuthentic, match="has an account now"):
        await enter(door, ada.credential)
    assert (await enter(door, bob.credential)).player_id == bob.player_id


def test_without_a_key_and_without_a_server_there_are_no_guests() -> None:
    with pytest.raises(RuntimeError, match="need a key"):
        Guest().prove("")
