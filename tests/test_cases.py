"""Many cases in one test: each is tried, and the one that fails is named."""

import asyncio
import inspect

import pytest

from tests.cases import every_case


def test_every_case_is_tried_with_whatever_else_the_test_takes() -> None:
    seen: list[tuple[int, str, str]] = []

    @every_case("number", [1, 2])
    @every_case(("first", "second"), [("a", "b"), ("c", "d")])
    def test(number: int, first: str, second: str, fixture: list[tuple[int, str, str]]) -> None:
        fixture.append((number, first, second))

    test(fixture=seen)

    assert list(inspect.signature(test).parameters) == ["fixture"]
    assert seen == [(1, "a", "b"), (1, "c", "d"), (2, "a", "b"), (2, "c", "d")]


def test_a_case_that_fails_fails_the_test_and_is_named() -> None:
    @every_case("number", [1, 2, 3], ids=["one", "two", "three"])
    def test(number: int) -> None:
        assert number != 2

    @every_case("number", [1, 2, 3])
    async def test_async(number: int) -> None:
        assert number != 2

    with pytest.raises(AssertionError) as failed:
        test()
    with pytest.raises(AssertionError) as failed_async:
        asyncio.run(test_async())

    assert failed.value.__notes__ == ["the case: two"]
    assert failed_async.value.__notes__ == ["the case: 2"]


def test_a_claim_about_no_case_is_an_error() -> None:
    with pytest.raises(AssertionError, match="nothing"):
        every_case("number", [])
