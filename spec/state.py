"""Changes of shared state and what they do to a mirror, for the tests of every SDK. See vectors/README.md."""

from typing import Any

import msgspec

# Name, data before, node, data after, the paths that have changed in the order in which they do.
NODES: list[tuple[str, Any, list[Any], Any, list[list[Any]]]] = [
    ("an empty node changes nothing", {"a": 1}, [[]], {"a": 1}, []),
    ("a key is set", {"a": 1}, [["a", 2, "b", None]], {"a": 2, "b": None}, [["a"], ["b"]]),
    ("a value of any kind is set", {}, [["a", {"b": [1, {"c": True}]}]], {"a": {"b": [1, {"c": True}]}}, [["a"]]),
    ("an object is replaced, not merged", {"a": {"b": 1}}, [["a", {"c": 2}]], {"a": {"c": 2}}, [["a"]]),
    ("what is null is there", {"a": 1}, [["a", None]], {"a": None}, [["a"]]),
    (
        "a change goes into an object",
        {"a": {"b": 1, "c": 2}},
        [[], ["a", [["b", 3]]]],
        {"a": {"b": 3, "c": 2}},
        [["a", "b"]],
    ),
    ("keys go", {"a": {"b": 1, "c": 2}}, [[], ["a", [[], [], ["b"]]]], {"a": {"c": 2}}, [["a", "b"]]),
    (
        "numbers are the text of a key of an object",
        {"a": {"1": {"x": 0}, "2": 0}},
        [[], ["a", [[-3, 1], [1, [["x", 5]]], [2]]]],
        {"a": {"1": {"x": 5}, "-3": 1}},
        [["a", "-3"], ["a", "1", "x"], ["a", "2"]],
    ),
    (
        "a key is both set and changed inside: first set",
        {"a": 1},
        [["a", {}], ["a", [["b", 2]]]],
        {"a": {"b": 2}},
        [["a"], ["a", "b"]],
    ),
    ("a place of a list is set", {"a": [1, 2, 3]}, [[], ["a", [[1, 9]]]], {"a": [1, 9, 3]}, [["a", 1]]),
    (
        "a change goes into a place",
        {"a": [{"x": 1}]},
        [[], ["a", [[], [0, [["x", 2]]]]]],
        {"a": [{"x": 2}]},
        [["a", 0, "x"]],
    ),
    ("values are added at the end", {"a": [1]}, [[], ["a", [[], [], [], [1, 0, [2, 3]]]]], {"a": [1, 2, 3]}, [["a"]]),
    ("values are added at the start", {"a": [5]}, [[], ["a", [[], [], [], [0, 0, [5]]]]], {"a": [5, 5]}, [["a"]]),
    ("values are cut out", {"a": [1, 2, 3]}, [[], ["a", [[], [], [], [0, 2, []]]]], {"a": [3]}, [["a"]]),
    ("values are replaced", {"a": [1, 2, 3]}, [[], ["a", [[], [], [], [1, 1, [8, 9]]]]], {"a": [1, 8, 9, 3]}, [["a"]]),
    (
        "splices are carried out in order",
        {"a": [1, 2, 3, 4]},
        [[], ["a", [[], [], [], [0, 1, [], 3, 0, [5]]]]],
        {"a": [2, 3, 4, 5]},
        [["a"]],
    ),
    (
        "places are those after the splices",
        {"a": [{"x": 1}, {"x": 2}, 3]},
        [[], ["a", [[1, 9], [0, [["x", 7]]], [], [0, 1, []]]]],
        {"a": [{"x": 7}, 9]},
        [["a"], ["a", 1], ["a", 0, "x"]],
    ),
    (
        "lists in lists",
        {"a": [[1], [2]]},
        [[], ["a", [[], [1, [[], [], [], [1, 0, [3]]]]]]],
        {"a": [[1], [2, 3]]},
        [["a", 1]],
    ),
    (
        "keys are counted in their order",
        {"a": {"b": {"x": 1}, "a": {"x": 2}, "B": {"x": 3}, "10": {"x": 4}, "9": {"x": 5}}},
        [[], ["a", [[], [], [], [], [0, [["x", 6]], 1, [["x", 7]], 2, [["x", 8]], 4, [["x", 9]]]]]],
        {"a": {"b": {"x": 9}, "a": {"x": 2}, "B": {"x": 8}, "10": {"x": 6}, "9": {"x": 7}}},
        [["a", "10", "x"], ["a", "9", "x"], ["a", "B", "x"], ["a", "b", "x"]],
    ),
    (
        "keys are counted before others come and go",
        {"a": {}, "c": {}},
        [["b", 1], [], ["a"], [], [1, [["x", 2]]]],
        {"b": 1, "c": {"x": 2}},
        [["c", "x"], ["b"], ["a"]],
    ),
    (
        "keys are whatever they are",
        {"": 1, "a.b": 2, "*": 3},
        [["", 4, "a.b", 5], [], ["*"]],
        {"": 4, "a.b": 5},
        [[""], ["a.b"], ["*"]],
    ),
    (
        "a key that means something elsewhere",
        {"a": {}},
        [[], ["a", [["__proto__", {"x": 1}, "constructor", 2, "toString", 3]]]],
        {"a": {"__proto__": {"x": 1}, "constructor": 2, "toString": 3}},
        [["a", "__proto__"], ["a", "constructor"], ["a", "toString"]],
    ),
    (
        "and changes inside it",
        {"a": {"__proto__": {"x": 1}}},
        [[], ["a", [[], ["__proto__", [["x", 2]]]]]],
        {"a": {"__proto__": {"x": 2}}},
        [["a", "__proto__", "x"]],
    ),
]

