"""Whatever MessagePack can say survives as JSON."""

import json
from datetime import UTC, datetime
from math import nan
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import Ext

from holdfast.core.room_file import NotTagged, from_json, seconds_of, seconds_text, to_json
from tests.cases import every_case

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.just(nan)  # there are many, and one stands for all
    | st.text()
    | st.sampled_from(["$", "$bytes", "$map", "$int"])
    | st.binary()
    | st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds are naive
    | st.builds(Ext, st.integers(0, 127), st.binary())
)
KEYS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary() | st.just("$bytes"),
    lambda keys: st.lists(keys, max_size=2).map(tuple),
    max_leaves=3,
)
VALUES = st.recursive(
    SCALARS, lambda values: st.lists(values, max_size=4) | st.dictionaries(KEYS, values, max_size=4), max_leaves=12
)


@given(VALUES)
def test_every_value_comes_back_to_the_byte(value: Any) -> None:
    stored = msgspec.msgpack.encode(value)

    text = json.dumps(to_json(msgspec.msgpack.decode(stored)), allow_nan=False)

    assert msgspec.msgpack.encode(from_json(json.loads(text), "value")) == stored


def test_plain_values_are_themselves() -> None:
    plain = {"name": "Ada", "hp": 100, "place": [1.5, -2.0], "team": None, "alive": True, "costs $": {}}

    assert to_json(plain) == plain


@every_case(
    ("value", "written"),
    [
        (b"hello", {"$bytes": "aGVsbG8="}),
        ({"$bytes": "not"}, {"$map": [["$bytes", "not"]]}),
        ({1: "one"}, {"$map": [[1, "one"]]}),
        (2**53, 2**53),
        (2**53 + 1, {"$int": "9007199254740993"}),
        (float("-inf"), {"$float": "-inf"}),
        (datetime(2026, 11, 15, tzinfo=UTC), {"$time": "2026-11-15T00:00:00Z"}),
    ],
)
def test_what_json_lacks_is_tagged(value: Any, written: Any) -> None:
    assert to_json(value) == written


@every_case(
    ("value", "says"),
    [
        ({"$bytes": "?"}, r"state\.x\[0\]: invalid '\$bytes': it is not base64"),
        ({"$bytes": 5}, r"invalid '\$bytes'"),
        ({"$int": "many"}, r"invalid '\$int'"),
        ({"$time": "2026-11-15T12:00:00"}, "a time needs a time zone"),
        ({"$ext": [1]}, r"invalid '\$ext'"),
        ({"$map": [1]}, r"invalid '\$map'"),
        ({"$map": [[{}, 1]]}, r"invalid '\$map'"),
        ({"$map": [[1, {"$int": "x"}]]}, r"state\.x\[0\]\[0\]: invalid '\$int'"),
        ({"$byte": ""}, r"unknown tag '\$byte'; use one of \$bytes, "),
        ({"$int": "1", "x": 2}, "must be the only key"),
    ],
)
def test_what_stands_for_nothing_is_named_with_its_place(value: Any, says: str) -> None:
    with pytest.raises(NotTagged, match=says):
        from_json({"x": [value]}, "state")


def test_seconds_are_kept_to_the_microsecond() -> None:
    assert seconds_text(1_763_200_000.25) == "2025-11-15T09:46:40.250000Z"
    assert seconds_of(seconds_text(1_763_200_000.123456)) == 1_763_200_000.123456
