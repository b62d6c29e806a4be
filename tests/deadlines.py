"""How long to wait for what should happen at once: what waits for ever is a failure, not a hang.

Generous, because the machine may be busy, and only ever used up by a test that fails.
"""

import asyncio
import functools
import inspect
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

DEADLINE_S = 60.0
"""For one thing that a test waits for."""

TEST_S = 200.0
"""For a whole test; pytest itself ends what takes longer than `faulthandler_timeout`."""


def set_deadline(items: list[pytest.Item], folder: Path) -> None:
    """Give every asynchronous test below a folder its time, and no more."""
    # All items of the session are passed, and `Path.parents` is slow.
    inside = f"{folder}{os.sep}"
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and str(item.path).startswith(inside)
            and inspect.iscoroutinefunction(item.obj)
        ):
            item.obj = _with_deadline(item.obj)


def _with_deadline(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def run(**fixtures: Any) -> None:
        async with asyncio.timeout(TEST_S):
            await test(**fixtures)

    return run
