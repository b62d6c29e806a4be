"""docs/reference/hooks.md has every hook of a room, each with an example that runs."""

import re
from pathlib import Path

import pytest

from holdfast import Room
from holdfast.core.handlers import hooks_of
from tests.docs.framed import Example, examples

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "hooks.md"
EXAMPLES = examples(PAGE)


def test_every_hook_has_a_place_a_signature_and_an_example() -> None:
    text = PAGE.read_text()
    hooks = set(hooks_of(Room))

    assert set(re.findall(r"^### (\w+)$", text, re.MULTILINE)) == hooks
    assert set(re.findall(r"^\.\. automethod:: holdfast\.Room\.(\w+)$", text, re.MULTILINE)) == hooks
    assert {example.anchor for example in EXAMPLES} == hooks


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.anchor for example in EXAMPLES])
def test_an_example_uses_its_hook_claims_something_and_runs(example: Example) -> None:
    assert f"def {example.anchor}(self" in example.code
    assert "assert " in example.code

    example.run_in_memory()
