"""`Parts`: a mapping like any other, which remembers what was looked at."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Parts
from holdfast.core.saved_types import parts_of
from tests.cases import every_case


class Chunk(msgspec.Struct):
    blocks: list[int] = []


class World(msgspec.Struct):
    name: str = ""
    chunks: Parts[Chunk] = msgspec.field(default_factory=Parts)
    guilds: Parts[list[str]] = msgspec.field(default_factory=Parts)


def saved(**entries: Any) -> Parts[Any]:
    """Parts that were saved and not touched since."""
    parts: Parts[Any] = Parts(entries)
    parts.taken()
    return parts


# A mapping


def test_parts_are_a_mapping() -> None:
    parts: Parts[int] = Parts({"a": 1})

    parts["b"] = 2
    parts.update(c=3)
    del parts["a"]

    assert dict(parts) == {"b": 2, "c": 3}
    assert list(parts) == ["b", "c"]
    assert list(parts.values()) == [2, 3]
    assert list(parts.items()) == [("b", 2), ("c", 3)]
    assert len(parts) == 2
    assert "b" in parts
    assert "a" not in parts
    assert (parts.get("b"), parts.get("a"), parts.get("a", 7)) == (2, None, 7)
    assert parts.setdefault("b", 9) == 2
    assert parts.setdefault("d", 9) == 9
    assert parts.pop("d") == 9
    assert parts.pop("d", 0) == 0
    assert parts.popitem() in {("b", 2), ("c", 3)}
    parts.clear()
    assert not parts


def test_what_is_not_there_is_a_key_error() -> None:
    parts: Parts[int] = Parts()

    for use in (parts.__getitem__, parts.__delitem__, parts.pop):
        with pytest.raises(KeyError):
            use("a")
    with pytest.raises(KeyError):
        parts.popitem()


def test_deleting_what_is_not_there_is_a_key_error_and_touches_nothing() -> None:
    parts = saved()

    with pytest.raises(KeyError):
        del parts["a"]

    assert parts.touched() == {}


def test_parts_compare_as_mappings_do() -> None:
    assert Parts({"a": 1}) == Parts({"a": 1}) == {"a": 1}
    assert Parts({"a": 1}) != Parts({"a": 2})
    assert Parts({"a": 1}) != {"b": 1}
    assert Parts() != []


def test_parts_cannot_be_a_key() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Parts())


def test_parts_show_what_they_hold() -> None:
    assert repr(Parts({"a": [1]})) == "Parts({'a': [1]})"


def test_parts_are_their_own_copy() -> None:
    entries = {"a": 1}

    parts = Parts(entries)
    entries["b"] = 2

    assert parts == {"a": 1}


def test_a_deep_copy_is_another_world() -> None:
    parts = saved(a=Chunk([1]))

    other = copy.deepcopy(parts)
    other["a"].blocks.append(2)

    assert parts.peek("a") == Chunk([1])
    assert other.peek("a") == Chunk([1, 2])


@pytest.mark.parametrize("entries", [{"a": None}, {"a": 1, "b": None}])
def test_none_is_refused_for_it_means_gone(entries: Any) -> None:
    parts: Parts[Any] = Parts({"a": 1})

    with pytest.raises(TypeError, match="cannot be None: delete it instead"):
        parts["a"] = None
    with pytest.raises(TypeError, match="cannot be None: delete it instead"):
        parts.setdefault("b")
    with pytest.raises(TypeError, match="cannot be None"):
        Parts(entries)
    assert parts == {"a": 1}


@pytest.mark.parametrize("key", [7, b"a", None, (1, 2)])
def test_a_name_that_is_not_text_is_refused(key: Any) -> None:
    parts: Parts[int] = Parts()

    with pytest.raises(TypeError, match="must be a str"):
        parts[key] = 1
    with pytest.raises(TypeError, match="must be a str"):
        Parts({key: 1})
    assert key not in parts
    assert not parts


# What was looked at


def test_new_parts_are_to_be_saved_whole() -> None:
    assert Parts({"a": 1, "b": 2}).touched() == {"a": 1, "b": 2}


def test_what_was_taken_is_not_touched_any_more() -> None:
    parts: Parts[int] = Parts({"a": 1})

    parts.taken()

    assert parts.touched() == {}
    assert parts == {"a": 1}


def test_asking_what_was_touched_forgets_nothing() -> None:
    # A commit that cannot be made, because something cannot be saved, must be made up for by the next.
    parts: Parts[int] = Parts({"a": 1})

    assert parts.touched() == parts.touched() == {"a": 1}


TOUCHING: dict[str, tuple[Any, dict[str, Any]]] = {
    "fetch": (lambda parts: parts["a"], {"a": [1]}),
    "change": (lambda parts: parts["a"].append(2), {"a": [1, 2]}),
    "get": (lambda parts: parts.get("a"), {"a": [1]}),
    "setdefault": (lambda parts: parts.setdefault("a", []), {"a": [1]}),
    "setdefault new": (lambda parts: parts.setdefault("c", [3]), {"c": [3]}),
    "set": (lambda parts: parts.__setitem__("a", [9]), {"a": [9]}),
    "delete": (lambda parts: parts.__delitem__("a"), {"a": None}),
    "pop": (lambda parts: parts.pop("a"), {"a": None}),
    "update": (lambda parts: parts.update(b=[8], c=[9]), {"b": [8], "c": [9]}),
    "clear": (lambda parts: parts.clear(), {"a": None, "b": None}),
    "values": (lambda parts: list(parts.values()), {"a": [1], "b": [2]}),
    "items": (lambda parts: list(parts.items()), {"a": [1], "b": [2]}),
}


@every_case(("use", "touched"), TOUCHING.values(), ids=TOUCHING)
def test_whatever_hands_an_entry_out_touches_it(use: Any, touched: dict[str, Any]) -> None:
    parts = saved(a=[1], b=[2])

    use(parts)

    assert parts.touched() == touched


READING: dict[str, Any] = {
    "peek": lambda parts: parts.peek("a"),
    "peek at nothing": lambda parts: parts.peek("c"),
    "in": lambda parts: "a" in parts,
    "get nothing": lambda parts: parts.get("c"),
    "iterate": list,
    "keys": lambda parts: list(parts.keys()),
    "len": len,
    "repr": repr,
    "compare": lambda parts: parts == {"a": [1]},
}


@every_case("use", READING.values(), ids=READING)
def test_what_hands_no_entry_out_to_be_changed_touches_none(use: Any) -> None:
    parts = saved(a=[1], b=[2])

    use(parts)

    assert parts.touched() == {}


def test_a_peek_shows_the_entry_or_nothing() -> None:
    parts = saved(a=[1])

    assert parts.peek("a") == [1]
    assert parts.peek("b") is None


def test_what_came_and_went_between_two_commits_is_gone() -> None:
    parts = saved()

    parts["a"] = 1
    del parts["a"]

    assert parts.touched() == {"a": None}


def test_what_went_and_came_back_is_there() -> None:
    parts = saved(a=1)

    del parts["a"]
    parts["a"] = 2

    assert parts.touched() == {"a": 2}


def test_what_was_touched_comes_in_the_order_it_was() -> None:
    names = [f"chunk {number * 7919 % 100}" for number in range(100)]
    parts: Parts[int] = Parts()

    for number, name in enumerate(names):
        parts[name] = number

    assert list(parts.touched()) == names


def test_what_is_filled_in_was_saved_already() -> None:
    parts: Parts[int] = Parts({"old": 0})

    parts.fill({"a": 1})

    assert parts == {"a": 1}
    assert parts.touched() == {}


@given(
    commits=st.lists(
        st.lists(
            st.tuples(st.sampled_from(["set", "delete", "change", "look"]), st.sampled_from("abcd"), st.integers())
        ),
        max_size=6,
    )
)
def test_whoever_writes_what_was_touched_has_what_is_there(commits: list[list[tuple[str, str, int]]]) -> None:
    parts: Parts[list[int]] = Parts()
    store: dict[str, list[int]] = {}

    for steps in commits:
        for step, name, number in steps:
            if step == "set":
                parts[name] = [number]
            elif step == "delete":
                parts.pop(name, None)
            elif step == "change" and name in parts:
                parts[name].append(number)
            else:
                parts.peek(name)
        for name, value in parts.touched().items():
            store.pop(name, None)
            if value is not None:
                store[name] = list(value)
        parts.taken()

        assert parts == store


# In a state


def test_the_parts_of_a_state_are_found_by_their_field() -> None:
    world = World("north", Parts({"0,0": Chunk()}))

    assert parts_of(world) == {"chunks": world.chunks, "guilds": world.guilds}
    assert parts_of(world)["chunks"] is world.chunks


@pytest.mark.parametrize("state", [None, 7, {"chunks": Parts()}, [Parts()], Chunk()])
def test_a_state_without_such_fields_has_no_parts(state: Any) -> None:
    assert parts_of(state) == {}
