from itertools import islice, product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Message
from holdfast.core.codec import DECODE_ERRORS, JSON, MSGPACK, Codec
from holdfast.core.handlers import Handler, bounded
from holdfast.core.nesting import can_nest, check_nesting
from tests.cases import every_case
from tests.fuzz.targets import bodies

# That of protobuf counts for itself: see test_protobuf.py.
codecs = pytest.mark.parametrize("codec", [MSGPACK, JSON], ids=lambda codec: codec.name)


class Leaf(msgspec.Struct):
    x: int = 0


class Tree(msgspec.Struct):
    branches: "list[Tree]" = []


class Move(Message):
    x: float
    path: list[tuple[int, int]]
    names: dict[str, Leaf]
    leaf: Leaf | None = None


class Say(Message):
    text: str


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


def nested_around(text: str, depth: int) -> Any:
    value: Any = text
    for _ in range(depth):
        value = {text: value, f"{text}]": f"[{text}"}
    return value


msgpack_values = st.recursive(
    st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.booleans()
    | st.text()
    | st.sampled_from([10, 40, 300, 70_000]).map(lambda size: "x" * size)
    | st.sampled_from([0, 10, 300, 70_000]).map(lambda size: b"x" * size)
    | st.sampled_from([0, 1, 2, 3, 4, 8, 16, 300, 70_000]).map(lambda size: msgspec.msgpack.Ext(5, b"x" * size))
    | st.datetimes(),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=2) | st.integers(0, 99), inner),
    max_leaves=10,
)


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
def test_what_is_wrong_and_flat_is_left_to_whoever_decodes_it(codec: Codec) -> None:
    # Numbers that are too large, and a time that is none.
    wrong = b"[" + b"[1e999]," * 40 + b"1]" if codec.text else b"\xdc\x00\x28" + b"\x91\xd7\xff" + b"\xff" * 8

    check_nesting(codec, wrong, 32)


@codecs
def test_nothing_that_is_wrong_elsewhere_hides_what_is_too_deep(codec: Codec) -> None:
    """A field that nobody knows is passed over when a message is read, whatever is in it."""
    if codec.text:
        body = b'{"unknown":1e999,"what":' + b"[" * 40 + b"]" * 40 + b"}"
    else:
        body = b"\x82" + MSGPACK.encode("unknown") + b"\xd7\xff" + b"\xff" * 8
        body += MSGPACK.encode("what") + b"\x91" * 40 + b"\xc0"

    with pytest.raises(msgspec.ValidationError, match="nested more than 32 levels deep"):
        check_nesting(codec, body, 32)


def colliding_keys(count: int) -> bytes:
    """A map of MessagePack whose keys are arrays that all have the same hash, as tuples: -1 and -2 have."""
    keys = islice(product(b"\xff\xfe", repeat=12), count)
    return b"\xde" + count.to_bytes(2, "big") + b"".join(b"\x9c" + bytes(key) + b"\x01" for key in keys)


@pytest.mark.parametrize("wrapped", [b"", b"\x81\xa4what"])
def test_arrays_are_no_keys_for_they_can_be_made_to_collide(wrapped: bytes) -> None:
    with pytest.raises(msgspec.ValidationError, match="a key of a map is an array"):
        check_nesting(MSGPACK, wrapped + colliding_keys(4000), 32)


@given(value=msgpack_values, depth_max=st.integers(1, 6))
def test_whatever_can_be_said_in_messagepack_is_looked_through_to_its_end(value: Any, depth_max: int) -> None:
    body = MSGPACK.encode([value, "the end", nested(depth_max)])

    with pytest.raises(msgspec.ValidationError, match="nested"):
        check_nesting(MSGPACK, body, depth_max)


@given(text=st.text(), depth_max=st.integers(1, 6))
def test_no_text_hides_a_level_or_looks_like_one(text: str, depth_max: int) -> None:
    assert not is_refused(JSON, nested_around(text, depth_max), depth_max)
    assert is_refused(JSON, nested_around(text, depth_max + 1), depth_max)


@codecs
def test_handlers_that_need_it_get_decoders_that_look_at_the_depth(codec: Codec) -> None:
    def method() -> None:
        """Never called."""

    decoders = {kind: {each: each.body_decoder(kind) for each in (MSGPACK, JSON)} for kind in (Say, Wish)}
    handlers = {kind.wire_name: Handler(kind, method, decoders[kind], "", can_nest(kind)) for kind in (Say, Wish)}

    checked = bounded(handlers, 4)

    assert checked["say"] is handlers["say"]
    decoder = checked["wish"].decoders[codec]
    assert decoder.decode(codec.encode(Wish([[[1]]]))) == Wish([[[1]]])
    with pytest.raises(msgspec.ValidationError, match="nested more than 4 levels deep"):
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


# Keys and extensions


class Anything(Message):
    value: Any = None


class Numbered(Message):
    names: dict[int, str]
    value: Any = None


class Loose(Message):
    names: dict  # type: ignore[type-arg]  # what games write


def decode(kind: type[Message], body: Any) -> Any:
    handler = Handler(kind, print, {MSGPACK: MSGPACK.body_decoder(kind)}, "", can_nest(kind))
    (ready,) = bounded({"x": handler}, 32).values()
    return ready.decoders[MSGPACK].decode(body if isinstance(body, bytes) else msgspec.msgpack.encode(body))


ODD_KEYS = [
    *(b"\x01", b"\xff", b"\xcc\x80", b"\xc0", b"\xc2", b"\xc3", b"\xca\x00\x00\x00\x00", b"\xcb" + bytes(8)),
    *(b"\xc4\x01a", b"\xd6\xff\x00\x00\x00\x01", b"\x91\x01", b"\x80", b"\xd4\x05\x00"),
]


@every_case("key", ODD_KEYS)
@every_case("place", [b"%b", b"\x91%b", b"\x81\xa1a%b"], ids=["itself", "in a list", "in a map"])
def test_where_anything_may_be_said_a_key_is_text(key: bytes, place: bytes) -> None:
    odd = place % (b"\x81" + key + b"\x01")

    with pytest.raises(DECODE_ERRORS):
        decode(Anything, b"\x81\xa5value" + odd)
    with pytest.raises(DECODE_ERRORS):
        decode(Loose, b"\x81\xa5names" + odd)


def test_keys_that_a_game_has_named_are_what_it_has_named() -> None:
    said = decode(Numbered, {"names": {1: "one"}, "value": {"a": [{"b": 1}]}})

    assert (said.names, said.value) == ({1: "one"}, {"a": [{"b": 1}]})


@pytest.mark.parametrize("value", [{}, {"a": {"ß": None}}, ["\x81\x01"], b"\x81\x01\x81", {"": [{}, [], 1.5]}])
def test_what_json_can_say_is_said(value: Any) -> None:
    assert decode(Anything, {"value": value}).value == value


@every_case("kind", [Anything, Loose])
@every_case("extension", [b"\xd4\x05\x00", b"\xc7\x03\x01abc", b"\xd6\x80\x00\x00\x00\x01"])
def test_an_extension_is_refused(kind: type[Message], extension: bytes) -> None:
    field = b"\xa5value" if kind is Anything else b"\xa5names"

    with pytest.raises(DECODE_ERRORS):
        decode(kind, b"\x81" + field + b"\x81\xa1a" + extension)


@given(st.binary(max_size=60))
def test_what_is_let_through_can_be_said_in_every_dialect(noise: bytes) -> None:
    bodies(b"\x81\xa5value" + noise)
