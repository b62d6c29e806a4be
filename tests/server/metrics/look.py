"""Looks at a node's metrics: one value, or all of them as Prometheus would see them."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from holdfast import Server
from holdfast.core.metrics import Reading, Spread
from holdfast.observability.metrics import read_metrics
from holdfast.testing import run


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    async def limited(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(3600.0):
            await test(*args, **kwargs)

    @wraps(test)
    def plain(*args: Any, **kwargs: Any) -> None:
        run(limited(*args, **kwargs))

    return plain


class Look:
    """What a node shows at one moment."""

    def __init__(self, readings: list[Reading]) -> None:
        self.readings = {reading.metric.name: reading for reading in readings}

    def value(self, name: str, *labels: str) -> float:
        value = self.readings[f"holdfast_{name}"].values[labels]
        assert not isinstance(value, Spread)
        return float(value)

    def spread(self, name: str, *labels: str) -> Spread:
        value = self.readings[f"holdfast_{name}"].values[labels]
        assert isinstance(value, Spread)
        return value

    def that_happened(self, name: str) -> dict[tuple[str, ...], float]:
        """The values that are not zero."""
        values = self.readings[f"holdfast_{name}"].values
        return {labels: value for labels, value in values.items() if not isinstance(value, Spread) and value}

    def totals(self) -> dict[tuple[str, ...], float]:
        """Everything that must never get smaller, by name and labels."""
        found: dict[tuple[str, ...], float] = {}
        for name, reading in self.readings.items():
            for labels, value in reading.values.items():
                if isinstance(value, Spread):
                    found |= {(name, *labels, str(number)): each for number, each in enumerate(value.cumulative)}
                    found[name, *labels, "sum"] = value.sum
                elif reading.metric.type == "counter":
                    found[name, *labels] = float(value)
        return found


async def look_at(server: Server, *, sessions_max: int = 0) -> Look:
    return Look(await read_metrics(server.node, sessions_max=sessions_max))
