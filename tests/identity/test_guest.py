"""Guests: the id is public and proves nothing; the credential the server made proves it."""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.identity import Approach, Authenticator, Guest, Identity, NotAuthentic

KEY = bytes(range(32))


def guests(key: bytes = KEY, seed: int = 1) -> Guest:
    return Guest(key, Random(seed))


HERE = Approach()
ADA = guests().authenticate("", HERE)


def test_whoever_brings_nothing_becomes_a_new_guest_each_time() -> None:
    door = guests()

    seen = {door.authenticate("", HERE).player_id for _ in range(100)}

    assert len(seen) == 100


def test_the_same_credential_gives_the_same_player() -> None:
    door = guests()
    ada = door.authenticate("", HERE)

    again = door.authenticate(ada.credential, HERE)

    assert again.player_id == ada.player_id
    assert again.credential == ada.credential


def test_another_node_or_a_restart_with_the_same_key_knows_the_guest_again() -> None:
    elsewhere = guests(seed=2)

    assert elsewhere.authenticate(ADA.credential, HERE).player_id == ADA.player_id


def test_a_guest_has_no_roles() -> None:
    assert ADA.roles == frozenset()


def test_the_player_id_says_guest_and_is_fit_for_a_log_line() -> None:
    assert re.fullmatch(r"guest-[A-Za-z0-9_-]{12}", ADA.player_id)


@pytest.mark.parametrize("claim", [ADA.player_id, f"{ADA.player_id}.", f".{ADA.player_id}"])
def test_an_id_alone_proves_nothing(claim: str) -> None:
    with pytest.raises(NotAuthentic):
        guests().authenticate(claim, HERE)


def test_the_secret_of_one_guest_proves_no_other() -> None:
    door = guests()
    ada, bob = door.authenticate("", HERE), door.authenticate("", HERE)
    secret = ada.credential.rpartition(".")[2]

    with pytest.raises(NotAuthentic):
        door.authenticate(f"{bob.player_id}.{secret}", HERE)


def test_a_credential_made_with_another_key_is_refused() -> None:
    stranger = guests(key=bytes(32)).authenticate("", HERE)

    with pytest.raises(NotAuthentic):
        guests().authenticate(stranger.credential, HERE)


@pytest.mark.parametrize("length", range(1, len(ADA.credential)))
def test_a_truncated_credential_is_refused_at_every_length(length: int) -> None:
    with pytest.raises(NotAuthentic):
        guests().authenticate(ADA.credential[:length], HERE)


@pytest.mark.parametrize("place", range(len(ADA.credential)))
def test_a_credential_with_one_letter_changed_is_refused_wherever_it_is(place: int) -> None:
    letter = "A" if ADA.credential[place] != "A" else "B"
    forged = ADA.credential[:place] + letter + ADA.credential[place + 1 :]

    with pytest.raises(NotAuthentic):
        guests().authenticate(forged, HERE)


@pytest.mark.parametrize(
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
        guests().authenticate(garbage, HERE)


@given(st.text(st.characters(), min_size=1))
def test_no_text_that_was_not_issued_is_accepted(credential: str) -> None:
    with pytest.raises(NotAuthentic):
        guests().authenticate(credential, HERE)


def test_a_refusal_says_what_to_do_and_repeats_nothing_of_the_credential() -> None:
    forged = f"{ADA.player_id}.forged"

    with pytest.raises(NotAuthentic, match="sign in without one") as refused:
        guests().authenticate(forged, HERE)

    assert "forged" not in str(refused.value)
    assert ADA.player_id not in str(refused.value)


@pytest.mark.parametrize("length", [0, 1, 16, 31])
def test_a_short_key_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="at least 32 bytes"):
        guests(key=bytes(length))


def test_a_key_of_32_bytes_is_long_enough() -> None:
    assert guests(key=bytes(32)).authenticate("", HERE).player_id


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
