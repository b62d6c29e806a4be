"""Looks at a node's metrics: one value, or all of them as Prometheus would see them."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from prometheus_client import Metric

from holdfast import Server
from holdfast.schemas.node import SpreadInfo
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

    def __init__(self, families: list[Metric]) -> None:
        self.families = families
        self._values: dict[str, dict[tuple[str, ...], float]] = {}
        for family in families:
            # A family is there even if nothing of it is.
            self._values[f"{family.name}_total" if family.type == "counter" else family.name] = {}
            for sample in family.samples:
                self._values.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """By the values of the labels."""
        return self._values[f"holdfast_{name}"]

    def value(self, name: str, *labels: str) -> float:
        return self.values(name)[labels]

    def spread(self, name: str, *labels: str) -> SpreadInfo:
        buckets = {le: value for (*each, le), value in self.values(f"{name}_bucket").items() if tuple(each) == labels}
        bounds = [float(le) for le in buckets if le != "+Inf"]
        return SpreadInfo(bounds, list(map(int, buckets.values())), self.value(f"{name}_sum", *labels))

    def that_happened(self, name: str) -> dict[tuple[str, ...], float]:
        """The values that are not zero."""
        return {labels: value for labels, value in self.values(name).items() if value}

    def totals(self) -> dict[tuple[str, ...], float]:
        """Everything that must never get smaller, by name and labels."""
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in self.families
            if family.type != "gauge"
            for sample in family.samples
        }


async def look_at(server: Server, *, sessions_max: int = 0) -> Look:
    return Look(await server.parts.exposition.families(sessions_max=sessions_max))