_DEEP: list[Any] = [["a", 1]]
_DEEP_DATA: dict[str, Any] = {"a": 0}
for _ in range(33):
    _DEEP, _DEEP_DATA = [[], ["a", _DEEP]], {"a": _DEEP_DATA}

# Name, data before, what is not a node or does not fit, the error: "node" or "out_of_sync".
REFUSED_NODES: list[tuple[str, Any, Any, str]] = [
    ("null is not a node", {}, None, "node"),
    ("an object is not a node", {}, {}, "node"),
    ("an empty array is not a node", {}, [], "node"),
    ("six parts", {}, [[], [], [], [], [], []], "node"),
    ("a counted key without a node", {"a": {}}, [[], [], [], [], [0]], "node"),
    ("a counted key that is text", {"a": {}}, [[], [], [], [], ["a", [["b", 1]]]], "node"),
    ("a part that is not an array", {}, [[], {}], "node"),
    ("a key without a value", {}, [["a"]], "node"),
    ("a key without a node", {"a": {}}, [[], ["a"]], "node"),
    ("a node inside that is none", {"a": {}}, [[], ["a", 1]], "node"),
    ("a key that is null", {"a": {}}, [[None, 1]], "node"),
    ("a key that is true", {"a": {}}, [[True, 1]], "node"),
    ("a key that is a fraction", {"a": {}}, [[0.5, 1]], "node"),
    ("a place that is text", {"a": [1]}, [[], ["a", [["0", 1]]]], "node"),
    ("a splice without values", {"a": [1]}, [[], ["a", [[], [], [], [0, 1]]]], "node"),
    ("a splice whose values are none", {"a": [1]}, [[], ["a", [[], [], [], [0, 1, "x"]]]], "node"),
    ("a splice at a negative place", {"a": [1]}, [[], ["a", [[], [], [], [-1, 1, []]]]], "node"),
    ("nested too deep", _DEEP_DATA, _DEEP, "node"),
    ("into what is not there", {}, [[], ["a", [["b", 1]]]], "out_of_sync"),
    ("into what every object inherits", {}, [[], ["constructor", [["b", 1]]]], "out_of_sync"),
    ("into a prototype", {}, [[], ["__proto__", [["b", 1]]]], "out_of_sync"),
    ("into a number", {"a": 1}, [[], ["a", [["b", 1]]]], "out_of_sync"),
    ("into null", {"a": None}, [[], ["a", [["b", 1]]]], "out_of_sync"),
    ("a key that goes and is not there", {}, [[], [], ["a"]], "out_of_sync"),
    ("a prototype that goes", {}, [[], [], ["__proto__"]], "out_of_sync"),
    ("a place that goes", {"a": [1]}, [[], ["a", [[], [], [0]]]], "out_of_sync"),
    ("a place beyond the end", {"a": [1]}, [[], ["a", [[1, 2]]]], "out_of_sync"),
    ("a negative place", {"a": [1]}, [[], ["a", [[-1, 2]]]], "out_of_sync"),
    ("into a place beyond the end", {"a": [{}]}, [[], ["a", [[], [1, [[]]]]]], "out_of_sync"),
    ("a splice beyond the end", {"a": [1]}, [[], ["a", [[], [], [], [1, 1, []]]]], "out_of_sync"),
    ("a splice after the end", {"a": [1]}, [[], ["a", [[], [], [], [2, 0, [1]]]]], "out_of_sync"),
    ("a counted key that is not there", {"a": {}}, [[], [], [], [], [1, [["b", 1]]]], "out_of_sync"),
    ("a counted key of a negative number", {"a": {}}, [[], [], [], [], [-1, [["b", 1]]]], "out_of_sync"),
    ("counted keys of an array", {"a": [{}]}, [[], ["a", [[], [], [], [], [0, [["b", 1]]]]]], "out_of_sync"),
    ("a splice of an object", {"a": {}}, [[], ["a", [[], [], [], [0, 0, [1]]]]], "out_of_sync"),
]


