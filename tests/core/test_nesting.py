from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Message
from holdfast.core.codec import CODECS, JSON, MSGPACK, Codec
from holdfast.core.handlers import Handler, bounded
from holdfast.core.nesting import can_nest, check_nesting

codecs = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)


class Leaf(msgspec.Struct):
    x: int = 0


class Tree(msgspec.Struct):
    branches: "list[Tree]" = []


class Move(Message):
    x: float
    path: list[tuple[int, int]]
    names: dict[str, Leaf]
    leaf: Leaf | None = None


class Wish(Message):
    what: Any = None


class Plant(Message):
    tree: Tree


class Pile(Message):
    things: dict[str, list[Any]]


class Sealed(Message):
    body: msgspec.Raw


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"in": value}
    return value


def is_refused(codec: Codec, value: Any, depth_max: int) -> bool:
    try:
        check_nesting(codec, codec.encode(value), depth_max)
    except msgspec.ValidationError:
        return True
    return False


def test_only_a_type_with_anything_in_it_or_with_itself_in_it_can_be_nested() -> None:
    assert [can_nest(kind) for kind in (Move, Leaf, int)] == [False, False, False]
    assert [can_nest(kind) for kind in (Wish, Plant, Pile, Sealed, Tree, Any)] == [True] * 6


@codecs
@pytest.mark.parametrize(("depth", "expected"), [(0, False), (31, False), (32, False), (33, True), (900, True)])
def test_a_body_may_be_nested_as_deep_as_the_limit(codec: Codec, depth: int, expected: bool) -> None:
    assert is_refused(codec, nested(depth), 32) is expected


@codecs
def test_a_body_that_is_wide_is_not_deep(codec: Codec) -> None:
    assert not is_refused(codec, [[number] for number in range(10_000)], 32)


def test_brackets_in_a_text_are_no_levels() -> None:
    assert not is_refused(JSON, ["[" * 100, "{" * 100], 32)


def test_bytes_that_look_like_levels_are_none() -> None:
    assert not is_refused(MSGPACK, [b"\x91" * 100, "x"], 32)


def test_levels_may_hide_in_the_keys_of_a_map() -> None:
    key = b"\x91" * 40 + b"\x01"
    with pytest.raises(msgspec.ValidationError):
        check_nesting(MSGPACK, b"\x81" + key + b"\x01", 32)


@codecs
def test_deeper_than_the_interpreter_goes_is_too_deep(codec: Codec) -> None:
    deep = b"[" * 10_000 + b"]" * 10_000 if codec.text else b"\x91" * 10_000 + b"\xc0"

    with pytest.raises(msgspec.ValidationError):
        check_nesting(codec, deep, 32)


@codecs
def test_what_is_broken_is_left_to_whoever_decodes_it(codec: Codec) -> None:
    check_nesting(codec, b"[" * 40 if codec.text else b"\x92" * 40, 32)


@codecs
def test_handlers_that_need_it_get_decoders_that_look_at_the_depth(codec: Codec) -> None:
    def method() -> None:
        """Never called."""

    decoders = {kind: {each: each.body_decoder(kind) for each in (MSGPACK, JSON)} for kind in (Move, Wish)}
    handlers = {kind.wire_name: Handler(kind, method, decoders[kind], "", can_nest(kind)) for kind in (Move, Wish)}

    checked = bounded(handlers, 4)

    assert checked["move"] is handlers["move"]
    decoder = checked["wish"].decoders[codec]
    assert decoder.decode(codec.encode(Wish([[[1]]]))) == Wish([[[1]]])
    with pytest.raises(msgspec.ValidationError, match="nested more than 4 deep"):
        decoder.decode(codec.encode(Wish([[[["a long enough text"]]]])))


def depth_of(value: Any) -> int:
    match value:
        case list():
            return 1 + max(map(depth_of, value), default=0)
        case dict():
            return 1 + max(map(depth_of, value.values()), default=0)
        case _:
            return 0


values = st.recursive(
    st.integers(-5, 5) | st.text(max_size=3) | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=40,
)


@given(value=values, depth_max=st.integers(1, 6), codec=st.sampled_from([MSGPACK, JSON]))
def test_what_is_refused_is_what_is_deeper(value: Any, depth_max: int, codec: Codec) -> None:
    assert is_refused(codec, value, depth_max) is (depth_of(value) > depth_max)
