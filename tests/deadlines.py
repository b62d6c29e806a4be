"""No test of a folder takes longer than this, however it fails: what waits for ever is a failure, not a hang."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest


def set_deadline(items: list[pytest.Item], folder: Path, seconds: float) -> None:
    """Give every asynchronous test below a folder so much time."""
    for item in items:
        if folder in item.path.parents and isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = _with_deadline(item.obj, seconds)


def _with_deadline(test: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def run(**fixtures: Any) -> None:
        async with asyncio.timeout(seconds):
            await test(**fixtures)

    return run