class Card(msgspec.Struct):
    """One of many."""

    rank: int
    suit: str = "s"


class Table(msgspec.Struct, rename="camel"):
    """A state as games have it."""

    turn: int = 0
    open_cards: list[Card] = []
    by_name: dict[str, Card] = {}
    by_number: dict[int, float] = {}
    tiles: list[int] = []
    best: Card | None = None


def _cards(*ranks: int) -> list[Card]:
    return [Card(rank) for rank in ranks]


def _played() -> tuple[Table, Table]:
    cards = _cards(1, 2, 3, 4, 5)
    return Table(open_cards=cards), Table(turn=1, open_cards=[*cards[:1], *cards[2:], Card(6)])


# Name, a state before, and after: what a server may write.
CHANGES: list[tuple[str, Table, Table]] = [
    ("a server: one card is played and one drawn", *_played()),
    ("a server: fields of a Struct", Table(best=Card(1)), Table(turn=-5, best=Card(2))),
    ("a server: a Struct comes", Table(), Table(best=Card(1))),
    ("a server: a Struct goes", Table(best=Card(1)), Table()),
    (
        "a server: keys come, go and change",
        Table(by_name={"a": Card(1), "b": Card(2)}, by_number={1: 0.5, 2: 1.5}),
        Table(by_name={"b": Card(3), "c": Card(4)}, by_number={2: 2.5, 300: 0.1}),
    ),
    (
        "a server: a key that is a number too large for JavaScript",
        Table(by_number={2**53: 0.5, 2**53 - 1: 0.5}),
        Table(by_number={2**53: 1.5, 2**53 - 1: 1.5}),
    ),
    ("a server: few of many tiles", Table(tiles=[0] * 300), Table(tiles=[0] * 7 + [1] + [0] * 200 + [2] + [0] * 91)),
    ("a server: neighbouring tiles", Table(tiles=[0] * 20), Table(tiles=[0] * 5 + [1] * 6 + [0] * 9)),
    ("a server: a list becomes shorter", Table(open_cards=_cards(1, 2, 3, 4)), Table(open_cards=_cards(1, 4))),
    ("a server: a list is emptied", Table(open_cards=_cards(1, 2)), Table(open_cards=[])),
]

_FIRST: dict[str, Any] = {
    "state": {"turn": 1},
    "players": {"a": {"score": 0}, "b": {"score": 0}},
    "mine": {"hand": [1]},
}
_FIRST_BODY: list[Any] = [
    2,
    [["state", {"turn": 1}, "players", {"a": {"score": 0}, "b": {"score": 0}}]],
    [["mine", {"hand": [1]}]],
]


def _step(body: Any, root: Any = None, error: str = "", **told: list[list[Any]]) -> dict[str, Any]:
    return {"body": body, "root": root, "told": told, "error": error}


