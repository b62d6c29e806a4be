"""Nodes applied to plain data: what they mean is in the vectors; here, whatever a hostile server might send."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.state import DEPTH_MAX, NotANode, OutOfSync, apply
from tests.cases import every_case

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.sampled_from(["a", "b", "0", "1"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["a", "b", "0"]), inner),
    max_leaves=20,
)


def nested(levels: int) -> list[Any]:
    node: list[Any] = [["a", 1]]
    for _ in range(levels):
        node = [[], ["a", node]]
    return node


def test_a_node_may_be_as_deep_as_a_state() -> None:
    data: Any = {"a": 0}
    for _ in range(DEPTH_MAX):
        data = {"a": data}

    apply(data, nested(DEPTH_MAX))

    for _ in range(DEPTH_MAX):
        data = data["a"]
    assert data == {"a": 1}


def test_a_node_that_is_nested_deeper_is_refused() -> None:
    data: Any = {}
    data["a"] = data

    with pytest.raises(NotANode, match="32 levels"):
        apply(data, nested(DEPTH_MAX + 1))


@every_case("node", [None, {}, "x", 1, [], [None], [[], {}], [[]] * 6, [["a"]], [[], ["a"]], [[], [], [], [0]]])
def test_what_has_not_the_form_of_a_node_is_refused(node: Any) -> None:
    with pytest.raises(NotANode):
        apply({"a": {}}, node)


@every_case("key", [None, 1.5, True, [], {}])
def test_keys_are_text_or_whole_numbers(key: Any) -> None:
    for node in ([[key, 1]], [[], [key, [[]]]], [[], [], [key]]):
        with pytest.raises((NotANode, OutOfSync)):
            apply({"a": 1}, node)
        with pytest.raises((NotANode, OutOfSync)):
            apply([1], node)


@given(PLAIN, PLAIN)
def test_nothing_but_the_two_errors_comes_of_it(data: Any, node: Any) -> None:
    if isinstance(data, dict | list):
        with suppress(NotANode, OutOfSync):
            apply(data, node)
