from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import NameNotAllowed
from holdfast.core.names import NamesInRoom, checked_name, skeleton
from tests.cases import every_case


@every_case(
    ("given", "kept"),
    [
        ("Ada", "Ada"),
        ("", ""),
        ("  Ada   Lovelace\u3000", "Ada Lovelace"),
        ("Zoe\u0308", "Zoë"),
        ("Żółw 🐢", "Żółw 🐢"),
        ("❤\ufe0f", "❤\ufe0f"),
        *((joined, joined) for joined in ("👩\u200d🚀", "👩🏽\u200d🚀 Ada", "🏳\ufe0f\u200d🌈", "🙂\u200d↔\ufe0f")),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),
        ("नमस्ते", "नमस्ते"),
        ("ש\u05b8\u05c1לוֹם", normalize("NFC", "ש\u05b8\u05c1לוֹם")),
        ("(\\ ' \"<b>) {}", "(\\ ' \"<b>) {}"),
        ("x" * 32, "x" * 32),
    ],
)
def test_a_name_is_kept_in_one_form(given: str, kept: str) -> None:
    assert checked_name(given, 32) == kept


@every_case(
    "given",
    [
        *("Ada\n", "\x00", "tab\tbed", "bell\x07", "\x7f"),
        *("\u202eadA", "\u2066Ada", "Ada\u200b", "Ad\u200da", "\ufeffAda", "Ada\u00ad", "Ada\u2028"),
        *(
            "👩\u200d",
            "\u200d🚀",
            "👩\u200d\u200d🚀",
            "👩\u200dA",
            "A\u200d🚀",
            "👩 \u200d🚀",
            "\ufe0f\u200d🚀",
            "👩\u200d🏽",
        ),
        *("\u3164", "\u115f\u1160", "\u2800", "Ada\ufe00", "\U000e0041", "\ue000", "\ud800"),
        *("\ufffe", "Ada\uffff", "\ufdd0", "\U0010ffff"),
        *("\u0301Ada", "A \u0301", "Z\u0311\u0311\u0311\u0311\u0311\u0311"),
        *("x" * 33, "x" * 100_000),
    ],
)
def test_what_cannot_be_seen_or_disturbs_others_is_no_name(given: str) -> None:
    with pytest.raises(NameNotAllowed, match="name"):
        checked_name(given, 32)


@given(st.text())
def test_a_kept_name_stays_as_it_is(text: str) -> None:
    try:
        name = checked_name(text, 32)
    except NameNotAllowed:
        return

    assert checked_name(name, 32) == name
    assert name.encode().decode() == name.strip() == name


@every_case(
    "other",
    ["ada", "ADA", "Аdа", "Ａｄａ", "𝓐𝓭𝓪", "ⓐⓓⓐ", "αdα", "Adа"],
)
def test_names_that_look_alike_have_one_skeleton(other: str) -> None:
    assert skeleton(other) == skeleton("Ada")


@every_case(
    ("one", "other"),
    [
        ("Bill", "BiII"),
        ("modern", "modem"),
        ("O0", "0O"),
        ("Вов", "Bob".replace("b", "в")),
        ("ΑΡΗΣ", "APHΣ"),
        ("Straße", "STRASSE"),
        ("vvin", "win"),
        ("👩\u200d👩", "👩👩"),
        ("Bi\u0307ll", "Bill"),
        ("j\u0307", "J"),
    ],
)
def test_letters_that_look_alike_are_alike(one: str, other: str) -> None:
    assert skeleton(one) == skeleton(other)


@every_case(
    ("one", "other"),
    [("Ada", "Eda"), ("Zoë", "Zoe"), ("Ada", "Ada (2)"), ("Ada Byron", "AdaByron"), ("Лев", "Lev"), ("אדה", "Ada")],
)
def test_other_names_are_other_names(one: str, other: str) -> None:
    assert skeleton(one) != skeleton(other)


def test_look_alikes_in_a_room_get_numbers_and_one_player_may_come_twice() -> None:
    names = NamesInRoom()

    shown = [names.take(owner, name) for owner, name in (("a", "Ada"), ("b", "ada"), ("c", "Аdа"), ("a", "Ada"))]

    assert shown == ["Ada", "ada (2)", "Аdа (3)", "Ada"]


def test_a_number_is_given_to_the_next_when_its_player_has_gone() -> None:
    names = NamesInRoom()
    for owner in "abc":
        names.take(owner, "Ada")

    names.give_back("b", "Ada (2)")
    again = names.take("d", "Ada")
    names.give_back("a", "Ada")
    names.take("a", "Eve")

    assert again == "Ada (2)"
    assert names.take("e", "Ada") == "Ada"


def test_nobody_gets_a_number_that_looks_like_the_name_of_another() -> None:
    names = NamesInRoom()
    names.take("a", "Ada")
    names.take("b", "Ada (2)")

    assert names.take("c", "Ada") == "Ada (3)"
    assert names.take("d", "ADA (2)") == "ADA (2) (2)"


def test_the_names_of_a_crowd_are_all_different_and_quickly_found() -> None:
    names = NamesInRoom()

    shown = [names.take(owner, "Player") for owner in range(5000)]

    assert len({skeleton(each) for each in shown}) == 5000
    assert shown[-1] == "Player (5000)"


def test_what_is_remembered_of_names_does_not_grow_with_those_that_are_gone() -> None:
    names = NamesInRoom()
    for number in range(500):
        crowd = [(owner, names.take(owner, f"Player {number} x")) for owner in range(12)]
        for owner, shown in crowd:
            names.give_back(owner, shown)

    assert not names._owners  # noqa: SLF001 - memory is what is tested
    assert len(names._numbers) <= 12  # noqa: SLF001 - memory is what is tested