# Listeners by a name each; then messages, the data after each, and what each listener hears: null for what is gone.
MIRRORS: list[dict[str, Any]] = [
    {
        "name": "listeners hear of the first view, of changes below them, and of what is gone",
        "listen": {"each": "players.*", "score": "players.*.score", "a": "players.a", "turn": "state.turn", "all": ""},
        "steps": [
            _step(
                _FIRST_BODY,
                _FIRST,
                each=[[{"score": 0}, "a"], [{"score": 0}, "b"]],
                score=[[0, "a"], [0, "b"]],
                a=[[{"score": 0}]],
                turn=[[1]],
                all=[[[[], ["state"], ["players"], ["mine"]]]],
            ),
            _step(
                [0, [[], ["players", [[], ["a", [["score", 5]]]]]]],
                {**_FIRST, "players": {"a": {"score": 5}, "b": {"score": 0}}},
                each=[[{"score": 5}, "a"]],
                score=[[5, "a"]],
                a=[[{"score": 5}]],
                all=[[[["players", "a", "score"]]]],
            ),
            _step(
                [0, [[], ["players", [["c", {"score": 1}], [], ["a"]]]]],
                {**_FIRST, "players": {"b": {"score": 0}, "c": {"score": 1}}},
                each=[[{"score": 1}, "c"], [None, "a"]],
                score=[[1, "c"], [None, "a"]],
                a=[[None]],
                all=[[[["players", "c"], ["players", "a"]]]],
            ),
            _step([0, [[]]], {**_FIRST, "players": {"b": {"score": 0}, "c": {"score": 1}}}),
            _step(
                [2, [["state", {"turn": 2}, "players", {"b": {"score": 3}}]]],
                {"state": {"turn": 2}, "players": {"b": {"score": 3}}},
                each=[[{"score": 3}, "b"], [None, "c"]],
                score=[[3, "b"], [None, "c"]],
                turn=[[2]],
                all=[[[[], ["state"], ["players"]]]],
            ),
        ],
    },
    {
        "name": "a view in parts is told of when it is complete",
        "listen": {"each": "players.*", "all": ""},
        "steps": [
            _step([3, [["state", {"turn": 1}, "players", {}]]], {"state": {"turn": 1}, "players": {}}),
            _step([1, [[], ["players", [["a", 1]]]]], {"state": {"turn": 1}, "players": {"a": 1}}),
            _step(
                [0, [[], ["players", [["b", 2]]]], [["mine", 3]]],
                {"state": {"turn": 1}, "players": {"a": 1, "b": 2}, "mine": 3},
                each=[[1, "a"], [2, "b"]],
                all=[[[[], ["state"], ["players"], ["players", "a"], ["players", "b"], ["mine"]]]],
            ),
        ],
    },
    {
        "name": "places of a list",
        "listen": {
            "card": "state.cards.*",
            "rank": "state.cards.*.rank",
            "third": "state.cards.2",
            "list": "state.cards",
        },
        "steps": [
            _step(
                [2, [["state", {"cards": [{"rank": 1}, {"rank": 2}]}]]],
                {"state": {"cards": [{"rank": 1}, {"rank": 2}]}},
                card=[[{"rank": 1}, 0], [{"rank": 2}, 1]],
                rank=[[1, 0], [2, 1]],
                list=[[[{"rank": 1}, {"rank": 2}]]],
            ),
            _step(
                [0, [[], ["state", [[], ["cards", [[], [0, [["rank", 9]]], [], [1, 0, [{"rank": 5}]]]]]]]],
                {"state": {"cards": [{"rank": 9}, {"rank": 5}, {"rank": 2}]}},
                card=[[{"rank": 5}, 1], [{"rank": 2}, 2], [{"rank": 9}, 0]],
                rank=[[5, 1], [2, 2], [9, 0]],
                third=[[{"rank": 2}]],
                list=[[[{"rank": 9}, {"rank": 5}, {"rank": 2}]]],
            ),
            _step(
                [0, [[], ["state", [[], ["cards", [[], [], [], [1, 1, [{"rank": 6}]]]]]]]],
                {"state": {"cards": [{"rank": 9}, {"rank": 6}, {"rank": 2}]}},
                card=[[{"rank": 6}, 1]],
                rank=[[6, 1]],
                list=[[[{"rank": 9}, {"rank": 6}, {"rank": 2}]]],
            ),
            _step(
                [0, [[], ["state", [[], ["cards", [[], [], [], [1, 2, []]]]]]]],
                {"state": {"cards": [{"rank": 9}]}},
                card=[[None, 1], [None, 2]],
                third=[[None]],
                list=[[[{"rank": 9}]]],
            ),
        ],
    },
    {
        "name": "a change that does not fit is refused, and everything after it until the next whole view",
        "listen": {"all": ""},
        "steps": [
            _step([0, [["state", 1]]], error="out_of_sync"),
            _step([2, [["state", {"turn": 1}]]], {"state": {"turn": 1}}, all=[[[[], ["state"]]]]),
            _step([0, [[], ["players", [["a", 1]]]]], error="out_of_sync"),
            _step([0, [["state", 2]]], error="out_of_sync"),
            _step([2, [["state", {"turn": 3}]]], {"state": {"turn": 3}}, all=[[[[], ["state"]]]]),
        ],
    },
    {
        "name": "what is not a message of changes is refused",
        "listen": {},
        "steps": [
            _step(None, error="node"),
            _step([2], error="node"),
            _step(["2", [[]]], error="node"),
            _step([2, [[]], [[]], [[]]], error="node"),
            _step([2, {}], error="node"),
        ],
    },
]
