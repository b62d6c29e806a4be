"""The mirror of the Python client, on the vectors that every SDK replays; and what it gives as typed values."""

import json
from typing import Any

import msgspec
import pytest

from holdfast.state import Mirror, NotANode, OutOfSync, SharedPlan, Unshareable, apply, encode_msgpack, split_whole
from holdfast.state.nodes import Changed
from tests.cases import every_case
from tests.core.vectors import Case, cases

ERRORS: dict[str, type[Exception]] = {"node": NotANode, "out_of_sync": OutOfSync}


@every_case("case", cases("state/nodes.json"), ids=lambda case: str(case["name"]))
def test_a_node_does_what_the_vector_says(case: Case) -> None:
    for node in (json.loads(case["json"]), msgspec.msgpack.decode(bytes.fromhex(case["msgpack"]))):
        data = json.loads(json.dumps(case["before"]))
        changed: list[Changed] = []

        apply(data, node, changed)

        assert data == case["after"]
        assert [list(each.path) for each in changed] == case["paths"]


@every_case("case", cases("state/refused.json"), ids=lambda case: str(case["name"]))
def test_a_node_that_does_not_fit_is_refused_as_the_vector_says(case: Case) -> None:
    with pytest.raises(ERRORS[case["error"]]):
        apply(case["before"], case["node"])


@every_case("script", cases("state/mirrors.json"), ids=lambda script: str(script["name"]))
def test_a_mirror_follows_and_tells_what_its_script_says(script: Case) -> None:
    mirror = Mirror()
    told: dict[str, list[list[Any]]] = {}
    for name, path in script["listen"].items():
        mirror.on_change(path, lambda *heard, name=name: told.setdefault(name, []).append(list(heard)))

    for step in script["steps"]:
        told.clear()
        if step["error"]:
            with pytest.raises(ERRORS[step["error"]]):
                mirror.receive(step["body"])
            continue
        calls = mirror.receive(step["body"])
        for call in calls:
            call()

        assert mirror.root == step["root"]
        assert mirror.is_complete == (not step["body"][0] & 1)
        assert {name: sorted(heard, key=str) for name, heard in told.items()} == {
            name: sorted(heard, key=str) for name, heard in step["told"].items()
        }


class Seat(msgspec.Struct):
    score: int = 0
    cards: dict[int, bytes] = {}


def mirror_of(root: dict[str, Any]) -> Mirror:
    mirror = Mirror()
    mirror.receive([2, [[part for pair in root.items() for part in pair]]])
    return mirror


def test_values_are_read_as_their_type_and_made_once_until_they_change() -> None:
    mirror = mirror_of({"players": {"a": {"score": 1, "cards": {"5": "AAE="}}, "b": {"score": 2}}})

    a, b = (mirror.read("players", player, kind=Seat) for player in "ab")
    assert a == Seat(1, {5: b"\x00\x01"})
    assert mirror.read("players", "a", kind=Seat) is a

    mirror.receive([0, [[], ["players", [[], ["a", [["score", 7]]]]]]])

    assert mirror.read("players", "a", kind=Seat).score == 7
    assert mirror.read("players", "b", kind=Seat) is b
    assert mirror.read("players", kind=dict[str, Seat])["a"].score == 7


def test_what_is_not_there_cannot_be_read_and_what_comes_later_can() -> None:
    mirror = mirror_of({"players": {}})

    with pytest.raises(KeyError):
        mirror.read("players", "a", kind=Seat)
    mirror.receive([0, [[], ["players", [["a", {}]]]]])

    assert mirror.read("players", "a", kind=Seat) == Seat()
    mirror.receive([0, [[], ["players", [[], [], ["a"]]]]])
    with pytest.raises(KeyError):
        mirror.read("players", "a", kind=Seat)


def test_a_listener_that_is_taken_away_hears_nothing_more() -> None:
    mirror = mirror_of({"a": 1})
    heard: list[int] = []
    off = mirror.on_change("a", heard.append)

    for call in mirror.receive([0, [["a", 2]]]):
        call()
    off()
    off()
    for call in mirror.receive([0, [["a", 3]]]):
        call()

    assert heard == [2]


def test_a_server_in_this_process_and_a_mirror_agree() -> None:
    plan = SharedPlan({"players": dict[str, Seat]})
    players = {f"p{number}": Seat(number, {number: bytes(50)}) for number in range(100)}
    mirror = Mirror()

    parts = split_whole(plan.whole(plan.take(players)), 1000, encode_msgpack)
    for number, part in enumerate(parts):
        flags = (2 if number == 0 else 0) | (1 if number < len(parts) - 1 else 0)
        mirror.receive(msgspec.msgpack.decode(encode_msgpack([flags, part])))

    assert len(parts) > 5
    assert mirror.read("players", kind=dict[str, Seat]) == players


def test_a_value_that_cannot_be_divided_is_refused_with_its_path() -> None:
    plan = SharedPlan({"state": dict[str, str]})

    with pytest.raises(Unshareable, match=r"^state\.long: .* do not fit into a message of 500"):
        split_whole(plan.whole(plan.take({"short": "a", "long": "b" * 600})), 500, encode_msgpack)
