"""How long Python's garbage collector stops the process each time."""

import gc
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any


class GcPauses:
    """Measures every collection, from `start` to `stop`."""

    def __init__(self, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._began_at: float | None = None

    def start(self) -> None:
        gc.callbacks.append(self._collects)

    def stop(self) -> None:
        """Idempotent."""
        with suppress(ValueError):
            gc.callbacks.remove(self._collects)

    def _collects(self, phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            self._began_at = perf_counter()
        elif self._began_at is not None:
            self._observe(perf_counter() - self._began_at)
            self._began_at = None
