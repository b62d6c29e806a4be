"""The few lines with which docs/protocol.md shows how to follow a state are right."""

import json
import re
from pathlib import Path
from typing import Any

from tests.cases import every_case
from tests.core.vectors import Case, cases

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text("utf-8")


def shown_apply() -> Any:
    (code,) = re.findall(r"```python\n(def apply.*?)```", PAGE, flags=re.DOTALL)
    found: dict[str, Any] = {}
    exec(code, found)  # noqa: S102 - what the page shows is what is tested
    return found["apply"]


APPLY = shown_apply()


@every_case("case", cases("state/nodes.json"), ids=lambda case: str(case["name"]))
def test_the_code_on_the_page_does_what_the_vectors_say(case: Case) -> None:
    data = json.loads(json.dumps(case["before"]))

    APPLY(data, json.loads(case["json"]))

    assert data == case["after"]
