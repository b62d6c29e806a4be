"""Names and passwords: however they are typed, the same letters are the same; and what cannot be one is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Invalid
from holdfast.identity.accounts import (
    Account,
    check_password,
    checked_name,
    folded,
    key_of,
    normalized,
)
from holdfast.identity.port import checked_player, checked_roles
from tests.cases import every_case


@every_case(
    ("typed", "same"),
    [
        ("Ada", "ada"),
        ("STRASSE", "straße"),
        ("ﬁsh", "fish"),
        ("\N{ANGSTROM SIGN}", "å"),
        ("Ａｄａ", "ada"),
        ("e\N{COMBINING ACUTE ACCENT}a", "\N{LATIN SMALL LETTER E WITH ACUTE}a"),
        ("ada\N{VARIATION SELECTOR-16}", "ada"),
        ("a\N{HANGUL FILLER}da", "ada"),
        ("e\N{COMBINING GRAPHEME JOINER}\N{COMBINING ACUTE ACCENT}", "\N{LATIN SMALL LETTER E WITH ACUTE}"),
    ],
)
def test_a_name_is_the_same_however_it_is_typed(typed: str, same: str) -> None:
    assert folded(typed) == folded(same) == checked_name(typed)


@given(st.text(st.characters() | st.sampled_from("\u0345\u034f\u0300\u1160\u3164\ufe0fİßǰ"), max_size=12))
def test_a_name_that_was_compared_once_is_compared_as_it_is(name: str) -> None:
    """Operators are shown the name as it is compared, and ask for it so."""
    assert folded(folded(name)) == folded(name)


def test_other_names_stay_other_names() -> None:
    assert len({folded(name) for name in ("ada", "ada1", "a da", "\N{CYRILLIC SMALL LETTER A}da", "äda")}) == 5


@every_case(
    "name",
    ["", "x" * 65, "a:b", "a\N{FULLWIDTH COLON}b", " ada", "ada ", "a\nb", "a\x00b", "\ud800", "a\u200bb", "ﷺ" * 10],
)
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="no colon"):
        checked_name(name)


@every_case("name", ["a", "x" * 64, "Ada Lovelace", "ada@example.org", "花子", "🦑"])
def test_what_can_be_a_name_is_taken(name: str) -> None:
    assert checked_name(name)


def test_a_password_has_8_to_256_characters() -> None:
    for length in (8, 256):
        check_password("é" * length)
    for length in (0, 7, 257):
        with pytest.raises(Invalid, match="8 to 256"):
            check_password("é" * length)


def test_a_password_is_the_same_from_whichever_keyboard_but_its_case_counts() -> None:
    assert normalized("passwo\N{COMBINING DIAERESIS}rt") == normalized("passw\N{LATIN SMALL LETTER O WITH DIAERESIS}rt")
    assert normalized("Password") != normalized("password")


def test_text_that_is_no_unicode_can_be_hashed_all_the_same() -> None:
    assert normalized("\ud800")
    assert folded("\ud800")


def test_players_and_roles_are_printable_and_not_endless() -> None:
    assert checked_player("") == ""
    assert checked_roles(["gm", "dev", "gm"]) == ["dev", "gm"]
    for player_id in ("x" * 129, "a\nb", "\ud800"):
        with pytest.raises(Invalid):
            checked_player(player_id)
    for roles in ([""], ["x" * 65], ["a\nb"], [str(number) for number in range(33)]):
        with pytest.raises(Invalid):
            checked_roles(roles)


def test_a_hash_is_not_shown() -> None:
    assert "secret" not in repr(Account("ada", "player-1", "secret", [], 0.0))


@every_case("name", ["ada", "", "x" * 10_000, "grüße 🦑", "\ud800", "a/b c\n"])
def test_a_key_is_short_printable_ascii_whatever_the_name(name: str) -> None:
    assert re.fullmatch(r"account/[A-Za-z0-9_-]{43}", key_of("account", name))


def test_other_names_have_other_keys_however_they_are_put_together() -> None:
    names = [("a", "bc"), ("ab", "c"), ("abc",), ("abc", ""), ("", "abc"), ("a", "b", "c")]

    assert len({key_of("link", *each) for each in names}) == len(names)
    assert key_of("link", "a") != key_of("account", "a")
