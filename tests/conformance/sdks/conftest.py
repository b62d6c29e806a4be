from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.core.protobuf import PROTOBUF
from tests.conformance.sdks.programs import SDKS, Program, build_js, program, why_not
from tests.deadlines import set_deadline


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    set_deadline(items, Path(__file__).parent)


@pytest.fixture(params=SDKS)
def sdk(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if reason := why_not(name):
        pytest.skip(reason)
    codec = request.node.callspec.params.get("codec")
    if name == "javascript" and codec == PROTOBUF.name:
        pytest.skip("the JavaScript SDK has no protobuf")
    if name == "javascript":
        build_js()
    return name


@pytest.fixture
def javascript() -> None:
    """The JavaScript SDK can be run, and is built."""
    if reason := why_not("javascript"):
        pytest.skip(reason)
    build_js()


@pytest.fixture
async def client(sdk: str) -> AsyncIterator[Program]:
    async with program(sdk) as running:
        yield running
