"""Where the secrets of a type are."""

import msgspec

from holdfast import Hidden, Private
from holdfast.state import marked_paths


class Card(msgspec.Struct, tag=True):
    rank: int
    trick: Hidden[str] = ""


class Joker(msgspec.Struct, tag=True):
    wish: Private[str] = ""


class Hand(msgspec.Struct):
    cards: Private[list[Card | Joker]] = []
    plan: Private[str] = msgspec.field(default="", name="p")
    by_suit: dict[str, list[Card]] = {}


class Folder(msgspec.Struct):
    inside: list["Folder"] = []
    key: Hidden[str] = ""


def test_private_and_hidden_fields_are_found_by_the_names_that_travel() -> None:
    private, hidden = marked_paths(dict[str, Hand], "players")

    assert private == [("players", "*", "cards"), ("players", "*", "cards", "*", "wish"), ("players", "*", "p")]
    assert hidden == [("players", "*", "cards", "*", "trick"), ("players", "*", "by_suit", "*", "*", "trick")]


def test_a_type_that_contains_itself_has_an_end() -> None:
    _, hidden = marked_paths(Folder, "state")

    assert hidden == [("state", "key")]


def test_a_type_without_secrets_has_no_marks() -> None:
    assert marked_paths(dict[str, int]) == ([], [])
